#!/usr/bin/env bash
# `make hostile`: how long a good chain takes beside each attack of catena/tests, how long without, and the most memory that the attacked node held, to
# target/hostile/result.json. One attack at a time; nothing else should run on the machine meanwhile. Attackers, client and nodes share it: what they take of
# the processor counts.

. "$(dirname "${BASH_SOURCE[0]}")/step.sh"
. tools/build.sh

readonly FOLDER=target/hostile
# The design's bound.
readonly TIMES_MAX=2

# All tests of these programs and modules are attacks; one that says no figure is named.
attack() {
    local said=$FOLDER/said.txt
    mkdir -p "$FOLDER"
    test_of attacks_core | tee "$said"
    test_of attacks_links | tee -a "$said"
    test_of processes attacking:: | tee -a "$said"
    test_of durable folder_that_was_deleted | tee -a "$said"
}

test_of() { CATENA_HOSTILE_FIGURES=1 cargo test --locked --release --workspace --test "$1" -- --test-threads 1 --nocapture "${@:2}"; }

result() {
    awk -v most="$TIMES_MAX" -f tools/hostile.awk "$FOLDER/said.txt" >"$FOLDER/result.json"
    cat "$FOLDER/result.json"
}

# listed WHAT: the names in that list of the result.
listed() { sed -n "s/^  \"$1\": \\[\\(.*\\)\\],\\?\$/\\1/p" "$FOLDER/result.json"; }

begin "make hostile"
set_up build
step "Attacking (some minutes)" "read the message above" attack
step "Writing it down" "no line says how long chains took: see $FOLDER/said.txt" result
outside=$(listed outside) unmeasured=$(listed unmeasured)
[ -z "$unmeasured" ] || fail "these tests measured nothing: $unmeasured" "use processes/latency.rs there"
[ -z "$outside" ] || fail "beside these, chains take more than $TIMES_MAX times as long: $outside" \
    "run it again with nothing else on the machine; if it stays, find out why: the figures are in $FOLDER/result.json"
pass "beside each attack chains take at most $TIMES_MAX times as long; the figures are in $FOLDER/result.json"
