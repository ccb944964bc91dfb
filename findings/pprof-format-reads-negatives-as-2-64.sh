#!/usr/bin/env bash
# The pprof decoder of npm reads each negative value of a profile as nearly 2^64.
#
# Expected: the values of a sample are int64 in profile.proto, so -5 is read as -5. pprof writes negative values when it
#           compares two profiles: "pprof -proto -diff_base".
# Happens:  pprof-format writes -5 as protobuf does, but reads these bytes as 18446744073709551611n. It decodes a varint
#           and does not convert it to a signed number. Protobuf reads -5 from the same file. Labels with a number are
#           affected too.
# Matters:  a function that became 5 ns faster appears to have become 585 years slower, and the improvements dominate
#           the sum over a comparison.
# Versions: pprof-format 2.3.2 (npm), protobuf 7.36.2 (PyPI).
# Source:   decodeBigNumber and Sample.decodeValue in pprof-format; profile.proto of https://github.com/google/pprof;
#           protobuf documentation, "Encoding", "Signed Integers".
# Workaround: BigInt.asIntN(64, BigInt(value)).
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
python3 -m venv venv
venv/bin/pip --quiet --disable-pip-version-check install protobuf==7.36.2
npm install --silent --no-audit --no-fund --prefix . pprof-format@2.3.2
cat >profile.js <<'EOF'
const fs = require("fs");
const { Label, Profile, Sample, StringTable, ValueType } = require("pprof-format");
const strings = new StringTable();
const text = (string) => strings.dedup(string);
const profile = new Profile({
  stringTable: strings,
  sampleType: [new ValueType({ type: text("cpu"), unit: text("nanoseconds") })],
  sample: [new Sample({ value: [-5, 7], label: [new Label({ key: text("change"), num: -1 })] })],
});
fs.writeFileSync("diff.pb", profile.encode());
const [sample] = Profile.decode(fs.readFileSync("diff.pb")).sample;
console.log([...sample.value, sample.label[0].num].join(" "));
EOF
venv/bin/python - <<'EOF'
import json
import subprocess
from importlib.metadata import version

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

with open("node_modules/pprof-format/package.json") as file:
    print("pprof-format", json.load(file)["version"], "protobuf", version("protobuf"))
# The part of profile.proto that this script reads.
Field = descriptor_pb2.FieldDescriptorProto
proto = descriptor_pb2.FileDescriptorProto(name="profile.proto", package="p", syntax="proto3")
for message, name, number, label, kind, of in [
    ("Profile", "sample", 2, Field.LABEL_REPEATED, Field.TYPE_MESSAGE, ".p.Sample"),
    ("Sample", "value", 2, Field.LABEL_REPEATED, Field.TYPE_INT64, None),
    ("Sample", "label", 3, Field.LABEL_REPEATED, Field.TYPE_MESSAGE, ".p.Label"),
    ("Label", "num", 3, Field.LABEL_OPTIONAL, Field.TYPE_INT64, None),
]:
    if message not in [entry.name for entry in proto.message_type]:
        proto.message_type.add(name=message)
    entry = next(entry for entry in proto.message_type if entry.name == message)
    entry.field.add(name=name, number=number, label=label, type=kind, type_name=of)
pool = descriptor_pool.DescriptorPool()
pool.Add(proto)
Profile = message_factory.GetMessageClass(pool.FindMessageTypeByName("p.Profile"))

npm = subprocess.run(["node", "profile.js"], check=True, capture_output=True, text=True).stdout.split()
with open("diff.pb", "rb") as file:
    sample = Profile.FromString(file.read()).sample[0]
print("protobuf:    ", *sample.value, sample.label[0].num)
print("pprof-format:", *npm)
assert (list(sample.value), sample.label[0].num) == ([-5, 7], -1)
assert npm == [str(2**64 - 5), "7", str(2**64 - 1)], npm
EOF
