#!/usr/bin/env bash
# After a container has ended, OpenTelemetry JavaScript exports its last value forever.
#
# Expected: an asynchronous gauge exports the values of the callback's last run. According to the specification, a set
#           of attributes that the callback no longer observes should produce no data. The Python SDK works like that.
# Happens:  with cumulative temporality, which is the default and the only one of the Prometheus exporter, the
#           JavaScript SDK keeps each set of attributes that it ever saw, and exports it each time with a new timestamp.
#           With delta temporality, the SDK exports only observed sets.
# Matters:  a gauge per container, pod, queue or connection keeps the series of each one that ended. Sums over the gauge
#           grow, and alerts on ended containers stay on until the process restarts.
# Versions: @opentelemetry/sdk-metrics 2.12.0 (npm), opentelemetry-sdk 1.45.2 (PyPI).
# Source:   TemporalMetricProcessor.buildMetrics in sdk-metrics/src/state/TemporalMetricProcessor.ts; OpenTelemetry
#           specification, "Metrics SDK", "Observations inside asynchronous callbacks";
#           https://github.com/open-telemetry/opentelemetry-js/issues/2997
# Workaround: use delta temporality, or observe NaN or 0 for a container that ended.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
python3 -m venv venv
venv/bin/pip --quiet --disable-pip-version-check install opentelemetry-sdk==1.45.2
npm install --silent --no-audit --no-fund --prefix . @opentelemetry/api@1.9.0 @opentelemetry/sdk-metrics@2.12.0
cat >sdk.py <<'EOF'
from opentelemetry.metrics import Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

running = {"web": 10, "job": 20}
reader = InMemoryMetricReader()
meter = MeterProvider([reader]).get_meter("m")
meter.create_observable_gauge("memory", [lambda _: [Observation(running[name], {"c": name}) for name in running]])
reader.get_metrics_data()
del running["job"]
for _ in range(3):
    data = reader.get_metrics_data()
points = data.resource_metrics[0].scope_metrics[0].metrics[0].data.data_points
print(*[f"{point.attributes['c']}={point.value}" for point in points])
EOF
cat >sdk.js <<'EOF'
const { MeterProvider, MetricReader, AggregationTemporality } = require("@opentelemetry/sdk-metrics");
class Reader extends MetricReader {
  async onForceFlush() {}
  async onShutdown() {}
}
async function main() {
  const running = { web: 10, job: 20 };
  const delta = { aggregationTemporalitySelector: () => AggregationTemporality.DELTA };
  const reader = new Reader(process.argv[2] === "delta" ? delta : {});
  const meter = new MeterProvider({ readers: [reader] }).getMeter("m");
  meter.createObservableGauge("memory").addCallback((result) => {
    for (const name of Object.keys(running)) result.observe(running[name], { c: name });
  });
  await reader.collect();
  delete running.job;
  let data;
  for (let i = 0; i < 3; i++) data = await reader.collect();
  const points = data.resourceMetrics.scopeMetrics[0].metrics[0].dataPoints;
  console.log(points.map((point) => `${point.attributes.c}=${point.value}`).join(" "));
}
main();
EOF
venv/bin/python - <<'EOF'
import json
import subprocess
from importlib.metadata import version

with open("node_modules/@opentelemetry/sdk-metrics/package.json") as file:
    print("opentelemetry-sdk", version("opentelemetry-sdk"), "@opentelemetry/sdk-metrics", json.load(file)["version"])
print("three collections after the container job ended:")
for sdk, command, expected in [
    ("Python", ["venv/bin/python", "sdk.py"], "web=10"),
    ("JavaScript", ["node", "sdk.js"], "web=10 job=20"),
    ("JavaScript, delta", ["node", "sdk.js", "delta"], "web=10"),
]:
    found = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    print(f"{sdk}: {found}")
    assert found == expected, (sdk, found)
EOF
