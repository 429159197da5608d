#!/usr/bin/env bash
# `make book`: the book, as pages for a browser. Whether its links lead somewhere is a part of `make lint` and `make test`, which need no mdbook.

. "$(dirname "${BASH_SOURCE[0]}")/step.sh"

readonly MDBOOK=0.5.4
readonly TOOLS=$PWD/target/tools/mdbook-$MDBOOK

# Without its web server and its watching of files, which would be half of what is compiled.
install_mdbook() { cargo install mdbook --version "$MDBOOK" --locked --no-default-features --features search --root "$TOOLS"; }

book() {
    local said
    said=$("$TOOLS/bin/mdbook" build docs 2>&1) || { echo "$said" >&2; return 1; }
    echo "$said" >&2
    # It goes on after a warning; a book with warnings is not done.
    ! grep -qE '^ *(WARN|ERROR)' <<<"$said"
}

begin "make book"
[ -x "$TOOLS/bin/mdbook" ] ||
    step "Installing mdbook $MDBOOK into target/tools (some minutes)" "check the network" install_mdbook
step "Building the book" "correct the page that it names" book
pass "the book begins at target/book/index.html"
