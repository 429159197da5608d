#!/usr/bin/env bash
# Builds the library for Java and the Jetty connector into target/java, with what they need from Maven Central in target/maven; nothing where they are newer than their sources.
# Tests call it at once from several processes.

. "$(dirname "${BASH_SOURCE[0]}")/step.sh"

readonly REPOSITORY=$PWD/target/maven
readonly DONE=target/java/done
readonly BUILD_SECONDS_MAX=1200

# Offline first: what was fetched once is there.
built() {
    local arguments=(-q -B "-Dmaven.repo.local=$REPOSITORY" -f sdk/java/pom.xml package)
    if [ ! -e "$REPOSITORY/filled" ] || ! timeout "$BUILD_SECONDS_MAX" mvn -o "${arguments[@]}"; then
        timeout "$BUILD_SECONDS_MAX" mvn "${arguments[@]}"
    fi
    touch "$REPOSITORY/filled" "$DONE"
}

begin "building for Java"
mkdir -p target/java
exec 9>target/java/lock
flock -w $((2 * BUILD_SECONDS_MAX)) 9 || fail "another build for Java goes on and on" "end it: it holds target/java/lock"
if [ ! -e "$DONE" ] || [ -n "$(find sdk/java -type f -newer "$DONE" -print -quit)" ]; then
    step "Building the library for Java and the Jetty connector" "read the message above; it needs Java 17, Maven and, the first time, Maven Central" built
fi
pass "target/java/lib has them"
