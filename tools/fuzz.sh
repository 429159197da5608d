#!/usr/bin/env bash
# `make fuzz`: every fuzz target for FUZZ_SECONDS (20 unless told) on a nightly compiler, which the sanitizer needs.
# What a target crashes on is kept in proof/fuzz/artifacts; what it learnt, in proof/fuzz/corpus.

. "$(dirname "${BASH_SOURCE[0]}")/step.sh"
. tools/build.sh

readonly CARGO_FUZZ=0.13.2
readonly TOOLS=$PWD/target/tools/cargo-fuzz-$CARGO_FUZZ

install_cargo_fuzz() { cargo install cargo-fuzz --version "$CARGO_FUZZ" --locked --root "$TOOLS"; }

nightly() { rustup toolchain install nightly --profile minimal --no-self-update; }

# fuzz VERB ARGUMENTS...
fuzz() { rustup run nightly "$TOOLS/bin/cargo-fuzz" fuzz "$1" --fuzz-dir proof/fuzz "${@:2}"; }

begin "make fuzz"
seconds=${FUZZ_SECONDS:-20}
[[ $seconds =~ ^[1-9][0-9]{0,5}$ ]] || fail "FUZZ_SECONDS=$seconds is not a number of seconds" "for instance: make fuzz FUZZ_SECONDS=60"
[ -e proof/fuzz/Cargo.toml ] || fail "there are no fuzz targets: proof/fuzz/Cargo.toml is missing" "check out the whole repository"
command -v c++ >/dev/null || fail "there is no C++ compiler, which the fuzzer is built with" "as root, run: apt-get install g++"
set_up build
rustup toolchain list | grep -q '^nightly-' ||
    step "Installing nightly Rust" "check the network, then: rustup toolchain install nightly" nightly
[ -x "$TOOLS/bin/cargo-fuzz" ] ||
    step "Installing cargo-fuzz $CARGO_FUZZ into target/tools" "check the network" install_cargo_fuzz
step "Building the fuzz targets" "correct what the compiler says" fuzz build
targets=$(fuzz list)
[ -n "$targets" ] || fail "proof/fuzz/Cargo.toml names no targets" "name each as a [[bin]]"
for target in $targets; do
    step "Fuzzing $target for $seconds s" "the input is in proof/fuzz/artifacts/$target; again: cargo +nightly fuzz run --fuzz-dir proof/fuzz $target FILE" \
        fuzz run "$target" -- "-max_total_time=$seconds" -timeout=10 -rss_limit_mb=4096 -print_final_stats=1
done
pass "$(wc -w <<<"$targets") fuzz targets, $seconds s each"
