#!/usr/bin/env bash
# Polars adds up 32-bit integers modulo 2^32, although it widens 8-bit and 16-bit integers.
#
# Expected: the sum of a column of byte counts is the number of bytes. DuckDB, PyArrow and pandas use at least 64 bits
#           for sums of narrower integers, and Polars does so for 8 and 16 bits.
# Happens:  the sum of UInt32 is UInt32, and the sum of Int32 is Int32. The carry is lost without a warning, also in
#           group_by, over and SQL. Two transfers of 3 GB are 1.7 GB, and two positive numbers have a negative sum.
#           mean() of the same column is right.
# Matters:  lengths, durations in microseconds and page counts in traces and kernel structs have 32 bits. A sum of
#           durations is wrong after 71 minutes, and the total divided by the count differs from the mean.
# Versions: Polars 2.1.0, DuckDB 2.0.1, PyArrow 26.0.1, pandas 3.1.1.
# Source:   Polars API reference, "Series.sum", "Expr.sum": only Int8, UInt8, Int16 and UInt16 are cast.
# Workaround: pl.col("bytes").cast(pl.UInt64).sum()
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
python3 -m venv venv
venv/bin/pip --quiet --disable-pip-version-check install polars==2.1.0 duckdb==2.0.1 pyarrow==26.0.1 pandas==3.1.1
venv/bin/python - <<'EOF'
import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

print("polars", pl.__version__, "duckdb", duckdb.__version__, "pyarrow", pa.__version__, "pandas", pd.__version__)
sizes = [3_000_000_000, 3_000_000_000]
rows = pa.table({"host": ["a", "a"], "bytes": pa.array(sizes, pa.uint32())})
pq.write_table(rows, "transfers.parquet")
frame = pl.read_parquet("transfers.parquet")
total = pl.col("bytes").sum()
found = {
    "DuckDB": duckdb.sql("select sum(bytes) from 'transfers.parquet'").fetchall()[0][0],
    "PyArrow": pc.sum(rows["bytes"]).as_py(),
    "pandas": int(pd.read_parquet("transfers.parquet")["bytes"].sum()),
    "Polars, mean by count": int(frame["bytes"].mean() * frame.height),
    "Polars, 16 bits": pl.Series([60_000, 60_000], dtype=pl.UInt16).sum() * 50_000,
    "Polars, sum": frame["bytes"].sum(),
    "Polars, group_by": frame.group_by("host").agg(total)["bytes"][0],
    "Polars, over": frame.select(total.over("host"))["bytes"][0],
    "Polars, SQL": frame.sql("select sum(bytes) as total from self")["total"][0],
}
for name, value in found.items():
    print(f"{name}: {value}")
for name, value in found.items():
    wraps = name in ["Polars, sum", "Polars, group_by", "Polars, over", "Polars, SQL"]
    assert value == (sum(sizes) % 2**32 if wraps else sum(sizes)), (name, value)
assert pl.Series([2_000_000_000, 2_000_000_000], dtype=pl.Int32).sum() == 4_000_000_000 - 2**32
EOF
