# What failed, from the log of `cargo test -- --show-output`, read twice: `awk -f tools/failed.awk LOG LOG`. The first time it learns
# which tests failed; the second time it prints what these said. A long log ends with what its reader looks for.

# Lines shown of what one test said.
BEGIN { shown_max = 25 }

FNR == NR && /^test .* \.\.\. FAILED$/ { failed[$2] = 1 }
FNR == NR && /^ +Running / { delete slow }
FNR == NR && /^test .* has been running for over / { slow[$2] = 1 }
FNR == NR && /^test .* \.\.\. / { delete slow[$2] }
# Its program was ended (tools/limited.sh): whatever had not ended by then hangs.
FNR == NR && /exit status: (124|137)|signal: 9/ { for (name in slow) hung[name] = 1 }
FNR == NR { next }

/^ +Running / { program = $0 }
/^---- .* stdout ----$/ {
    shown = failed[$2] ? shown_max : 0
    delete failed[$2]
    if (shown) print "\nFAILED:" program
}
/^(failures|successes):$/ { shown = 0 }
shown > 0 { print; shown-- }

END { for (name in hung) print "HANGS: " name }

# A program that was killed says no more of its tests, and one that does not compile has none.
/^error|^ +--> |\(signal: / { print }
