#!/usr/bin/env bash
# If node is installed, runs the tests of the page that need no browser, and checks the types in the
# page's sources. For this it installs the TypeScript compiler, the type declarations and axe-core
# from the npm registry into the target directory, at the versions of package.json. With
# `--install`, it only installs them, for the browser tests.
set -euo pipefail
cd "$(dirname "$0")/.."

skip() {
    echo "not run: $1"
    [ -z "${NOCTULE_NOT_RUN:-}" ] || echo "the types of the page ($1)" >>"$NOCTULE_NOT_RUN"
    exit 0
}

place=${CARGO_TARGET_DIR:-target}/page

install() {
    mkdir -p "$place"
    cp crates/web/ui/package.json crates/web/ui/tsconfig.json "$place/"
    cmp -s "$place/package.json" "$place/.installed" && return
    (cd "$place" && npm install --silent --no-package-lock --no-audit --no-fund) || return
    cp "$place/package.json" "$place/.installed"
}

if [ "${1:-}" = --install ]; then
    install
    exit
fi
command -v node >/dev/null && command -v npm >/dev/null || skip 'no node or npm'
# Newer versions of node do not accept the bare directory name.
node --test crates/web/ui/test/*.js >/dev/null || node --test crates/web/ui/test/*.js
install || skip 'the npm registry does not answer'
rm -f "$place"/*.js
cp crates/web/ui/*.js "$place/"
cd "$place"
node_modules/.bin/tsc --noEmit
