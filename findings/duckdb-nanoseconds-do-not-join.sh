#!/usr/bin/env bash
# In DuckDB, nanosecond timestamps from Parquet can be neither subtracted nor joined.
#
# Expected: a UTC timestamp in nanoseconds behaves like a timestamp in microseconds: max(t) - min(t) is an interval, and
#           a join with the same rows in CSV finds them.
# Happens:  DuckDB 2 reads nanoseconds as a separate timestamp type, which has no minus operator. read_csv keeps
#           microseconds and drops the remaining digits, so a join by time finds no row.
# Matters:  traces and eBPF tools write nanoseconds. The same data in two formats gives an empty result, not an error.
# Versions: DuckDB 2.0.1, PyArrow 26.0.1.
# Source:   DuckDB documentation, "Timestamp Types"; Parquet format, LogicalTypes.md, TIMESTAMP.
# Workaround: write microseconds, or cast with ::timestamptz.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
python3 -m venv venv
venv/bin/pip --quiet --disable-pip-version-check install duckdb==2.0.1 pyarrow==26.0.1
venv/bin/python - <<'EOF'
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

print("duckdb", duckdb.__version__, "pyarrow", pa.__version__)
TIMES = [1_700_000_000_000_000_123, 1_700_000_003_000_000_456]
with open("events.csv", "w") as file:
    file.write("t\n2023-11-14 22:13:20.000000123+00\n2023-11-14 22:13:23.000000456+00\n")
found = {}
for unit, factor in [("ns", 1), ("us", 1000)]:
    times = pa.array([time // factor for time in TIMES], pa.timestamp(unit, "UTC"))
    pq.write_table(pa.table({"t": times}), f"{unit}.parquet")
    kind = duckdb.sql(f"select typeof(t) from '{unit}.parquet'").fetchall()[0][0]
    try:
        length = duckdb.sql(f"select epoch(max(t) - min(t)) from '{unit}.parquet'").fetchall()[0][0]
    except duckdb.Error as error:
        length = type(error).__name__
    joined = duckdb.sql(f"select count(*) from '{unit}.parquet' join 'events.csv' using (t)").fetchall()[0][0]
    found[unit] = (length, joined)
    print(f"{unit}: {kind}; max - min: {length}; rows joined with CSV: {joined} of 2")
assert found == {"ns": ("BinderException", 0), "us": (3.0, 2)}, found
EOF
