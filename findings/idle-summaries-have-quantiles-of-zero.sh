#!/usr/bin/env bash
# Without requests, the latency quantiles of prom-client and of the Rust crate metrics are 0 instead of NaN.
#
# Expected: a quantile of no values has no value. The Go client exports NaN if the window of a summary is empty, and
#           Prometheus ignores NaN in comparisons.
# Happens:  prom-client, with maxAgeSeconds, and metrics-exporter-prometheus, always, forget observations after some
#           time. If the window is empty, both export 0 for every quantile, also for the minimum and the maximum.
# Matters:  an instance that gets no requests, for instance because it hangs, has the best latency of all. It lowers the
#           average over instances, and is chosen by a load balancer or a canary test that prefers low latency. The
#           overnight average is near 0.
# Versions: prom-client 15.1.3 (npm), metrics-exporter-prometheus 0.18.3 and metrics 0.24.6 (crates.io).
# Source:   extractSummariesForExport and the percentiles in prom-client/lib/summary.js; unwrap_or(0.0) in
#           metrics-exporter-prometheus/src/recorder.rs; client_golang, documentation of Summary.
# Workaround: use the quantile only where the rate of _count is above 0, or a histogram.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
npm install --silent --no-audit --no-fund --prefix . prom-client@15.1.3
cat >idle.js <<'EOF'
const assert = require("assert");
const { Registry, Summary } = require("prom-client");
console.log("prom-client", require("prom-client/package.json").version);
const summary = new Summary({
  name: "latency",
  help: "latency",
  percentiles: [0.5, 0.99],
  maxAgeSeconds: 1,
  ageBuckets: 2,
  registers: [new Registry()],
});
const values = async () => (await summary.get()).values.map((sample) => sample.value);
async function main() {
  summary.observe(5);
  const used = await values();
  await new Promise((resolve) => setTimeout(resolve, 4000));
  const idle = await values();
  console.log("prom-client, after a request: p50, p99, sum, count =", ...used);
  console.log("prom-client, later:           p50, p99, sum, count =", ...idle);
  assert.deepStrictEqual(used, [5, 5, 5, 1]);
  assert.deepStrictEqual(idle, [0, 0, 5, 1]);
}
main();
EOF
node idle.js
mkdir -p idle/src
cat >idle/Cargo.toml <<'EOF'
[package]
name = "idle"
version = "0.0.0"
edition = "2021"
[dependencies]
metrics = "=0.24.6"
metrics-exporter-prometheus = { version = "=0.18.3", default-features = false }
[workspace]
EOF
cat >idle/src/main.rs <<'EOF'
use metrics_exporter_prometheus::PrometheusBuilder;
use std::time::Duration;

fn main() {
    let builder = PrometheusBuilder::new().set_bucket_duration(Duration::from_secs(1)).unwrap();
    let recorder = builder.set_quantiles(&[0.5, 1.0]).unwrap().build_recorder();
    let handle = recorder.handle();
    metrics::with_local_recorder(&recorder, || metrics::histogram!("latency").record(5.0));
    let used = handle.render();
    std::thread::sleep(Duration::from_secs(5));
    let idle = handle.render();
    println!("metrics, after a request:\n{}\nmetrics, later:\n{}", used.trim(), idle.trim());
    assert!(used.contains("latency{quantile=\"1\"} 5\n"));
    for sample in ["{quantile=\"0.5\"} 0", "{quantile=\"1\"} 0", "_sum 5", "_count 1"] {
        assert!(idle.contains(&format!("latency{sample}\n")), "{sample}");
    }
}
EOF
cd idle
cargo run --quiet 2>&1
grep -A1 -E '^name = "metrics(-exporter-prometheus)?"' Cargo.lock
