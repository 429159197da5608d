# shellcheck shell=bash
# The checks that are no tests, for the scripts beside this one to source after step.sh.

formatting() {
    cargo fmt --all --check
    # Workspaces of their own, which the root does not reach.
    local manifest
    for manifest in guest/wasm/Cargo.toml proof/fuzz/Cargo.toml proof/explore/Cargo.toml; do
        [ ! -e "$manifest" ] || cargo fmt --all --check --manifest-path "$manifest"
    done
}

# On the stable compiler, without the fuzzer, which is C++, and without wasmtime: the one target that needs it has its body in a
# test of the guest.
fuzz_targets() {
    cargo check --locked --manifest-path proof/fuzz/Cargo.toml --no-default-features --bins --target-dir target/fuzz-check
}

checks() {
    step "Checking the formatting" "cargo fmt --all (and with --manifest-path for guest/wasm, proof/fuzz and proof/explore)" formatting
    step "Checking that every dependency has its reason" "correct docs/dependencies.md as the message says" tools/dependencies.sh
    step "Checking the invariants of the house" "ARCHITECTURE.md says why; tools/xtask/src/tidy.rs has the tables" \
        xtask tidy
    step "Running clippy" "correct what it says; clippy.toml gives the reason of each ban" \
        cargo clippy --locked --release --workspace --all-targets -- -D warnings
    step "Compiling the fuzz targets" "correct what the compiler says; proof/fuzz/README.md" fuzz_targets
}
