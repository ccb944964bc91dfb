#!/usr/bin/env bash
# For the same values, the Python port of HdrHistogram reports a lower percentile than the JavaScript port.
#
# Expected: ports of HdrHistogram return the same value for the same percentile of the same recording: the smallest
#           value that covers at least this share of the recorded values.
# Happens:  the Python port rounds the rank to the nearest integer, the JavaScript port rounds it up. The 90th
#           percentile of five values of 1 and one value of 1000 is 1 in Python, which covers only 83.3%, and 1000 in
#           JavaScript.
# Matters:  the ports read each other's files. A report of tail latency depends on the language that prints it, most of
#           all with few samples, and the Python figure is the optimistic one.
# Versions: hdrhistogram 0.10.8 (PyPI), hdr-histogram-js 3.0.1.
# Source:   get_target_count_at_percentile in hdrh/histogram.py; documentation of getValueAtPercentile in HdrHistogram;
#           https://github.com/HdrHistogram/HdrHistogram_py/pull/14
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
python3 -m venv venv
venv/bin/pip --quiet --disable-pip-version-check install hdrhistogram==0.10.8
npm install --silent --no-audit --no-fund --prefix . hdr-histogram-js@3.0.1
cat >read.js <<'EOF'
const hdr = require("hdr-histogram-js");
const histogram = hdr.decodeFromCompressedBase64(process.argv[2]);
console.log(histogram.totalCount, histogram.getValueAtPercentile(90));
EOF
venv/bin/python - <<'EOF'
import json
import subprocess
from importlib.metadata import version

from hdrh.histogram import HdrHistogram

with open("node_modules/hdr-histogram-js/package.json") as file:
    print("hdrhistogram", version("hdrhistogram"), "hdr-histogram-js", json.load(file)["version"])
histogram = HdrHistogram(1, 3_600_000, 3)
for value in [1, 1, 1, 1, 1, 1000]:
    histogram.record_value(value)
python = histogram.get_value_at_percentile(90)
reply = subprocess.run(["node", "read.js", histogram.encode()], check=True, capture_output=True, text=True).stdout
count, javascript = map(int, reply.split())
print("90th percentile of 1, 1, 1, 1, 1, 1000")
print("Python:    ", python)
print("JavaScript:", javascript, f"(from the {count} values of Python's encoding)")
assert (python, javascript, count) == (1, 1000, 6)
EOF
