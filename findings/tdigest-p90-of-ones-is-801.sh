#!/usr/bin/env bash
# Two ports of t-digest, and prom-client, report 801 as the 90th percentile of 999 times 1 and once 1000.
#
# Expected: two distinct values fit into a digest without loss. The 900th and the 901st of the sorted values are 1, so
#           each method for the 90th percentile returns 1.
# Happens:  tdigest of npm and tdigest of PyPI merge equal values into one centroid without a limit. They interpolate
#           from its centre, at rank 499.5, to the next centroid, as if the merged values were spread out. The 75th
#           percentile is above 501. fastdigest returns 1. If the values differ slightly, the npm port is right.
# Matters:  latencies in whole milliseconds repeat. A summary of prom-client uses this digest, so one slow request among
#           a thousand makes a service appear slow for a quarter of its requests.
# Versions: tdigest 0.1.3 (npm), prom-client 15.1.3 (npm), tdigest 0.5.2.2 (PyPI), fastdigest 0.12.0 (PyPI).
# Source:   TDigest.prototype._digest and _percentile in tdigest.js; TDigest.percentile in tdigest/tdigest.py.
# Workaround: a histogram with fixed buckets, or HdrHistogram.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
python3 -m venv venv
venv/bin/pip --quiet --disable-pip-version-check install tdigest==0.5.2.2 fastdigest==0.12.0
npm install --silent --no-audit --no-fund --prefix . tdigest@0.1.3 prom-client@15.1.3
cat >percentile.js <<'EOF'
const { TDigest } = require("tdigest");
const { Registry, Summary } = require("prom-client");
const values = [...Array(999).fill(1), 1000];
const percentile = (inputs) => {
  const digest = new TDigest();
  inputs.forEach((value) => digest.push(value));
  digest.compress();
  return digest.percentile(0.9);
};
async function main() {
  const summary = new Summary({ name: "ms", help: "latency", percentiles: [0.9], registers: [new Registry()] });
  values.forEach((value) => summary.observe(value));
  const reported = (await summary.get()).values.find((entry) => entry.labels.quantile === 0.9).value;
  const distinct = values.map((value, index) => value + index / 1e6);
  console.log(JSON.stringify([percentile(values), reported, percentile(distinct)]));
}
main();
EOF
venv/bin/python - <<'EOF'
import json
import statistics
import subprocess
from importlib.metadata import version

import fastdigest
import tdigest

for package in ["tdigest", "prom-client"]:
    with open(f"node_modules/{package}/package.json") as file:
        print(package, json.load(file)["version"], "(npm)")
for package in ["tdigest", "fastdigest"]:
    print(package, version(package), "(PyPI)")
values = [1.0] * 999 + [1000.0]
digest = tdigest.TDigest()
digest.batch_update(values)
reply = subprocess.run(["node", "percentile.js"], check=True, capture_output=True, text=True).stdout
npm, summary, distinct = json.loads(reply)
found = {
    "statistics.quantiles": statistics.quantiles(values, n=10)[8],
    "fastdigest": fastdigest.TDigest.from_values(values).quantile(0.9),
    "tdigest (npm), distinct values": distinct,
    "tdigest (PyPI)": digest.percentile(90),
    "tdigest (npm)": npm,
    "prom-client": summary,
}
print("90th percentile:")
for name, percentile in found.items():
    print(f"{name}: {percentile:.3f}")
assert [round(percentile) for percentile in found.values()] == [1, 1, 1, 801, 801, 801], found
assert digest.percentile(75) > 501
EOF
