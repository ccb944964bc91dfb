#!/usr/bin/env bash
# Protobuf's own JSON mapping reads an OTLP trace id in hexadecimal as 24 other bytes, without an error.
#
# Expected: protobuf, with the messages of OTLP, reads OTLP/JSON or rejects it.
# Happens:  OTLP/JSON writes trace_id and span_id in hexadecimal; the protobuf JSON mapping uses base64 for bytes. Every
#           hexadecimal text of 32 digits is valid base64, so json_format.Parse accepts it and returns a wrong id of 24
#           bytes. In the other direction MessageToJson writes base64, which OTLP receivers reject or misread.
# Matters:  joins between logs and traces are empty, without an error that explains why.
# Versions: opentelemetry-proto 1.45.2, protobuf 7.36.2.
# Source:   OpenTelemetry specification, OTLP, "JSON Protobuf Encoding"; protobuf documentation, "ProtoJSON Format".
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
python3 -m venv venv
venv/bin/pip --quiet --disable-pip-version-check install opentelemetry-proto==1.45.2 protobuf==7.36.2
venv/bin/python - <<'EOF'
from importlib.metadata import version

from google.protobuf.json_format import MessageToDict, Parse
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

print("opentelemetry-proto", version("opentelemetry-proto"), "protobuf", version("protobuf"))
trace_id = "000102030405060708090a0b0c0d0e0f"
read = Parse(f'{{"traceId": "{trace_id}"}}', LogRecord()).trace_id
print(f"in OTLP/JSON: {trace_id}\nread as:      {read.hex()} ({len(read)} bytes)")
assert len(read) == 24
written = MessageToDict(LogRecord(trace_id=bytes.fromhex(trace_id)))["traceId"]
print("written as:  ", written)
assert written == "AAECAwQFBgcICQoLDA0ODw=="
EOF
