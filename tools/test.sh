#!/usr/bin/env bash
# `make test`: everything that proves that Catena works, from a fresh clone.

. "$(dirname "${BASH_SOURCE[0]}")/step.sh"
. tools/build.sh
. tools/checks.sh

readonly LOG=target/test.log

# tested CHOICE...: runs the tests of that choice of packages.
tested() {
    mkdir -p target
    limited
    # Two for each processor: they mostly wait for processes that they have started.
    cargo test --locked --release "$@" --lib --bins --tests --no-fail-fast -- \
        --show-output --test-threads "$(($(nproc) * 2))" 2>&1 | tee "$LOG" && return
    awk -f tools/failed.awk "$LOG" "$LOG"
    return 1
}

# A test that hangs must be named, not found out by whoever waits for all of them.
limited() {
    local runner
    runner=CARGO_TARGET_$(rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')_RUNNER
    export "$runner=$PWD/tools/limited.sh"
}

# The core's tests take minutes to build, and are built once: with the bugs that some of them put in.
readonly ALL_BUT_CORE=(--workspace --exclude catena-core)
readonly CORE=(-p catena-core --features seeded-bugs)

# With the tests at once: what those ask of their dependencies would have half of the workspace built a second time.
build_with_tests() { cargo build --locked --release "${ALL_BUT_CORE[@]}" --lib --bins --tests; }

begin "make test"
set_up tests
step "Building the workspace and its tests (the first time takes minutes: wasmtime is large)" "correct what the compiler says" \
    build_with_tests
# All of these crates are tested even if one fails: one run shows the whole picture. What tests say shows too: seeds, states, figures.
step "Running the tests" "the failed ones are named above; one alone: cargo test --release -p CRATE NAME" tested "${ALL_BUT_CORE[@]}"
# Some of these are tests of the tests: each mistake that is put in on purpose must be caught.
step "Running the tests of the core, in which bugs are put in on purpose" "the failed ones are named above (a bug that nothing catches: the model has lost a promise, or a test its point); one alone: cargo test --release ${CORE[*]} NAME" \
    tested "${CORE[@]}"
# What threads share of the right to reply, in every order that a few of them can take.
step "Exploring the right to reply with loom and shuttle" "the way that fails is above; proof/explore" \
    cargo test --locked --release --manifest-path proof/explore/Cargo.toml --target-dir target/explore
step "Running the examples in the documentation" "they are in the comments of the files named above" \
    cargo test --locked --release --workspace --doc --no-fail-fast
checks
pass "every test and check"
