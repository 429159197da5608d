#!/usr/bin/env bash
# `make chaos`: chains with numbered effects over real nodes, while those are killed, stopped and restarted.

. "$(dirname "${BASH_SOURCE[0]}")/step.sh"
. tools/build.sh

begin "make chaos"
set_up build
step "Building the nodes" "correct what the compiler says" cargo build --locked --release --workspace --bin catena-chaos
step "Running chains while nodes die" "run it again with the seed that it printed, and read the lines above" \
    target/release/catena-chaos "$@"
pass "no effect was doubled or lost, and no chain hung; the figures are in target/chaos/result.json"
