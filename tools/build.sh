# shellcheck shell=bash
# The steps that every target shares, for the scripts beside this one to source after step.sh.

# What an incremental build keeps for the next one takes a sixth longer: it is kept where somebody has built so before.
# Cargo makes the folder, empty, in every build.
[ -n "$(ls -A target/release/incremental 2>/dev/null)" ] || export CARGO_INCREMENTAL=0

# Whoever adds a dependency commits the lock file with it, so that everyone builds the same. For this machine only:
# other systems' crates are many and large.
fetch() { cargo fetch --locked --target "$(rustc -vV | sed -n 's/^host: //p')"; }

# set_up build | set_up tests
set_up() {
    # It says its own steps, and its own verdict if one fails.
    tools/bootstrap.sh "$1" || exit 1
    step "Fetching crates" "check the network; if it says that the lock file needs to be updated: cargo build, and commit Cargo.lock" fetch
    guests
}

# For the whole workspace even where one binary is wanted: another choice of packages is another choice of features, and
# wasmtime would be built once more.
xtask() {
    cargo build --locked --release --workspace --bin xtask
    target/release/xtask "$@"
}

guests() {
    step "Building the guests: the JavaScript engine, to WebAssembly" "read the message above; tools are in target/tools, and may be deleted to fetch them again" \
        xtask guests
}

build() {
    step "Building the workspace (the first time takes minutes: wasmtime is large)" "correct what the compiler says" \
        cargo build --locked --release --workspace
}

# shipped BINARY: into target/dist, as it is packed, installed and measured.
shipped() {
    step "Building $1 as it is shipped (the first time takes some ten minutes: everything is optimised as one)" "correct what the compiler says" \
        cargo build --locked --profile dist --workspace --bin "$1"
}

# Says whether a file was written after the script began.
fresh() { [ -s "$1" ] && [ "$1" -nt "$2" ]; }
