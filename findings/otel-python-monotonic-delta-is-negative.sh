#!/usr/bin/env bash
# OpenTelemetry Python exports a negative delta for a monotonic counter.
#
# Expected: if the source of an asynchronous counter restarts at a lower value, the delta is the new value or is absent,
#           and a cumulative point gets a new start time. The sum is monotonic, so readers expect no negative delta.
# Happens:  for 20 followed by 5, the Python SDK exports the delta -15 in a sum with is_monotonic = true. As a
#           cumulative sum it exports 5 with the start time of the 20. The JavaScript SDK exports the delta 5, and a new
#           start time.
# Matters:  asynchronous counters often export a counter of a container or device, and such counters restart. A receiver
#           that adds up deltas loses 15, and a receiver that detects resets by the start time finds none.
# Versions: opentelemetry-sdk 1.45.2 (PyPI), @opentelemetry/sdk-metrics 2.12.0 (npm).
# Source:   _SumAggregation.collect in opentelemetry/sdk/metrics/_internal/aggregation.py; SumAggregator.diff in
#           sdk-metrics/src/aggregator/Sum.ts; OpenTelemetry specification, "Metrics Data Model", "Sums" and "Resets and
#           Gaps"; https://github.com/open-telemetry/opentelemetry-js/issues/2987
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
python3 -m venv venv
venv/bin/pip --quiet --disable-pip-version-check install opentelemetry-sdk==1.45.2
npm install --silent --no-audit --no-fund --prefix . @opentelemetry/api@1.9.0 @opentelemetry/sdk-metrics@2.12.0
cat >sdk.py <<'EOF'
import json
import time

from opentelemetry.metrics import Observation
from opentelemetry.sdk.metrics import MeterProvider, ObservableCounter
from opentelemetry.sdk.metrics.export import AggregationTemporality, InMemoryMetricReader

for temporality in [AggregationTemporality.DELTA, AggregationTemporality.CUMULATIVE]:
    values = iter([20, 5])
    reader = InMemoryMetricReader(preferred_temporality={ObservableCounter: temporality})
    meter = MeterProvider([reader]).get_meter("m")
    meter.create_observable_counter("c", [lambda _: [Observation(next(values))]])
    points = []
    for _ in range(2):
        time.sleep(0.05)
        data = reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics[0].data
        points.append(data.data_points[0])
    starts_anew = points[1].start_time_unix_nano > points[0].start_time_unix_nano
    print(json.dumps([temporality.name, data.is_monotonic, [point.value for point in points], starts_anew]))
EOF
cat >sdk.js <<'EOF'
const { MeterProvider, MetricReader, AggregationTemporality } = require("@opentelemetry/sdk-metrics");
class Reader extends MetricReader {
  async onForceFlush() {}
  async onShutdown() {}
}
const nanoseconds = ([seconds, rest]) => seconds * 1e9 + rest;
async function main() {
  for (const name of ["DELTA", "CUMULATIVE"]) {
    const values = [20, 5];
    const reader = new Reader({ aggregationTemporalitySelector: () => AggregationTemporality[name] });
    const meter = new MeterProvider({ readers: [reader] }).getMeter("m");
    meter.createObservableCounter("c").addCallback((result) => result.observe(values.shift()));
    const points = [];
    let metric;
    for (let i = 0; i < 2; i++) {
      await new Promise((resolve) => setTimeout(resolve, 50));
      metric = (await reader.collect()).resourceMetrics.scopeMetrics[0].metrics[0];
      points.push(metric.dataPoints[0]);
    }
    const startsAnew = nanoseconds(points[1].startTime) > nanoseconds(points[0].startTime);
    console.log(JSON.stringify([name, metric.isMonotonic, points.map((point) => point.value), startsAnew]));
  }
}
main();
EOF
venv/bin/python - <<'EOF'
import json
import subprocess
from importlib.metadata import version

with open("node_modules/@opentelemetry/sdk-metrics/package.json") as file:
    print("opentelemetry-sdk", version("opentelemetry-sdk"), "@opentelemetry/sdk-metrics", json.load(file)["version"])
found = {}
for sdk, command in [("Python", ["venv/bin/python", "sdk.py"]), ("JavaScript", ["node", "sdk.js"])]:
    for line in subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines():
        temporality, monotonic, values, starts_anew = json.loads(line)
        start = f", new start time: {starts_anew}" if temporality == "CUMULATIVE" else ""
        print(f"{sdk}, {temporality}: {values}, monotonic: {monotonic}{start}")
        assert monotonic
        found[sdk, temporality] = (values, starts_anew) if start else values
assert found == {
    ("Python", "DELTA"): [20, -15],
    ("Python", "CUMULATIVE"): ([20, 5], False),
    ("JavaScript", "DELTA"): [20, 5],
    ("JavaScript", "CUMULATIVE"): ([20, 5], True),
}, found
EOF
