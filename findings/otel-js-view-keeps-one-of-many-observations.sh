#!/usr/bin/env bash
# If a view drops an attribute, OpenTelemetry JavaScript exports one CPU's time instead of the sum of all CPUs.
#
# Expected: a view that drops the attribute "cpu" reduces the cardinality. The observations that then have the same
#           attributes are added up, for a counter with callback as for a counter with add().
# Happens:  for an asynchronous counter, the JavaScript SDK keeps the last of the observations and drops the others. For
#           a synchronous counter with the same view it adds up. The Python SDK adds up both.
# Matters:  a view is the usual way to save series. CPU times, page faults, bytes and errors come from callbacks. After
#           the view, a node with 4 CPUs appears to use a quarter of its CPU time.
# Versions: @opentelemetry/sdk-metrics 2.12.1 (npm), opentelemetry-sdk 1.45.2 (PyPI).
# Source:   AsyncMetricStorage.record in @opentelemetry/sdk-metrics; OpenTelemetry specification, "Metrics SDK",
#           "Asynchronous instruments": implementations should aggregate the attributes that remain.
# Workaround: add up in the callback.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
python3 -m venv venv
venv/bin/pip --quiet --disable-pip-version-check install opentelemetry-sdk==1.45.2
npm install --silent --no-audit --no-fund --prefix . @opentelemetry/sdk-metrics@2.12.1 @opentelemetry/api@1.9.0
cat >view.js <<'EOF'
const { MeterProvider, MetricReader, createAllowListAttributesProcessor } = require("@opentelemetry/sdk-metrics");
class Reader extends MetricReader {
  async onShutdown() {}
  async onForceFlush() {}
}
async function main() {
  const reader = new Reader();
  const attributesProcessors = [createAllowListAttributesProcessor(["state"])];
  const views = ["synchronous", "asynchronous"].map((instrumentName) => ({ instrumentName, attributesProcessors }));
  const meter = new MeterProvider({ readers: [reader], views }).getMeter("cpu");
  const seconds = [100, 101, 102, 103];
  const counter = meter.createCounter("synchronous");
  seconds.forEach((value, cpu) => counter.add(value, { state: "user", cpu }));
  meter.createObservableCounter("asynchronous").addCallback((result) => {
    seconds.forEach((value, cpu) => result.observe(value, { state: "user", cpu }));
  });
  const { resourceMetrics } = await reader.collect();
  const found = {};
  for (const { descriptor, dataPoints } of resourceMetrics.scopeMetrics[0].metrics) {
    found[descriptor.name] = dataPoints.map(({ attributes, value }) => [attributes, value]);
  }
  console.log(JSON.stringify(found));
}
main();
EOF
venv/bin/python - <<'EOF'
import json
import subprocess
from importlib.metadata import version

from opentelemetry.metrics import Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.metrics.view import View

with open("node_modules/@opentelemetry/sdk-metrics/package.json") as file:
    print("@opentelemetry/sdk-metrics", json.load(file)["version"], "opentelemetry-sdk", version("opentelemetry-sdk"))
seconds = [100, 101, 102, 103]
reader = InMemoryMetricReader()
views = [View(instrument_name="*", attribute_keys={"state"})]
meter = MeterProvider(metric_readers=[reader], views=views).get_meter("cpu")
counter = meter.create_counter("synchronous")
for cpu, value in enumerate(seconds):
    counter.add(value, {"state": "user", "cpu": cpu})


def observe(_options):
    return [Observation(value, {"state": "user", "cpu": cpu}) for cpu, value in enumerate(seconds)]


meter.create_observable_counter("asynchronous", callbacks=[observe])
python = {}
for metric in reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics:
    python[metric.name] = [[dict(point.attributes), point.value] for point in metric.data.data_points]
reply = subprocess.run(["node", "view.js"], check=True, capture_output=True, text=True).stdout
javascript = json.loads(reply)
total = [[{"state": "user"}, sum(seconds)]]
for language, found in {"Python": python, "JavaScript": javascript}.items():
    for instrument in ["synchronous", "asynchronous"]:
        print(f"{language}, {instrument}: {found[instrument]}")
assert python == {"synchronous": total, "asynchronous": total}, python
assert javascript == {"synchronous": total, "asynchronous": [[{"state": "user"}, seconds[-1]]]}, javascript
EOF
