#!/usr/bin/env bash
# limited.sh PROGRAM...: a test program, ended with all that it started if it takes so long that something in it hangs. Cargo runs each through this.

set -euo pipefail

# The longest take two minutes on an idle machine; beside other work eight times as long is no fault.
readonly RUN_S_MAX=900

exec timeout --verbose --kill-after=10 "$RUN_S_MAX" "$@"
