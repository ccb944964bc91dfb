#!/usr/bin/env bash
# DuckDB returns another result for a comparison on the same rows if PyArrow or Polars wrote the Parquet file.
#
# Expected: "where seconds > 5" returns the same rows from a table, from a Parquet file of DuckDB and from a Parquet
#           file of PyArrow.
# Happens:  in DuckDB NaN is greater than every number, so a table and DuckDB's own file have a row above 5. Statistics
#           in Parquet exclude NaN. DuckDB trusts the maximum of 3 that PyArrow and Polars write, and finds no row.
#           Conversely, "seconds <= 3" also returns the NaN, because every row qualifies according to the statistics.
# Matters:  NaN is the usual value of a ratio without requests, and of a stale series. A count of slow requests depends
#           on the program that wrote the file, and changes when the file is converted.
# Versions: DuckDB 2.0.1, PyArrow 26.0.1, Polars 2.1.0.
# Source:   Parquet format, parquet.thrift, ColumnOrder: "When looking for NaN values, min and max should be ignored";
#           https://github.com/duckdb/duckdb/issues/25521
# Workaround: "and not isnan(seconds)", or pragma disable_optimizer.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
python3 -m venv venv
venv/bin/pip --quiet --disable-pip-version-check install duckdb==2.0.1 pyarrow==26.0.1 polars==2.1.0
venv/bin/python - <<'EOF'
import math

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

print("duckdb", duckdb.__version__, "pyarrow", pa.__version__, "polars", pl.__version__)
rows = pa.table({"seconds": [1.0, 2.0, 3.0, math.nan]})
pq.write_table(rows, "pyarrow.parquet")
pl.from_arrow(rows).write_parquet("polars.parquet")
duckdb.sql("create table memory_table as from rows")
duckdb.sql("copy memory_table to 'duckdb.parquet'")
for file in ["duckdb.parquet", "pyarrow.parquet", "polars.parquet"]:
    statistics = pq.ParquetFile(file).metadata.row_group(0).column(0).statistics
    print(f"{file}: maximum in the statistics {statistics.max if statistics.has_min_max else 'none'}")
found = {}
for source in ["memory_table", "'duckdb.parquet'", "'pyarrow.parquet'", "'polars.parquet'"]:
    above = duckdb.sql(f"select count(*) from {source} where seconds > 5").fetchall()[0][0]
    below = duckdb.sql(f"select count(*) from {source} where seconds <= 3").fetchall()[0][0]
    found[source.strip("'")] = (above, below)
    print(f"{source}: {above} rows > 5, {below} rows <= 3")
assert found == {
    "memory_table": (1, 3),
    "duckdb.parquet": (1, 3),
    "pyarrow.parquet": (0, 4),
    "polars.parquet": (0, 4),
}, found
EOF
