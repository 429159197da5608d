#!/usr/bin/env bash
# `make dfs`, `make clerks`: the file service whose clerks read its caches, and the figures of both data papers beside ours: its own, and the web server's.
#
#   tools/clerks.sh figures [--gib-max N]
#                              the figures, to target/clerks: CSV, SVG and summary.json; N is the web server's. Nothing else should run on the machine meanwhile
#   tools/clerks.sh smoke      a little of everything, to target/clerks/smoke, to see that it works: no figures
#   tools/clerks.sh serve DIR  serves DIR, until it is interrupted
#   tools/clerks.sh profile copy-read|copy-write|mix-tcp [--clerks N] [--seconds N]
#                              one thing over and over, for a profiler, until it is interrupted or so long

. "$(dirname "${BASH_SOURCE[0]}")/step.sh"
. tools/build.sh

readonly HOW=${1:-}

case "$HOW" in
figures | smoke) begin "make clerks" ;;
serve)
    begin "make dfs"
    [ -d "${2:-}" ] || fail "there is no directory ${2:-} to serve" "name one: make dfs DIR=path"
    ;;
profile) begin "profiling the clerks" ;;
*)
    echo "usage: tools/clerks.sh figures | smoke | serve DIR | profile WHAT" >&2
    exit 2
    ;;
esac

# measure FOLDER OF [--smoke]: what is built in target/OF, and the drawings.
measure() {
    local folder=$1 of=target/$2
    shift 2
    step "Measuring" "read the message above" "$of/dfs" figures --out "$folder" "$@"
    step "Drawing the figures" "read the message above" target/release/quatrain draw "$folder"
}

if [ "$HOW" = figures ]; then
    set_up build
    # The NFS server beside which the clerk is measured. Where it cannot be had the other figures can.
    tools/bootstrap.sh nfs || say "Going on without nfs-ganesha: there will be no clerk_nfs_ratio"
    step "Building the drawing (the first time takes minutes: wasmtime is large)" "correct what the compiler says" \
        cargo build --locked --release --workspace --bin quatrain
    # The figures are of what is shipped.
    shipped dfs
    measure target/clerks dist
    tools/web.sh figures target/clerks "${@:2}" || exit 1
    pass "the figures are in target/clerks: summary.json, operations, mix, clients, copies, hyper and jetty as CSV, and figure-*.svg, clients-*.svg"
    exit
fi
set_up build
programs=(--bin dfs)
[ "$HOW" != smoke ] || programs+=(--bin quatrain)
step "Building the file service (the first time takes minutes: wasmtime is large)" "correct what the compiler says" \
    cargo build --locked --release --workspace "${programs[@]}"
if [ "$HOW" = smoke ]; then
    measure target/clerks/smoke release --smoke
    tools/web.sh smoke target/clerks/smoke || exit 1
    pass "it works; there are no figures"
elif [ "$HOW" = profile ]; then
    say "Doing it over and over"
    exec target/release/dfs profile "${@:2}"
else
    say "Serving $2"
    # It runs until Ctrl-C, which is how it is meant to end.
    exec target/release/dfs both "$2"
fi
