#!/usr/bin/env bash
# In Polars, the difference between two counts of rows is 4294967294 instead of -2.
#
# Expected: a column of strings or booleans has no unsigned numbers in it, so the number of successes minus the number
#           of failures is negative if more requests failed.
# Happens:  len(), count(), n_unique() and the sum of booleans are UInt32. Their difference wraps below 0, and the sum
#           of two such results wraps above 2^32. len() - 6 of four rows wraps too. DuckDB returns -2.
# Matters:  "more opened than closed", "requests minus errors" and "today minus yesterday" are differences of counts.
#           The largest decline is first in a list of the largest increases.
# Versions: Polars 2.1.0, DuckDB 2.0.1.
# Source:   Polars API reference, "polars.len"; get_index_type(), which is UInt32 unless the 64-bit runtime is used.
# Workaround: cast(pl.Int64) before the subtraction.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
python3 -m venv venv
venv/bin/pip --quiet --disable-pip-version-check install polars==2.1.0 duckdb==2.0.1 pyarrow==26.0.1
venv/bin/python - <<'EOF'
import duckdb
import polars as pl

print("polars", pl.__version__, "duckdb", duckdb.__version__)
requests = pl.DataFrame({"state": ["ok", "error", "error", "error"]})
ok = pl.col("state") == "ok"
query = "select count(*) filter (where state = 'ok') - count(*) filter (where state <> 'ok') as d from "
states = pl.DataFrame({"today": ["a"], "yesterday": [["a", "b", "c"]]}).explode("yesterday")
found = {
    "DuckDB": duckdb.sql(query + "requests").fetchall()[0][0],
    "sum of booleans": requests.select(ok.sum() - (~ok).sum()).item(),
    "len": requests.select(pl.col("state").filter(ok).len() - pl.col("state").filter(~ok).len()).item(),
    "count": requests.select(pl.col("state").filter(ok).count() - pl.col("state").filter(~ok).count()).item(),
    "n_unique": states.select(pl.col("today").n_unique() - pl.col("yesterday").n_unique()).item(),
    "len() - 6": requests.select(pl.len() - 6).item(),
}
for name, value in found.items():
    print(f"{name}: {value}")
assert found.pop("DuckDB") == -2
assert set(found.values()) == {2**32 - 2}, found
EOF
