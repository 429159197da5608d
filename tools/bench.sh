#!/usr/bin/env bash
# `make bench`: the figures, of what is shipped. Nothing else should run on the machine meanwhile.
#
#   tools/bench.sh          every figure, to target/bench/summary.json, and into the table of docs/src/figures.md
#   tools/bench.sh smoke    a little of everything, from the day-to-day build, to see that the benchmark works: no figures
#   tools/bench.sh check    every figure three times; says which moved by more than their spread

. "$(dirname "${BASH_SOURCE[0]}")/step.sh"
. tools/build.sh

readonly SUMMARY=target/bench/summary.json
readonly BENCH=target/dist/catena-bench

case "${1:-}" in
smoke)
    begin "make bench-smoke"
    set_up build
    step "Building the benchmark" "correct what the compiler says" cargo build --locked --release --workspace --bin catena-bench
    step "Trying it (half a minute)" "read the message above" target/release/catena-bench smoke
    pass "the benchmark works; target/bench/smoke.json holds no figures"
    ;;
check)
    begin "make figures-check"
    set_up build
    shipped catena-bench
    for run in 1 2 3; do
        step "Measuring, $run of 3" "read the message above" "$BENCH" to "target/bench/run-$run.json"
    done
    step "Writing the figures into docs/src/figures.md: of each that of the run in the middle" "read the message above" \
        "$BENCH" page target/bench/run-{1,2,3}.json
    step "Comparing" "mend each figure that MOVED, or drop it; on a machine where something else runs, measure again" \
        "$BENCH" compare target/bench/run-{1,2,3}.json
    pass "no figure moved by more than its spread"
    ;;
"")
    begin "make bench"
    set_up build
    shipped catena-bench
    mkdir -p target/bench
    stamp=$(mktemp target/bench/.began.XXXXXX)
    step "Measuring (some ten minutes)" "read the message above" "$BENCH"
    if ! fresh "$SUMMARY" "$stamp"; then
        rm -f "$stamp"
        fail "the benchmark wrote no $SUMMARY" "this is a mistake in the benchmark: please report it"
    fi
    rm -f "$stamp"
    step "Writing the figures into docs/src/figures.md" "read the message above" "$BENCH" page
    pass "measured; the figures are in $SUMMARY and docs/src/figures.md"
    ;;
*)
    echo "usage: tools/bench.sh [smoke|check]" >&2
    exit 2
    ;;
esac
