#!/usr/bin/env bash
# The npm package parse-prometheus-text-format merges histograms with different labels into one without labels.
#
# Expected: from a family with one histogram for each of two routes, the parser returns two histograms with their
#           labels, as for counters and gauges.
# Happens:  the parser merges all histograms of a family into one object, without labels, sum and count. For each bound,
#           the object has the last bucket. If the routes have different bounds, the object has buckets of both, which
#           form no valid histogram: here the count at le="5" is below the count at le="0.1". Summaries are merged in
#           the same way. There is no error.
# Matters:  quantiles that a Node.js test or dashboard computes describe the series that the exporter writes last, or no
#           series at all. A histogram without labels, as in the README, is parsed correctly.
# Versions: parse-prometheus-text-format 1.1.1 (npm).
# Source:   flattenMetrics in the package; Prometheus documentation, "Exposition formats", "Histograms and summaries".
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
npm install --silent --no-audit --no-fund --prefix . parse-prometheus-text-format@1.1.1
cat >metrics.txt <<'EOF'
# TYPE wait_seconds histogram
wait_seconds_bucket{route="/fast",le="0.1"} 900
wait_seconds_bucket{route="/fast",le="+Inf"} 1000
wait_seconds_sum{route="/fast"} 80
wait_seconds_count{route="/fast"} 1000
wait_seconds_bucket{route="/slow",le="5"} 3
wait_seconds_bucket{route="/slow",le="+Inf"} 4
wait_seconds_sum{route="/slow"} 20
wait_seconds_count{route="/slow"} 4
# TYPE requests_total counter
requests_total{route="/fast"} 1000
requests_total{route="/slow"} 4
EOF
cat >parse.js <<'EOF'
const assert = require("assert");
const fs = require("fs");
const parse = require("parse-prometheus-text-format");
console.log("parse-prometheus-text-format", require("parse-prometheus-text-format/package.json").version);
const families = parse(fs.readFileSync("metrics.txt", "utf8"));
for (const family of families) console.log(family.name, JSON.stringify(family.metrics));
const [histogram, counter] = families;
assert.strictEqual(counter.metrics.length, 2);
assert.deepStrictEqual(JSON.parse(JSON.stringify(histogram.metrics)), [
  { buckets: { 0.1: "900", 5: "3", "+Inf": "4" } },
]);
EOF
node parse.js
