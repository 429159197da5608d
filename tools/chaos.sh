#!/usr/bin/env bash
# `make chaos`: chains with numbered effects over real nodes, to which all kinds of things happen meanwhile: 200,000 in 100 parts.
# A run that was broken off goes on with ARGS="--seed N" where N is the seed that it printed.
# `make chaos-bugs`: the same over nodes with a bug of the protocol each time (core/src/bug.rs): which of them it finds, and after how many chains.
# It fails if it does not find one of those that it must.

. "$(dirname "${BASH_SOURCE[0]}")/step.sh"
. tools/build.sh

# A long stop and a twin are left out: what is found without them is found sooner.
faults=kill,kill-two,restart,stop,cut,freeze,echo

# What was found within 400 chains (docs/src/chaos.md). Others cannot show here, or show rarely.
must_find="RepeatRuns LossDenied StepBefore AnswerTwice AnswersRenumbered MergeTooEarly BranchNumbersAgain FrameDropped HopsForFree OriginWaitsForEver"

# A build with bugs has the same name; it is copied out of the way, and nobody else gets it.
build_with_bugs() {
    cargo build --locked --release --workspace --bin catena-chaos --features catena-chaos/seeded-bugs
    mkdir -p target/chaos
    cp target/release/catena-chaos target/chaos/catena-chaos-bugs
    cargo build --locked --release --workspace --bin catena-chaos
}

# Without a bug nothing is found, or the table would say nothing.
look_for_each() {
    local bug result found
    target/chaos/catena-chaos-bugs --fault "$faults" --result target/chaos/bugs/none.json "$@"
    for bug in $(target/chaos/catena-chaos-bugs bugs); do
        result=target/chaos/bugs/$bug.json
        rm -f "$result"
        # With some a run does not end, and has no result.
        timeout 30m target/chaos/catena-chaos-bugs --bug "$bug" --fault "$faults" --result "$result" "$@" >"$result.out" 2>&1 || true
        found=$(sed -n 's/^  "found_after": \([0-9]*\),$/\1/p' "$result" || true)
        printf '%-20s %s\n' "$bug" "${found:-not found}"
    done | tee target/chaos/bugs.txt
}

all_found() {
    local bug missed=""
    for bug in $must_find; do
        grep -q "^$bug  *[0-9][0-9]*$" target/chaos/bugs.txt || missed="$missed $bug"
    done
    [ -z "$missed" ] || { echo "not found:$missed"; return 1; }
}

case ${1:-} in
    bugs) begin "make chaos-bugs" ;;
    *) begin "make chaos" ;;
esac
set_up build
if [ "${1:-}" = bugs ]; then
    shift
    step "Building nodes with bugs" "correct what the compiler says" build_with_bugs
    step "Looking for each bug" "see target/chaos/bugs" look_for_each --seed 1 --in-flight 32 "$@"
    step "Whether those were found that must be" "a tester that misses what it found before proves nothing: see target/chaos/bugs" all_found
    pass "which bugs were found after how many chains is in target/chaos/bugs.txt"
    exit
fi
step "Building the nodes" "correct what the compiler says" cargo build --locked --release --workspace --bin catena-chaos
step "Running chains while nodes die" "read what was found in target/chaos/result.json, and run it again with the seed that it names" \
    target/release/catena-chaos --parts 100 --in-flight 32 "$@"
pass "every chain ended as it said, and nothing was done twice; the figures are in target/chaos/result.json"
