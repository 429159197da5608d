#!/usr/bin/env bash
# `make quatrain`: the figures of the Quatrain paper's applications beside ours. Nothing else should run on the machine meanwhile.
#
#   tools/quatrain.sh          everything, to target/quatrain: CSV, SVG and summary.json; some thirty minutes
#   tools/quatrain.sh smoke    a little of everything, to target/quatrain/smoke, to see that it works: no figures

. "$(dirname "${BASH_SOURCE[0]}")/step.sh"
. tools/build.sh

# The micro benchmark is a part of the benchmark, which has servers of its own. Each application that measures: its command's name is its file's.
readonly PARTS="corsair glickr mapreduce"

# measure DIR [--smoke]: what each application that is there measures.
measure() {
    local part
    step "Measuring the micro benchmark" "read the message above" target/release/catena-bench micro "$@"
    for part in $PARTS; do
        [ -x "target/release/$part" ] || continue
        step "Measuring $part" "read the message above" "target/release/$part" figures "$@"
    done
}

case "${1:-}" in
smoke)
    begin "make quatrain-smoke"
    folder=target/quatrain/smoke
    options=(--smoke)
    set_up page
    ;;
"")
    begin "make quatrain"
    folder=target/quatrain
    options=()
    # With a real database server for each site.
    set_up tests
    ;;
*)
    echo "usage: tools/quatrain.sh [smoke]" >&2
    exit 2
    ;;
esac
step "Preparing the places of Glickr" "check the network, then: apps/glickr/prepare.sh" apps/glickr/prepare.sh
build
mkdir -p "$folder"
stamp=$(mktemp "$folder/.began.XXXXXX")
measure "$folder" "${options[@]}"
step "Drawing the figures" "read the message above" target/release/quatrain "$folder"
if ! fresh "$folder/summary.json" "$stamp"; then
    rm -f "$stamp"
    fail "nobody wrote $folder/summary.json" "this is a mistake in the program: please report it"
fi
rm -f "$stamp"
pass "the figures are in $folder: summary.json, figure-*.svg, and a CSV for each"
