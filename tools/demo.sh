#!/usr/bin/env bash
# `make demo`: the main job, by chain and by plain RPC, from a fresh clone. FILE=path copies that file.

. "$(dirname "${BASH_SOURCE[0]}")/step.sh"
. tools/build.sh

readonly RESULT=target/demo/result.json

begin "make demo"
if [ -n "${FILE:-}" ] && ! { [ -f "$FILE" ] && [ -r "$FILE" ]; }; then
    fail "FILE=$FILE is not a file that can be read" "name a file, or leave FILE out: one is made"
fi
set_up build
step "Building the demo (the first time takes minutes: wasmtime is large)" "correct what the compiler says" \
    cargo build --locked --release --workspace --bin demo --bin catena
mkdir -p target/demo
stamp=$(mktemp target/demo/.began.XXXXXX)
step "Running the demo" "read the message above; make test says whether the parts work" \
    target/release/demo
if ! fresh "$RESULT" "$stamp"; then
    rm -f "$stamp"
    fail "the demo wrote no $RESULT" "this is a mistake in the demo: please report it"
fi
rm -f "$stamp"
pass "the demo; its figures are in $RESULT"
