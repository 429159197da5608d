# shellcheck shell=bash
# Steps and verdicts, for the scripts beside this one to source.
#
#   begin NAME                  once, first
#   step TEXT HELP COMMAND...   says TEXT with the time since the beginning; runs COMMAND; if it fails, FAIL and HELP.
#                               COMMAND runs in a subshell: it can change files, not the script's variables
#   pass TEXT | fail TEXT HELP  the last line
#
# A script that runs inside another goes on with its clock, and leaves the last word to it unless it fails.
# While a step runs, a line every half minute says so: a long build in a log must not look like one that hangs. Talk goes to standard error; a step's own output goes where it goes.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# How often a running step is heard of, in seconds.
readonly HEARD_EVERY_S=30

begin() {
    what=$1
    inside=${STEPS_BEGAN_S:+yes}
    export STEPS_BEGAN_S=${STEPS_BEGAN_S:-$(date +%s)}
    SECONDS=$(($(date +%s) - STEPS_BEGAN_S))
    at_step=
    ticker=
    trap 'ended $?' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
}

elapsed() { printf '%d:%02d' $((SECONDS / 60)) $((SECONDS % 60)); }

say() { printf '==> [%s] %s\n' "$(elapsed)" "$*" >&2; }

pass() {
    at_step=
    [ -n "$inside" ] || printf 'PASS: %s (%s)\n' "$1" "$(elapsed)"
}

fail() {
    at_step=
    printf 'FAIL: %s. What to do: %s\n' "$1" "$2"
    exit 1
}

step() {
    local text=$1 help=$2 status=0
    shift 2
    say "$text"
    at_step=$text
    tick "$text" &
    ticker=$!
    # Not `if ! "$@"`: that would switch `set -e` off inside shell functions.
    set +e
    (set -e && "$@")
    status=$?
    set -e
    hush
    [ "$status" -eq 0 ] || fail "$text (exit code $status)" "$help"
    at_step=
}

tick() {
    local began=$SECONDS
    # The shell's own `read` waits, so that no `sleep` process outlives the step.
    while ! read -r -t "$HEARD_EVERY_S" <> <(:); do
        printf '    [%s] still at it for %d s: %s\n' "$(elapsed)" $((SECONDS - began)) "$1" >&2
    done
}

hush() {
    [ -n "$ticker" ] || return 0
    kill "$ticker" 2>/dev/null || true
    wait "$ticker" 2>/dev/null || true
    ticker=
}

# A script that stops in mid-step (an interrupt, a mistake in the script) ends with a verdict too.
ended() {
    hush
    if [ "$1" -ne 0 ] && [ -n "$at_step" ]; then
        printf 'FAIL: %s stopped during: %s (exit code %d). What to do: run it again\n' "$what" "$at_step" "$1"
    fi
}
