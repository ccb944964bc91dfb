#!/usr/bin/env bash
# Where node is there: runs the tests of the page that need no browser, and checks the types of its sources.
# The compiler and the types of the libraries come from the npm registry, at the versions of package.json, into the target folder.
set -euo pipefail
cd "$(dirname "$0")/.."

skip() {
    echo "not run: $1"
    [ -z "${NOCTULE_NOT_RUN:-}" ] || echo "the types of the page ($1)" >>"$NOCTULE_NOT_RUN"
    exit 0
}

command -v node >/dev/null && command -v npm >/dev/null || skip 'no node or npm'
# The name of the folder alone is no pattern in newer versions.
node --test crates/web/ui/test/*.js >/dev/null || node --test crates/web/ui/test/*.js
place=${CARGO_TARGET_DIR:-target}/page
mkdir -p "$place"
cp crates/web/ui/package.json "$place/"
cp crates/web/ui/tsconfig.json "$place/"
rm -f "$place"/*.js
cp crates/web/ui/*.js "$place/"
cd "$place"
if ! cmp -s package.json .installed; then
    npm install --silent --no-package-lock --no-audit --no-fund || skip 'the npm registry does not answer'
    cp package.json .installed
fi
node_modules/.bin/tsc --noEmit
