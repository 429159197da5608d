#!/usr/bin/env bash
# `make lint`: the checks of `make test` without its tests.

. "$(dirname "${BASH_SOURCE[0]}")/step.sh"
. tools/build.sh
. tools/checks.sh

begin "make lint"
set_up build
checks
pass "every check"
