#!/usr/bin/env bash
# Installs what building Catena needs, and no more than is missing: a second run changes nothing and takes a second.
#
#   tools/bootstrap.sh build    for building and the demo
#   tools/bootstrap.sh page     for the page of Glickr also: npm
#   tools/bootstrap.sh tests    for the tests also: a real NFS server, an NFS client's utilities, etcd, an OCI registry, libfabric, real database servers, Java, and a browser with Glickr's page
#   tools/bootstrap.sh nfs      for the figures of the file service also: a real NFS server, and an NFS client's utilities
#   tools/bootstrap.sh java     for building and Java: the figures of Jetty
#
# It expects git, make, a C compiler and rustup. Anything else comes from rustup (the toolchain that
# rust-toolchain.toml pins) and from the system's packages (apt; sudo where the user is not root).
# The pinned C compiler for WebAssembly is not installed here: xtask fetches it into target/tools.

. "$(dirname "${BASH_SOURCE[0]}")/step.sh"

# How long to wait for another program that installs packages, in seconds.
readonly APT_LOCK_S_MAX=300
readonly GUIDE="see CONTRIBUTING.md, section Building"

# The values of one key of rust-toolchain.toml, one a line: a string or an array of strings on one line.
pinned() { sed -n "s/^$1 *= *//p" rust-toolchain.toml | grep -o '"[^"]*"' | tr -d '"'; }

has() { command -v "$1" >/dev/null 2>&1; }

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif has sudo; then
        sudo "$@"
    else
        echo "this needs root, and there is no sudo: as root, run: $*" >&2
        return 1
    fi
}

packages() {
    has apt-get || {
        echo "there is no apt-get here: install these with your system's own tool: $*" >&2
        return 1
    }
    # A machine that was never updated knows no packages, and one that was updated long ago asks for old ones.
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q -o DPkg::Lock::Timeout="$APT_LOCK_S_MAX" --no-install-recommends "$@" || {
        as_root apt-get update -q -o DPkg::Lock::Timeout="$APT_LOCK_S_MAX"
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q -o DPkg::Lock::Timeout="$APT_LOCK_S_MAX" --no-install-recommends "$@"
    }
}

# What rustup has of the pinned toolchain, against what rust-toolchain.toml names.
toolchain_is_there() {
    local channel=$1 installed one
    rustup toolchain list | grep -q "^$channel-" || return 1
    installed=$(rustup component list --toolchain "$channel" --installed) || return 1
    for one in $(pinned components) $(pinned targets); do
        grep -q -- "$one" <<<"$installed" || return 1
    done
}

toolchain() {
    local channel=$1 one arguments=()
    for one in $(pinned components); do arguments+=(--component "$one"); done
    for one in $(pinned targets); do arguments+=(--target "$one"); done
    rustup toolchain install "$channel" --profile minimal --no-self-update "${arguments[@]}"
}

# A virtual environment is made of two modules that Debian packs apart from Python itself.
venv_is_there() { has python3 && python3 -c 'import venv, ensurepip' 2>/dev/null; }

# A compiler and not only what runs.
java_is_there() { has javac && has mvn; }

# The first Python in PATH may be another than the system's, which has the system's packages.
numpy_is_there() { python3 -c 'import numpy' 2>/dev/null || /usr/bin/python3 -c 'import numpy' 2>/dev/null; }

main() {
    local channel
    case "${1:-}" in
    build | page | java | nfs | tests) ;;
    *) echo "usage: tools/bootstrap.sh build|page|java|nfs|tests" >&2 && exit 2 ;;
    esac
    begin "setting up"
    say "Looking at what is installed"
    has cc || fail "there is no C compiler" "as root, run: apt-get install gcc libc6-dev"
    has rustup || fail "there is no rustup" "install it from https://rustup.rs (or: apt-get install rustup), then run this again"
    channel=$(pinned channel)
    toolchain_is_there "$channel" ||
        step "Installing Rust $channel as rust-toolchain.toml pins it" "check the network, then: rustup toolchain install $channel" toolchain "$channel"
    cargo --version | grep -qF " $channel " ||
        fail "the first cargo in PATH, $(command -v cargo), is not rustup's" "put ~/.cargo/bin before it in PATH, or unset RUSTUP_TOOLCHAIN"
    # CATENA_ZIG names a compiler that is there already: then no Python is needed to fetch one.
    [ -n "${CATENA_ZIG:-}" ] || venv_is_there ||
        step "Installing python3 with venv, to fetch the pinned C compiler for WebAssembly" "$GUIDE" packages python3 python3-venv
    case $1 in
    java | tests)
        java_is_there || step "Installing Java 17 and Maven, for the library for Java and the Jetty connector" "$GUIDE" packages openjdk-17-jdk-headless maven
        ;;
    esac
    case $1 in
    nfs | tests)
        has nfs-ls || step "Installing libnfs's utilities, which read what a clerk serves" "$GUIDE" packages libnfs-utils
        step "Preparing the NFS server that the tests run against" "read its message above; $GUIDE" bash bridge/nfs/tests/prepare.sh
        ;;
    esac
    case $1 in
    page | tests)
        has npm || step "Installing npm, which fetches what Glickr's page draws with" "$GUIDE" packages nodejs npm
        ;;
    esac
    if [ "$1" = tests ]; then
        numpy_is_there || step "Installing Python with NumPy, with which its package is tested" "$GUIDE" packages python3 python3-numpy
        has etcd && has docker-registry ||
            step "Installing etcd and an OCI registry, which the tests run against" "$GUIDE" packages etcd-server docker-registry
        # The headers bring the library with them.
        [ -e /usr/include/rdma/fabric.h ] ||
            step "Installing libfabric, by which segments of other hosts are reached" "$GUIDE" packages libfabric1 libfabric-dev
        has chromium || step "Installing Chromium, in which Glickr is looked at" "$GUIDE" packages chromium
        step "Preparing Glickr's page" "check the network, then: apps/glickr/prepare.sh" apps/glickr/prepare.sh
        # The tests start servers of their own: this package starts none.
        has mariadbd ||
            step "Installing MariaDB, of which each site of Corsair has a server" "$GUIDE" packages mariadb-server-core
    fi
    pass "all that is needed is installed"
}

main "$@"
