#!/usr/bin/env bash
# `make web`, `make web-figures`: a web server over messages and shared memory, and its figures beside sockets.
#
#   tools/web.sh serve DIR [hyper|jetty]
#                             serves DIR, with a door for browsers on loopback, until it is interrupted
#   tools/web.sh figures FOLDER [--gib-max N]
#                             the figures, hyper's and Jetty's, to FOLDER: CSV, SVG, JSON; their keys are added to those in its summary.json. Nothing else should run on the machine meanwhile
#   tools/web.sh profile hyper|jetty [--bytes N] [--way in-place|copied|tcp|sockets] [--uncached] [--one-core] [--seconds N]
#                             one fetch, of 1 KiB in place if not said otherwise, over and over, for a profiler, until it is interrupted or so long; client and server have a core each,
#                             if they are not to share one
#   tools/web.sh smoke FOLDER a little of everything, to FOLDER, to see that it works: no figures

. "$(dirname "${BASH_SOURCE[0]}")/step.sh"
. tools/build.sh

case "${1:-}" in
serve)
    begin "make web"
    [ -d "${2:-}" ] || fail "there is no directory ${2:-} to serve" "name one: make web DIR=path"
    readonly SERVER=${3:-hyper}
    ;;
figures | smoke)
    begin "make web-figures"
    [ -n "${2:-}" ] || fail "there is no folder for the figures" "name one: tools/web.sh $1 FOLDER"
    readonly SERVER=jetty
    ;;
profile)
    begin "profiling the web server"
    readonly SERVER=${2:-}
    ;;
*)
    echo "usage: tools/web.sh serve DIR [SERVER] | figures FOLDER [--gib-max N] | profile SERVER | smoke FOLDER" >&2
    exit 2
    ;;
esac
[ "$SERVER" = hyper ] || [ "$SERVER" = jetty ] || fail "there is no server '$SERVER'" "name one: hyper or jetty"
# What a JVM has run often it compiles, on the core on which it serves: it runs so long before it is measured, for each size.
readonly WARM_MS=10000
# As `web` starts it; it finds the C interface by CATENA_LIBRARY.
readonly JETTY="java -cp $PWD/target/java/lib/* catena.jetty.Measured {FOLDER} {CACHE}"

# measure FOLDER OF [--smoke]: both servers, as they are built in target/OF, and the drawings.
measure() {
    local folder=$1 of=target/$2
    shift 2
    # Inside another script it adds to what that measured.
    [ -n "$inside" ] || rm -f "$folder/summary.json"
    step "Measuring hyper" "read the message above" "$of/web" figures --out "$folder" "$@"
    step "Measuring Jetty" "read the message above" env "CATENA_LIBRARY=$PWD/$of/libcatena_c.so" "$of/web" figures --out "$folder" --name jetty \
        --server "$JETTY" "$@"
    step "Drawing the figures" "read the message above" target/release/quatrain draw "$folder"
}

# built BINARY...: the day-to-day build of these and of the C interface.
built() {
    local programs=("${@/#/--bin=}")
    step "Building the web server (the first time takes minutes: wasmtime is large)" "correct what the compiler says" \
        cargo build --locked --release --workspace --lib "${programs[@]}"
}

# Of a server other than hyper `web` is told how it is started.
other=()
if [ "$SERVER" = jetty ]; then
    set_up java
    tools/java.sh || exit 1
    other=(--server "$JETTY")
    export CATENA_LIBRARY=$PWD/target/release/libcatena_c.so
else
    set_up build
fi
case $1 in
serve)
    built web
    say "Serving $2"
    # It runs until Ctrl-C, which is how it is meant to end.
    exec target/release/web both "${other[@]}" "$2"
    ;;
profile)
    built web
    say "Fetching over and over"
    if [ "$SERVER" = jetty ]; then
        # Else a profiler does not see who called what Java compiled.
        other=(--server "${JETTY/#java/java -XX:+PreserveFramePointer}")
        say "For the names of what Java compiled: jcmd PROCESS Compiler.perfmap, while it runs, before perf report"
    fi
    exec target/release/web profile "${other[@]}" "${@:3}"
    ;;
smoke)
    built web quatrain
    measure "$2" release --smoke
    pass "it works; there are no figures"
    ;;
figures)
    built quatrain
    shipped web
    step "Building the C interface as it is shipped" "correct what the compiler says" cargo build --locked --profile dist --workspace --lib
    measure "$2" dist --warm-ms "$WARM_MS" "${@:3}"
    pass "the figures are in $2: hyper and jetty as CSV, JSON and figure-3-*.svg; summary.json"
    ;;
esac
