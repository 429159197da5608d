#!/usr/bin/env bash
# `make web`, `make web-figures`: a web server over messages and shared memory, and its figures beside sockets.
#
#   tools/web.sh serve DIR    serves DIR, with a door for browsers on loopback, until it is interrupted
#   tools/web.sh figures      the figures, to target/web: CSV and JSON. Nothing else should run on the machine meanwhile
#   tools/web.sh smoke        a little of everything, to target/web/smoke, to see that it works: no figures

. "$(dirname "${BASH_SOURCE[0]}")/step.sh"
. tools/build.sh

case "${1:-}" in
serve)
    begin "make web"
    [ -d "${2:-}" ] || fail "there is no directory ${2:-} to serve" "name one: make web DIR=path"
    ;;
figures | smoke) begin "make web-figures" ;;
*)
    echo "usage: tools/web.sh serve DIR | figures | smoke" >&2
    exit 2
    ;;
esac
set_up build
if [ "$1" = figures ]; then
    shipped web
    step "Measuring" "read the message above" target/dist/web figures --out target/web
    pass "the figures are in target/web: hyper.csv, hyper.json"
    exit
fi
step "Building the web server (the first time takes minutes: wasmtime is large)" "correct what the compiler says" \
    cargo build --locked --release --workspace --bin web
if [ "$1" = smoke ]; then
    step "Measuring a little" "read the message above" target/release/web figures --smoke --out target/web/smoke
    pass "it works; there are no figures"
else
    step "Serving $2" "read the message above" target/release/web both "$2"
    pass "served $2"
fi
