#!/usr/bin/env bash
# `make exact`: the exact end of calls with many answers, at ten million calls.

. "$(dirname "${BASH_SOURCE[0]}")/step.sh"
. tools/build.sh

begin "make exact"
set_up build
mkdir -p target/exact
export CATENA_EXACT_CALLS="${1:-10000000}" CATENA_EXACT_RESULT="$PWD/target/exact/result.json"
step "Making $CATENA_EXACT_CALLS calls" "target/exact/result.json says how many ended too early, too late or never" \
    cargo test --locked --release --workspace --test exact -- --nocapture
pass "$(cat target/exact/result.json)"
