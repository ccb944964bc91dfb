#!/usr/bin/env bash
# For a cluster of Node.js workers, prom-client reports the sum of the workers' quantiles.
#
# Expected: quantiles of several workers cannot be added. The aggregated registry leaves them out, or reports the
#           largest, and adds only _sum and _count.
# Happens:  AggregatorRegistry.aggregate adds every sample of a summary, quantiles included. Four workers whose requests
#           all take 0.1 s have a median of 0.4 s. The mean by _sum and _count is 0.1 s.
# Matters:  the latency on a dashboard grows with the number of workers, so a node with more CPUs appears slower. Alerts
#           on p99 fire after a scale-up.
# Versions: prom-client 15.1.3 (npm).
# Source:   AggregatorRegistry.aggregate in prom-client/lib/cluster.js; README of prom-client, section "Usage with
#           Node.js's cluster module"; Prometheus documentation, "Histograms and summaries".
# Workaround: use a histogram, or set the summary's aggregator to "max" (its _sum and _count are then wrong).
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
npm install --silent --no-audit --no-fund --prefix . prom-client@15.1.3
cat >cluster.js <<'EOF'
const assert = require("assert");
const { AggregatorRegistry, Registry, Summary } = require("prom-client");

async function report(options) {
  const registry = new Registry();
  const common = { name: "seconds", help: "latency", percentiles: [0.5, 0.99], registers: [registry] };
  const summary = new Summary({ ...common, ...options });
  for (let i = 0; i < 100; i++) summary.observe(0.1);
  return registry.getMetricsAsJSON();
}

async function aggregated(options) {
  const reports = [];
  for (let worker = 0; worker < 4; worker++) reports.push(await report(options));
  const text = await AggregatorRegistry.aggregate(reports).metrics();
  const samples = text.split("\n").filter((line) => line.startsWith("seconds"));
  return Object.fromEntries(samples.map((line) => line.split(" ")).map(([name, value]) => [name, Number(value)]));
}

async function main() {
  console.log("prom-client", require("prom-client/package.json").version);
  const sums = await aggregated({});
  console.log("four workers, 100 requests of 0.1 s each:", sums);
  assert.strictEqual(sums['seconds{quantile="0.5"}'], 0.4);
  assert.strictEqual(sums['seconds{quantile="0.99"}'], 0.4);
  assert.strictEqual(sums.seconds_count, 400);
  const maxima = await aggregated({ aggregator: "max" });
  console.log('with the aggregator "max":', maxima);
  assert.strictEqual(maxima['seconds{quantile="0.5"}'], 0.1);
  assert.strictEqual(maxima.seconds_count, 100);
}
main();
EOF
node cluster.js
