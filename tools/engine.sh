#!/usr/bin/env bash
# `make engine` and `make verify-engine`: the guests alone.

. "$(dirname "${BASH_SOURCE[0]}")/step.sh"
. tools/build.sh

case "${1:-}" in
guests)
    begin "make engine"
    set_up build
    pass "the guests are in target/guests"
    ;;
verify-engine)
    begin "make verify-engine"
    set_up build
    step "Building the engine twice from scratch" "a path or a time of this machine is in the build: compare the two files that it names" \
        xtask verify-engine
    pass "built twice, the engine has one hash"
    ;;
*)
    echo "usage: tools/engine.sh guests|verify-engine" >&2
    exit 2
    ;;
esac
