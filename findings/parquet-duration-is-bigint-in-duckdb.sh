#!/usr/bin/env bash
# DuckDB reads a duration that PyArrow wrote to Parquet as a bare integer.
#
# Expected: a column of type duration[ns] is an interval, or at least keeps its unit.
# Happens:  Parquet has no type for durations. PyArrow writes INT64 and keeps the type only in the metadata
#           ARROW:schema. Polars reads the metadata and returns Duration; DuckDB ignores it and returns BIGINT.
# Matters:  for the same file, one tool shows a latency of 1.5 us and the other the number 1500 without a unit. A query
#           that compares latencies with an interval fails, and a query that compares them with a number of milliseconds
#           is wrong by a factor of a million.
# Versions: PyArrow 26.0.1, DuckDB 2.0.1, Polars 2.1.0.
# Source:   Parquet format, LogicalTypes.md; PyArrow documentation, "Reading and Writing the Apache Parquet Format".
# Workaround: write the unit into the name of an integer column.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
python3 -m venv venv
venv/bin/pip --quiet --disable-pip-version-check install pyarrow==26.0.1 duckdb==2.0.1 polars==2.1.0
venv/bin/python - <<'EOF'
import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

print("pyarrow", pa.__version__, "duckdb", duckdb.__version__, "polars", pl.__version__)
pq.write_table(pa.table({"latency": pa.array([1500], pa.duration("ns"))}), "waits.parquet")
duck = duckdb.sql("select latency, typeof(latency) from 'waits.parquet'").fetchall()[0]
polars = pl.read_parquet("waits.parquet")["latency"]
arrow = pq.read_table("waits.parquet")["latency"].type
print("duckdb:", duck)
print("polars:", polars.dtype, polars[0])
print("pyarrow:", arrow)
print("file:", pq.ParquetFile("waits.parquet").schema.column(0).logical_type)
assert duck == (1500, "BIGINT")
assert polars.dtype == pl.Duration("ns") and arrow == pa.duration("ns")
EOF
