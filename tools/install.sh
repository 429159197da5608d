#!/usr/bin/env bash
# `make install`: builds the `catena` command as it is shipped, and puts it into PREFIX/bin (~/.local/bin unless told).

. "$(dirname "${BASH_SOURCE[0]}")/step.sh"
. tools/build.sh

begin "make install"
bin=${PREFIX:-$HOME/.local}/bin
set_up build
shipped catena
step "Installing catena into $bin" "name a folder that you may write to: make install PREFIX=..." \
    install -D -m 755 target/dist/catena "$bin/catena"
case ":$PATH:" in
*":$bin:"*) pass "catena is installed; begin with: catena dev" ;;
*) pass "$bin/catena is installed; put $bin into your PATH, and begin with: catena dev" ;;
esac
