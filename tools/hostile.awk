# What the tests of attacks say, as JSON:
#   test NAME ...   each of them is to say something of the next kind, but for `process`, which is what they start
#   beside ATTACK: chains N, quiet_us N, beside_us N, memory_mib N
# What the tests say may stand behind what cargo says of them. `most`: how many times as long as without an attack a chain may take.
function list(names, count,    at, all) {
    for (at = 1; at <= count; at++) all = all (at > 1 ? ", " : "") "\"" names[at] "\""
    return "[" all "]"
}
function close_test() {
    if (test != "" && test != "process" && !said) unmeasured[++unmeasured_count] = test
    test = ""
    said = 0
}
/^test [a-z_:]+ \.\.\. / {
    close_test()
    test = $2
}
/beside .*: chains [0-9]+, quiet_us [0-9]+, beside_us [0-9]+, memory_mib [0-9]+$/ {
    said = 1
    sub(/^.*beside /, "")
    split($0, parts, ": chains ")
    split(parts[2], numbers, /[^0-9]+/)
    name = parts[1]
    times = numbers[3] / numbers[2]
    within = times <= most
    if (!within) outside[++outside_count] = name
    attacks = attacks sprintf("%s    \"%s\": { \"chains\": %d, \"quiet_us\": %d, \"beside_us\": %d, \"times\": %.2f, \"within\": %s, \"memory_mib\": %d }", \
        count++ ? ",\n" : "", name, numbers[1], numbers[2], numbers[3], times, within ? "true" : "false", numbers[4])
}
END {
    close_test()
    if (!count) exit 1
    printf "{\n  \"times_max\": %d,\n  \"attacks\": {\n%s\n  },\n", most, attacks
    printf "  \"outside\": %s,\n  \"unmeasured\": %s\n}\n", list(outside, outside_count), list(unmeasured, unmeasured_count)
}
