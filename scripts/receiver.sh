#!/usr/bin/env bash
# Runs the OpenTelemetry receiver of the tests (scripts/receiver.py). The schema of OTLP, the semantic conventions and
# gRPC come from PyPI, at the versions of scripts/receiver.txt, into a virtual environment in the cache of the user:
# once, some 60 MB.
# Usage: scripts/receiver.sh ARGUMENTS
set -euo pipefail
cd "$(dirname "$0")"

place=${XDG_CACHE_HOME:-$HOME/.cache}/noctule/receiver
mkdir -p "$place"
exec 9>"$place/lock"
# Tests that run beside each other install it once.
flock 9
if ! cmp -s receiver.txt "$place/installed"; then
    rm -rf "$place/venv"
    python3 -m venv "$place/venv"
    "$place/venv/bin/pip" --quiet --disable-pip-version-check --retries 1 --timeout 10 install -r receiver.txt >&2
    cp receiver.txt "$place/installed"
fi
exec 9>&-
# Handshakes that fail are what some tests are about.
export GRPC_VERBOSITY=NONE
exec "$place/venv/bin/python" receiver.py "$@"
