#!/usr/bin/env bash
# `make web`, `make web-figures`: a web server over messages and shared memory, and its figures beside sockets.
#
#   tools/web.sh serve DIR    serves DIR, with a door for browsers on loopback, until it is interrupted
#   tools/web.sh figures [--gib-max N]
#                             the figures, hyper's and Jetty's, to target/web: CSV, SVG, JSON. Nothing else should run on the machine meanwhile
#   tools/web.sh profile hyper|jetty [--bytes N] [--way in-place|copied|tcp|sockets] [--seconds N]
#                             one fetch, of 1 KiB in place if not said otherwise, over and over, for a profiler, until it is interrupted or so long
#   tools/web.sh smoke        a little of everything, to target/web/smoke, to see that it works: no figures

. "$(dirname "${BASH_SOURCE[0]}")/step.sh"
. tools/build.sh

case "${1:-}" in
serve)
    begin "make web"
    [ -d "${2:-}" ] || fail "there is no directory ${2:-} to serve" "name one: make web DIR=path"
    ;;
figures | smoke) begin "make web-figures" ;;
profile)
    begin "profiling the web server"
    [ "${2:-}" = hyper ] || [ "${2:-}" = jetty ] || fail "there is no server ${2:-} to look at" "name one: hyper or jetty"
    ;;
*)
    echo "usage: tools/web.sh serve DIR | figures [--gib-max N] | profile SERVER | smoke" >&2
    exit 2
    ;;
esac
# What a JVM has run often it compiles: it runs so long before it is measured, for each size.
readonly WARM_MS=3000
# As `web` starts it; it finds the C interface by CATENA_LIBRARY.
readonly JETTY="java -cp $PWD/target/java/lib/* catena.jetty.Measured {FOLDER} {CACHE}"

# measure FOLDER OF [--smoke]: both servers, as they are built in target/OF, and the drawings.
measure() {
    local folder=$1 of=target/$2
    shift 2
    rm -f "$folder/summary.json"
    step "Measuring hyper" "read the message above" "$of/web" figures --out "$folder" "$@"
    step "Measuring Jetty" "read the message above" env "CATENA_LIBRARY=$PWD/$of/libcatena_c.so" "$of/web" figures --out "$folder" --name jetty \
        --server "$JETTY" "$@"
    step "Drawing the figures" "read the message above" target/release/quatrain draw "$folder"
}

if [ "$1" = serve ]; then
    set_up build
    step "Building the web server (the first time takes minutes: wasmtime is large)" "correct what the compiler says" \
        cargo build --locked --release --workspace --bin web
    say "Serving $2"
    # It runs until Ctrl-C, which is how it is meant to end.
    exec target/release/web both "$2"
fi
if [ "$1" = profile ]; then
    other=()
    if [ "$2" = jetty ]; then
        set_up java
        tools/java.sh || exit 1
        other=(--server "$JETTY")
        export CATENA_LIBRARY=$PWD/target/release/libcatena_c.so
    else
        set_up build
    fi
    step "Building the web server (the first time takes minutes: wasmtime is large)" "correct what the compiler says" \
        cargo build --locked --release --workspace --lib --bin web
    say "Fetching over and over"
    exec target/release/web profile "${other[@]}" "${@:3}"
fi
set_up java
tools/java.sh || exit 1
step "Building the drawing, and what is measured a little (the first time takes minutes: wasmtime is large)" "correct what the compiler says" \
    cargo build --locked --release --workspace --lib --bin web --bin quatrain
if [ "$1" = smoke ]; then
    measure target/web/smoke release --smoke
    pass "it works; there are no figures"
    exit
fi
shipped web
step "Building the C interface as it is shipped" "correct what the compiler says" cargo build --locked --profile dist --workspace --lib
measure target/web dist --warm-ms "$WARM_MS" "${@:2}"
pass "the figures are in target/web: hyper and jetty as CSV, JSON and figure-3-*.svg; summary.json"
