#!/usr/bin/env bash
# `make bench`: the figures. Nothing else should run on the machine meanwhile.

. "$(dirname "${BASH_SOURCE[0]}")/step.sh"
. tools/build.sh

readonly SUMMARY=target/bench/summary.json

begin "make bench"
set_up build
step "Building the benchmark" "correct what the compiler says" cargo build --locked --release --workspace --bin catena-bench
mkdir -p target/bench
stamp=$(mktemp target/bench/.began.XXXXXX)
step "Measuring" "read the message above" target/release/catena-bench
if ! fresh "$SUMMARY" "$stamp"; then
    rm -f "$stamp"
    fail "the benchmark wrote no $SUMMARY" "this is a mistake in the benchmark: please report it"
fi
rm -f "$stamp"
pass "measured; the figures are in $SUMMARY"
