#!/usr/bin/env bash
# One attribute of 2^64 makes the whole OTLP/JSON batch of OpenTelemetry JavaScript unreadable.
#
# Expected: an attribute is a number in JavaScript, so the exporter writes a value that does not fit into int64 as a
#           double. OTLP over protobuf, from the same SDK and the same span, does so.
# Happens:  the JSON serializer writes each number without a fraction as intValue, even 2^64. intValue is int64 in OTLP,
#           so a receiver that uses protobuf's JSON reader rejects the request, with all its spans.
# Matters:  the kernel's "no limit", and process.constrainedMemory() of Node.js without a limit, are about 2^64. As an
#           attribute of a resource, such a value is in every batch. As an attribute of a rare span, it removes up to
#           511 spans of other requests. The application sees no error unless it sets a logger for diagnostics.
# Versions: @opentelemetry/otlp-transformer 0.223.1 and @opentelemetry/sdk-trace-base 2.12.1 (npm); opentelemetry-proto
#           1.45.2 and protobuf 7.36.2 (PyPI).
# Source:   toAnyValue in @opentelemetry/otlp-transformer; AnyValue in opentelemetry/proto/common/v1/common.proto.
# Workaround: the protobuf exporter, or write such values as text.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
python3 -m venv venv
venv/bin/pip --quiet --disable-pip-version-check install opentelemetry-proto==1.45.2 protobuf==7.36.2
npm install --silent --no-audit --no-fund --prefix . @opentelemetry/api@1.9.0 \
    @opentelemetry/otlp-transformer@0.223.1 @opentelemetry/sdk-trace-base@2.12.1
cat >export.js <<'EOF'
const { writeFileSync } = require("fs");
const { JsonTraceSerializer, ProtobufTraceSerializer } = require("@opentelemetry/otlp-transformer");
const { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } = require("@opentelemetry/sdk-trace-base");
const exporter = new InMemorySpanExporter();
const tracer = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }).getTracer("tracer");
for (const limit of [2 ** 30, 2 ** 64, 2 ** 31]) tracer.startSpan("request", { attributes: { limit } }).end();
const spans = exporter.getFinishedSpans();
writeFileSync("all.pb", ProtobufTraceSerializer.serializeRequest(spans));
writeFileSync("all.json", JsonTraceSerializer.serializeRequest(spans));
writeFileSync("small.json", JsonTraceSerializer.serializeRequest([spans[0], spans[2]]));
EOF
node export.js
venv/bin/python - <<'EOF'
import json
from importlib.metadata import version

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

for package in ["otlp-transformer", "sdk-trace-base"]:
    with open(f"node_modules/@opentelemetry/{package}/package.json") as file:
        print(package, json.load(file)["version"])
for package in ["opentelemetry-proto", "protobuf"]:
    print(package, version(package))


def limits(request):
    spans = request.resource_spans[0].scope_spans[0].spans
    values = [span.attributes[0].value for span in spans]
    return [(value.WhichOneof("value"), getattr(value, value.WhichOneof("value"))) for value in values]


def read_json(path):
    with open(path) as file:
        return limits(json_format.Parse(file.read(), ExportTraceServiceRequest()))


with open("all.pb", "rb") as file:
    protobuf = limits(ExportTraceServiceRequest.FromString(file.read()))
print("protobuf:", protobuf)
assert protobuf == [("int_value", 2**30), ("double_value", 2.0**64), ("int_value", 2**31)], protobuf
print("JSON, two spans:", read_json("small.json"))
try:
    raise SystemExit(f"JSON, three spans: {read_json('all.json')}")
except json_format.ParseError as error:
    print("JSON, three spans:", error)
    assert "out of range" in str(error)
EOF
