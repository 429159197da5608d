#!/usr/bin/env bash
# `make profiles`: what each part of the profile for shipping brings alone. Builds the benchmark by the profile for days and by that for shipping, each
# with a part of it changed for the crates of this repository (what they depend on stays as that profile has it, and is compiled once for each); then lets
# the builds run in turns: chains and calls for a second of processor time. Nothing else should run on the machine while they do.

. "$(dirname "${BASH_SOURCE[0]}")/step.sh"
. tools/build.sh

readonly ROUNDS=5
readonly TABLE=target/bench/profiles.txt
# Name, profile, and what is changed in it.
declare -A PARTS=(
    [release]="release"
    [level]="release opt-level=3"
    [units]="release codegen-units=1"
    [unchecked]="release overflow-checks=false"
    # Both: what the next one has besides is link-time optimisation, and what it depends on built like that.
    [both]="release codegen-units=1,overflow-checks=false"
    [dist]="dist"
    [many_units]="dist codegen-units=16"
    [checked]="dist overflow-checks=true"
    # Where a peer's bytes are read, and nowhere else.
    [guarded]="dist overflow-checks=true catena-wire catena-net catena-core"
)
readonly ORDER=(release level units unchecked both dist many_units checked guarded)
readonly JOBS=("chain_js 1" "chain_js 64" "chain_wasm 1" "chain_wasm 64" "tonic4 1" "tonic4 64")

build_one() {
    local profile change crates crate one arguments=()
    read -r profile change crates <<<"${PARTS[$1]}"
    if [ -n "$change" ]; then
        [ -n "$crates" ] || crates=$(cargo tree --locked --workspace --depth 0 --prefix none | cut -d ' ' -f 1)
        for crate in $crates; do
            for one in ${change//,/ }; do
                arguments+=(--config "profile.$profile.package.$crate.$one")
            done
        done
    fi
    cargo build --locked --profile "$profile" --workspace --bin catena-bench "${arguments[@]}"
    cp "target/$profile/catena-bench" "target/profiles/$1"
}

measure() {
    local round name job
    : >"$TABLE.raw"
    for ((round = 1; round <= ROUNDS; round++)); do
        for job in "${JOBS[@]}"; do
            for name in "${ORDER[@]}"; do
                # shellcheck disable=SC2086 # a job is a name and a number
                "target/profiles/$name" profile $job 2 | awk -v job="$job" -v name="$name" 'END { print job "\t" name "\t" $1 }' >>"$TABLE.raw"
            done
        done
    done
    # The median of each, and what it is of the first.
    sort -t $'\t' -k1,1 -k2,2 -k3,3n "$TABLE.raw" | awk -F '\t' -v order="${ORDER[*]}" '
        { seen[$1] = 1; count[$1, $2]++; value[$1, $2, count[$1, $2]] = $3 }
        END {
            names = split(order, name, " ")
            printf "%-16s", "per CPU-second"
            for (i = 1; i <= names; i++) printf "%18s", name[i]
            print ""
            for (job in seen) {
                printf "%-16s", job
                first = value[job, name[1], int((count[job, name[1]] + 1) / 2)]
                for (i = 1; i <= names; i++) {
                    median = value[job, name[i], int((count[job, name[i]] + 1) / 2)]
                    printf "%10d (%+4.0f%%)", median, (median / first - 1) * 100
                }
                print ""
            }
        }' | tee "$TABLE"
}

begin "make profiles"
set_up build
mkdir -p target/bench target/profiles
for name in "${ORDER[@]}"; do
    step "Building $name: ${PARTS[$name]}" "correct what the compiler says" build_one "$name"
done
step "Measuring all in turns, $ROUNDS times" "read the message above" measure
pass "what each part brings is in $TABLE"
