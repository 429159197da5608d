#!/usr/bin/env bash
# `make dfs`, `make clerks`: the file service whose clerks read its caches, and its figures beside the paper's.
#
#   tools/clerks.sh            the figures, to target/clerks: CSV and summary.json. Nothing else should run on the machine meanwhile
#   tools/clerks.sh smoke      a little of everything, to target/clerks/smoke, to see that it works: no figures
#   tools/clerks.sh serve DIR  serves DIR, until it is interrupted

. "$(dirname "${BASH_SOURCE[0]}")/step.sh"
. tools/build.sh

readonly HOW=${1:-figures}

case "$HOW" in
figures | smoke) begin "make clerks" ;;
serve)
    begin "make dfs"
    [ -d "${2:-}" ] || fail "there is no directory ${2:-} to serve" "name one: make dfs DIR=path"
    ;;
*)
    echo "usage: tools/clerks.sh [smoke | serve DIR]" >&2
    exit 2
    ;;
esac
set_up build
if [ "$HOW" = figures ]; then
    # The figures are of what is shipped.
    step "Building what is shipped (minutes)" "correct what the compiler says" cargo build --locked --profile dist --workspace --bin dfs
    step "Measuring" "read the message above" target/dist/dfs figures --out target/clerks
    pass "the figures are in target/clerks: summary.json, operations.csv, mix.csv"
    exit
fi
step "Building the file service (the first time takes minutes: wasmtime is large)" "correct what the compiler says" \
    cargo build --locked --release --workspace --bin dfs
if [ "$HOW" = smoke ]; then
    step "Measuring a little" "read the message above" target/release/dfs figures --smoke --out target/clerks/smoke
    pass "it works; there are no figures"
else
    step "Serving $2" "read the message above" target/release/dfs both "$2"
    pass "served $2"
fi
