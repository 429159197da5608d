#!/usr/bin/env bash
# `make profiles`: what each part of the profile for shipping brings alone. Builds the benchmark from scratch for each (some ten
# minutes each), then lets the builds run in turns (a quarter of an hour): chains and calls for a second of processor time.
# Nothing else should run on the machine meanwhile.

. "$(dirname "${BASH_SOURCE[0]}")/step.sh"
. tools/build.sh

readonly ROUNDS=5
readonly TABLE=target/bench/profiles.txt
# Each is the profile for days (`release`: incremental, and so 256 units for each crate of ours), with what is named changed.
declare -A PARTS=(
    [release]=""
    [units]="incremental=false codegen-units=1"
    [lto]="incremental=false codegen-units=16 lto='fat'"
    [both]="incremental=false codegen-units=1 lto='fat'"
    [unchecked]="overflow-checks=false"
    # Overflow checks where a peer's bytes are read, and nowhere else.
    [guarded]="incremental=false codegen-units=1 lto='fat' overflow-checks=false package.catena-wire.overflow-checks=true package.catena-net.overflow-checks=true package.catena-core.overflow-checks=true"
    [dist]="incremental=false codegen-units=1 lto='fat' overflow-checks=false"
)
readonly ORDER=(release units lto both unchecked guarded dist)
readonly JOBS=("chain_js 1" "chain_js 64" "chain_wasm 1" "chain_wasm 64" "tonic4 1" "tonic4 64")

build_one() {
    local part arguments=()
    # shellcheck disable=SC2086 # a list of words
    for part in incremental=true codegen-units=256 lto=false overflow-checks=true ${PARTS[$1]}; do
        arguments+=(--config "profile.dist.$part")
    done
    cargo build --locked --profile dist --workspace --bin catena-bench --target-dir target/profiles/build "${arguments[@]}"
    # Gigabytes that the next build would not use.
    mv target/profiles/build/dist/catena-bench "target/profiles/$1"
    rm -rf target/profiles/build
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
for name in "${ORDER[@]}"; do
    step "Building $name${PARTS[$name]:+: ${PARTS[$name]}}" "correct what the compiler says" build_one "$name"
done
mkdir -p target/bench
step "Measuring all in turns, $ROUNDS times" "read the message above" measure
pass "what each part brings is in $TABLE"
