#!/usr/bin/env bash
# `make hostile`: how long a good chain takes beside each attack of catena/tests, and how long without, to target/hostile/result.json.
# One attack at a time; nothing else should run on the machine meanwhile. Attackers, client and nodes share it: what they take of the processor counts.

. "$(dirname "${BASH_SOURCE[0]}")/step.sh"
. tools/build.sh

readonly FOLDER=target/hostile
# The design's bound.
readonly TIMES_MAX=2

attack() {
    mkdir -p "$FOLDER"
    cargo test --locked --release --workspace --test attacks_core --test attacks_links --test processes -- \
        --test-threads 1 --nocapture attacking hurt halves answers memory | tee "$FOLDER/said.txt"
}

result() {
    awk -v most="$TIMES_MAX" -f tools/hostile.awk "$FOLDER/said.txt" >"$FOLDER/result.json"
    cat "$FOLDER/result.json"
}

begin "make hostile"
set_up build
step "Attacking (some minutes)" "read the message above" attack
step "Writing it down" "no line says how long chains took: see $FOLDER/said.txt" result
pass "how long chains take beside each attack is in $FOLDER/result.json"
