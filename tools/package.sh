#!/usr/bin/env bash
# `make package`: what is shipped as one archive: the `catena` command, the C interface with its header, and the licences.

. "$(dirname "${BASH_SOURCE[0]}")/step.sh"
. tools/build.sh

pack() {
    local stage
    stage=$(mktemp -d target/.package.XXXXXX)
    install -D -m 755 target/dist/catena "$stage/$name/bin/catena"
    install -D -m 755 target/dist/libcatena_c.so "$stage/$name/lib/libcatena_c.so"
    install -D -m 644 sdk/c/include/catena.h "$stage/$name/include/catena.h"
    install -m 644 README.md LICENSE-APACHE LICENSE-MIT "$stage/$name"
    mkdir -p target/package
    # The same bytes from the same build, whoever packs it and when.
    tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -C "$stage" -czf "$archive" "$name"
    rm -rf "$stage"
}

begin "make package"
name=catena-$(sed -n '0,/^version = "\(.*\)"$/s//\1/p' Cargo.toml)-$(uname -m)-linux
archive=$PWD/target/package/$name.tar.gz
set_up build
shipped catena
step "Building the C interface as it is shipped" "correct what the compiler says" cargo build --locked --profile dist --workspace --lib
step "Packing" "read the message above" pack
pass "the archive is target/package/$name.tar.gz; unpack it, and begin with: bin/catena dev"
