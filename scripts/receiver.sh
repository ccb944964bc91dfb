#!/usr/bin/env bash
# Runs the OpenTelemetry receiver of the tests (scripts/receiver.py). Installs the OTLP schema, the
# semantic conventions and gRPC from PyPI once (about 60 MB), at the versions of
# scripts/receiver.txt, into a virtual environment in the user's cache.
# Usage: scripts/receiver.sh ARGUMENTS
set -euo pipefail
cd "$(dirname "$0")"

place=${XDG_CACHE_HOME:-$HOME/.cache}/noctule/receiver
mkdir -p "$place"
exec 9>"$place/lock"
# Tests that run concurrently install it once.
flock 9
if ! cmp -s receiver.txt "$place/installed"; then
    rm -rf "$place/venv"
    python3 -m venv "$place/venv"
    "$place/venv/bin/pip" --quiet --disable-pip-version-check --retries 1 --timeout 10 install -r receiver.txt >&2
    cp receiver.txt "$place/installed"
fi
exec 9>&-
# Some tests cause failed handshakes, which gRPC would log.
export GRPC_VERBOSITY=NONE
exec "$place/venv/bin/python" receiver.py "$@"
