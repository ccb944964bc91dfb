#!/usr/bin/env bash
# The Prometheus exporters of two OpenTelemetry SDKs give one instrument two names, and one of them repeats a label.
#
# Expected: a histogram request.duration in ms is one Prometheus metric, regardless of the SDK that a service uses. The
#           specification adds the unit to the name. If several attributes become the same label, it joins their values
#           with a semicolon.
# Happens:  Python exports request_duration_milliseconds. JavaScript exports request_duration, with the unit in a
#           comment. A bound is le="5" in JavaScript and le="5.0" in Python. While conventions change, a service can
#           have both attributes http.method and http_method. For these, JavaScript writes the label http_method twice,
#           so that Prometheus and the parser of prometheus_client reject the whole scrape. Python keeps one of the
#           values.
# Matters:  a dashboard or an alert over all services shows only the services in one language. One attribute can remove
#           every metric of a service.
# Versions: opentelemetry-exporter-prometheus 0.66b2, prometheus_client 0.26.0 (PyPI),
#           @opentelemetry/exporter-prometheus 0.223.0 (npm).
# Source:   PrometheusSerializer in @opentelemetry/exporter-prometheus; OpenTelemetry specification, "Prometheus and
#           OpenMetrics Compatibility", "Metric Metadata" and "Metric Attributes"; Prometheus and a repeated label:
#           https://github.com/open-telemetry/opentelemetry-rust/pull/1379
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
python3 -m venv venv
venv/bin/pip --quiet --disable-pip-version-check install opentelemetry-exporter-prometheus==0.66b2 \
  opentelemetry-sdk==1.45.2 prometheus_client==0.26.0
npm install --silent --no-audit --no-fund --prefix . @opentelemetry/api@1.9.0 @opentelemetry/sdk-metrics@2.12.0 \
  @opentelemetry/exporter-prometheus@0.223.0
cat >export.js <<'EOF'
const { MeterProvider } = require("@opentelemetry/sdk-metrics");
const { PrometheusExporter, PrometheusSerializer } = require("@opentelemetry/exporter-prometheus");
async function main() {
  const reader = new PrometheusExporter({ preventServerStart: true });
  const meter = new MeterProvider({ readers: [reader] }).getMeter("m");
  meter.createHistogram("request.duration", { unit: "ms" }).record(3);
  meter.createCounter("requests").add(1, { "http.method": "GET", http_method: "get" });
  console.log(new PrometheusSerializer().serialize((await reader.collect()).resourceMetrics));
}
main();
EOF
venv/bin/python - <<'EOF'
import json
import re
import subprocess
from importlib.metadata import version

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

with open("node_modules/@opentelemetry/exporter-prometheus/package.json") as file:
    print("opentelemetry-exporter-prometheus", version("opentelemetry-exporter-prometheus"),
          "@opentelemetry/exporter-prometheus", json.load(file)["version"])
meter = MeterProvider([PrometheusMetricReader()]).get_meter("m")
meter.create_histogram("request.duration", unit="ms").record(3)
meter.create_counter("requests").add(1, {"http.method": "GET", "http_method": "get"})
javascript = subprocess.run(["node", "export.js"], check=True, capture_output=True, text=True).stdout
found = {}
for sdk, text in [("Python", generate_latest().decode()), ("JavaScript", javascript)]:
    name, bound = re.search(r'^(request_\w+)_bucket\{.*le="(5[.0]*)"', text, re.MULTILINE).groups()
    labels = re.findall(r'http_method="\w+"', re.search(r"^requests_total.*", text, re.MULTILINE).group())
    try:
        answer = f"{len(list(text_string_to_metric_families(text)))} families"
    except ValueError as error:
        answer = "error"
        print("prometheus_client:", error)
    found[sdk] = (name, bound, labels)
    print(f"{sdk}: {name}, le=\"{bound}\", {','.join(labels)}; parsed: {answer}")
    assert (answer == "error") == (sdk == "JavaScript")
assert found == {
    "Python": ("request_duration_milliseconds", "5.0", ['http_method="get"']),
    "JavaScript": ("request_duration", "5", ['http_method="GET"', 'http_method="get"']),
}, found
EOF
