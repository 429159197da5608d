#!/usr/bin/env bash
# `make corsair`, `make mapreduce`: builds an application of the Quatrain paper and shows it.
#
#   tools/application.sh NAME [ARGUMENTS]

. "$(dirname "${BASH_SOURCE[0]}")/step.sh"
. tools/build.sh

readonly NAME=${1:?usage: tools/application.sh NAME [ARGUMENTS]}
shift

begin "make $NAME"
set_up build
step "Building $NAME (the first time takes minutes: wasmtime is large)" "correct what the compiler says" \
    cargo build --locked --release --workspace --bin "$NAME"
step "Running it" "read the message above; make test says whether the parts work" "target/release/$NAME" "$@"
pass "$NAME"
