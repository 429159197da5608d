# shellcheck shell=bash
# The checks that are no tests, for the scripts beside this one to source after step.sh.

formatting() {
    cargo fmt --all --check
    # Workspaces of their own, which the root does not reach.
    local manifest
    for manifest in guest/wasm/Cargo.toml proof/fuzz/Cargo.toml; do
        [ ! -e "$manifest" ] || cargo fmt --all --check --manifest-path "$manifest"
    done
}

checks() {
    step "Checking the formatting" "cargo fmt --all (and with --manifest-path for guest/wasm and fuzz)" formatting
    step "Checking that every dependency has its reason" "correct docs/dependencies.md as the message says" tools/dependencies.sh
    step "Checking the invariants of the house" "ARCHITECTURE.md says why; tools/xtask/src/tidy.rs has the tables" \
        xtask tidy
    step "Running clippy" "correct what it says; clippy.toml gives the reason of each ban" \
        cargo clippy --locked --release --workspace --all-targets -- -D warnings
}
