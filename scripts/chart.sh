#!/usr/bin/env bash
# Installs the Helm chart with Helm into a server that only records the objects, and checks them
# (scripts/chart.py). Installs Helm as a Python module and Kubernetes' schemas from PyPI once (about
# 150 MB), at the versions of scripts/chart.txt, into the user's cache.
# Usage: scripts/chart.sh
set -euo pipefail
cd "$(dirname "$0")"

skip() {
    echo "not run: $1"
    [ -z "${NOCTULE_NOT_RUN:-}" ] || echo "the chart under Helm ($1)" >>"$NOCTULE_NOT_RUN"
    exit 0
}

command -v python3 >/dev/null || skip 'no python3'
[ "$(uname -m)" = x86_64 ] || skip 'helm-sdkpy has no library for this architecture'
place=${XDG_CACHE_HOME:-$HOME/.cache}/noctule/chart
if ! cmp -s chart.txt "$place/installed"; then
    rm -rf "$place"
    mkdir -p "$place"
    python3 -m venv "$place/venv" 2>/dev/null || skip 'python3 has no venv'
    pip=("$place/venv/bin/pip" --quiet --disable-pip-version-check --retries 1 --timeout 10)
    # helm-sdkpy asks for Python 3.12, but older versions run it.
    "${pip[@]}" install --ignore-requires-python -r chart.txt || skip 'PyPI does not answer'
    cp chart.txt "$place/installed"
fi
"$place/venv/bin/python" chart.py ../deploy 2> >(grep -v 'found symbolic link' >&2)
