#!/usr/bin/env bash
# `make glickr`: photos on a globe, in your browser, from twelve search engines as each of them answers. Ctrl-C ends it.
#
#   tools/glickr.sh [FLAGS]          builds it and opens the page; FLAGS are those of `target/release/glickr --help`
#   tools/glickr.sh figures DIR      measures it instead, into DIR

. "$(dirname "${BASH_SOURCE[0]}")/step.sh"
. tools/build.sh

begin "make glickr"
tools/bootstrap.sh page || exit 1
set_up build
step "Preparing the page" "check the network, then try again" apps/glickr/prepare.sh
step "Building Glickr (the first time takes minutes: wasmtime is large)" "correct what the compiler says" \
    cargo build --locked --release --workspace --bin glickr
say "Starting Glickr"
# It runs until Ctrl-C, which is how it is meant to end.
exec target/release/glickr "$@"
