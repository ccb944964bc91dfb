#!/usr/bin/env bash
# DuckDB and Polars drop a key of JSON lines if it first appears after the sampled lines.
#
# Expected: reading a file of JSON lines yields every key, or an error.
# Happens:  DuckDB infers the columns from the first 20,480 objects, Polars from the first 100. Both leave out a key
#           that appears later, without a warning. PyArrow's read_json keeps the key; its open_json raises an error.
# Matters:  a log of events has rare kinds. The only oom.kill in a day loses its memory figure, and a query for this
#           figure fails as if no event had it.
# Versions: DuckDB 2.0.1, Polars 2.1.0, PyArrow 26.0.1.
# Source:   DuckDB documentation, "JSON Loading", sample_size; Polars documentation, read_ndjson,
#           infer_schema_length.
# Workaround: sample_size = -1; infer_schema_length=None.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
python3 -m venv venv
venv/bin/pip --quiet --disable-pip-version-check install duckdb==2.0.1 polars==2.1.0 pyarrow==26.0.1
venv/bin/python - <<'EOF'
import json

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.json as pj

print("duckdb", duckdb.__version__, "polars", pl.__version__, "pyarrow", pa.__version__)
with open("events.jsonl", "w") as file:
    for pid in range(30_000):
        file.write(json.dumps({"event.name": "process.start", "process.pid": pid}) + "\n")
    file.write(json.dumps({"event.name": "oom.kill", "memory.rss_bytes": 123}) + "\n")

key = "memory.rss_bytes"
seen = {
    "duckdb": duckdb.sql("select * from read_json('events.jsonl')").columns,
    "duckdb, sample_size = -1": duckdb.sql("select * from read_json('events.jsonl', sample_size = -1)").columns,
    "polars": pl.read_ndjson("events.jsonl").columns,
    "polars, infer_schema_length=None": pl.read_ndjson("events.jsonl", infer_schema_length=None).columns,
    "pyarrow.read_json": pj.read_json("events.jsonl").column_names,
}
for reader, columns in seen.items():
    print(f"{reader}: {key} {'present' if key in columns else 'absent'}")
found = [key in columns for columns in seen.values()]
assert found == [False, True, False, True, True], found
try:
    pj.open_json("events.jsonl", read_options=pj.ReadOptions(block_size=4096)).read_all()
    raise SystemExit("pyarrow.open_json no longer raises")
except pa.ArrowInvalid as error:
    print("pyarrow.open_json:", str(error).splitlines()[0])
EOF
