#!/usr/bin/env bash
# `make test`: everything that proves that Catena works, from a fresh clone.

. "$(dirname "${BASH_SOURCE[0]}")/step.sh"
. tools/build.sh
. tools/checks.sh

declare -rx LOGS=target/test
# tested CHOICE...: runs the tests of each choice of packages and programs beside those of the others, and says which failed.
tested() {
    local log status=0
    rm -rf "$LOGS" && mkdir -p "$LOGS"
    limited
    export -f run_tests
    printf '%s\n' "$@" | xargs --max-procs=0 --max-lines=1 bash -euo pipefail -c 'run_tests "$@"' - || status=1
    [ "$status" -eq 0 ] || for log in "$LOGS"/*.log; do
        awk -f tools/failed.awk "$log" "$log"
    done
    return "$status"
}

run_tests() {
    # More at a time than there are processors: most of them wait for processes that they have started.
    cargo test --locked --release "$@" --no-fail-fast -- --show-output --test-threads "$(($(nproc) * 2))" 2>&1 |
        tee "$LOGS/$$.log"
}

# A test that hangs must be named, not found out by whoever waits for all of them.
limited() {
    local runner
    runner=CARGO_TARGET_$(rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')_RUNNER
    export "$runner=$PWD/tools/limited.sh"
}

# The core's tests take minutes to build, and are built once: with the bugs that some of them put in.
readonly ALL_BUT_CORE="--workspace --exclude catena-core"
readonly CORE="-p catena-core --features seeded-bugs"

# Cargo runs one program after the other, and the last test of each leaves processors idle: so these run side by side. Programs that
# start NFS servers are all in the first: the portmapper, which every one of them uses, knows one at a time.
readonly SIDE_BY_SIDE=(
    "$ALL_BUT_CORE --test [acgnopr]*"
    "$ALL_BUT_CORE --lib --bins --test [!acgnopr]*"
    # What threads share of the right to reply, in every order that a few of them can take: by loom and shuttle.
    "--manifest-path proof/explore/Cargo.toml --target-dir target/explore"
)

# With the tests at once: what those ask of their dependencies would have half of the workspace built a second time.
# shellcheck disable=SC2086 # each word is an argument
build_with_tests() { cargo build --locked --release $ALL_BUT_CORE --lib --bins --tests; }

# Of the same packages as before, for the same reason.
# shellcheck disable=SC2086
run_examples() {
    local choice status=0
    for choice in "$ALL_BUT_CORE" "$CORE"; do
        cargo test --locked --release $choice --doc --no-fail-fast || status=1
    done
    return "$status"
}

begin "make test"
set_up tests
step "Building the workspace and its tests (the first time takes minutes: wasmtime is large)" "correct what the compiler says" \
    build_with_tests
# All of these crates are tested even if one fails: one run shows the whole picture. What tests say shows too: seeds, states, figures.
step "Running the tests" "the failed ones are named above; one alone: cargo test --release -p CRATE NAME (what loom and shuttle find: in proof/explore)" \
    tested "${SIDE_BY_SIDE[@]}"
# Some of these are tests of the tests: each mistake that is put in on purpose must be caught.
step "Running the tests of the core, in which bugs are put in on purpose" "the failed ones are named above (a bug that nothing catches: the model has lost a promise, or a test its point); one alone: cargo test --release $CORE NAME" \
    tested "$CORE --lib --tests"
step "Running the examples in the documentation" "they are in the comments of the files named above" \
    run_examples
checks
pass "every test and check"
