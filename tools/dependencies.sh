#!/usr/bin/env bash
# Compares docs/dependencies.md with what Cargo resolves, in each workspace: every crate from outside that one of ours
# names has a row, the row allows the one that names it, and no row is there for nothing.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly TABLE=docs/dependencies.md

# "DEPENDENCY CRATE" for each crate of ours (depth 0) and each crate from outside that it names (depth 1).
named() {
    local manifest
    for manifest in Cargo.toml guest/wasm/Cargo.toml proof/fuzz/Cargo.toml proof/explore/Cargo.toml; do
        [ -e "$manifest" ] || continue
        # Without "(*)" for what was shown before, and without ours, which have a path where others have nothing.
        cargo tree --locked --manifest-path "$manifest" --workspace --depth 1 --prefix depth --no-dedupe \
            --edges normal,build,dev --format ' {p}' |
            awk '$1 == 0 { crate = $2 } $1 == 1 && $0 !~ /\(\// { print $2, crate }'
    done | sort -u
}

# "DEPENDENCY CRATE" for each pair that the rows of four columns allow, and "! DEPENDENCY" for a row with a gap.
allowed() {
    awk -F ' *[|] *' 'NF == 6 && $2 != "crate" && $2 !~ /^-+$/ {
        if ($3 == "" || $4 == "") print "!", $2
        count = split($5, crates, / *, */)
        for (i = 1; i <= count; i++) print $2, crates[i]
    }' "$TABLE" | sort -u
}

pairs=$(named)
[ -n "$pairs" ] || { echo "cargo tree named no dependencies" >&2; exit 1; }

awk -v table="$TABLE" '
    FNR == NR && $1 == "!" { print table " gives no reason or no licence for " $2; bad = 1; next }
    FNR == NR { row[$1] = 1; allow[$1, $2] = 1; next }
    { used[$1] = 1 }
    !($1 in row) { print table " has no row for " $1 ", which " $2 " names: add one, with its reason"; bad = 1; next }
    !(($1, $2) in allow) && !(($1, "any") in allow) { print table " does not let " $2 " know " $1 ": add it to the row, or leave the dependency out"; bad = 1 }
    END {
        for (one in row) if (!(one in used)) { print table " has a row for " one ", which no crate names: take it out"; bad = 1 }
        exit bad
    }
' <(allowed) - <<<"$pairs" >&2
echo "$(cut -d ' ' -f 1 <<<"$pairs" | sort -u | wc -l) dependencies, each with its reason"
