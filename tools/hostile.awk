# beside ATTACK: chains N, quiet_us N, beside_us N; what cargo says may stand before it.
/beside .*: chains [0-9]+, quiet_us [0-9]+, beside_us [0-9]+$/ {
    sub(/^.*beside /, "")
    split($0, parts, ": chains ")
    split(parts[2], numbers, /[^0-9]+/)
    name = parts[1]
    times = numbers[3] / numbers[2]
    printf "%s  \"%s\": { \"chains\": %d, \"quiet_us\": %d, \"beside_us\": %d, \"times\": %.2f, \"within\": %s }", \
        count++ ? ",\n" : "{\n", name, numbers[1], numbers[2], numbers[3], times, times <= most ? "true" : "false"
}
END {
    if (!count) exit 1
    print "\n}"
}
