#!/usr/bin/env bash
# The growth of an unsigned counter over a reset is -2, 1.8e19 or an error, depending on library and method.
#
# Expected: in every library, the difference of two values of a counter is negative if the counter was reset in between.
# Happens:  for 5 followed by 3, Polars' diff() gives -2, but the same difference by shift() wraps to 2^64 - 2. pandas'
#           diff() gives 1.8e19, NumPy and PyArrow wrap, and DuckDB raises an error.
# Matters:  counters of the kernel are unsigned, and a restart is a reset. Two equivalent methods compute either a
#           negative rate, which is easy to notice, or a rate near the largest number.
# Versions: Polars 2.1.0, pandas 3.1.1, NumPy 2.4.6, PyArrow 26.0.1, DuckDB 2.0.1.
# Source:   documentation of polars.Expr.diff, pandas.Series.diff, numpy.diff (note on unsigned arrays),
#           pyarrow.compute.subtract.
# Workaround: cast to a signed type first.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
python3 -m venv venv
venv/bin/pip --quiet --disable-pip-version-check install polars==2.1.0 pandas==3.1.1 numpy==2.4.6 pyarrow==26.0.1 duckdb==2.0.1
venv/bin/python - <<'EOF'
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

print("polars", pl.__version__, "pandas", pd.__version__, "numpy", np.__version__, "pyarrow", pa.__version__,
      "duckdb", duckdb.__version__)
counter = pl.DataFrame({"count": pl.Series([5, 3], dtype=pl.UInt64)})
wrapped = 2**64 - 2
seen = {
    "polars diff": counter.select(pl.col("count").diff())["count"][1],
    "polars shift": counter.select(pl.col("count") - pl.col("count").shift())["count"][1],
    "pandas diff": pd.Series([5, 3], dtype="uint64").diff()[1],
    "numpy diff": int(np.diff(np.array([5, 3], dtype="uint64"))[0]),
    "pyarrow subtract": pc.subtract(pa.scalar(3, pa.uint64()), pa.scalar(5, pa.uint64())).as_py(),
}
for way, growth in seen.items():
    print(f"{way}: {growth}")
assert seen["polars diff"] == -2
assert all(seen[way] == wrapped for way in ["polars shift", "numpy diff", "pyarrow subtract"])
assert seen["pandas diff"] == float(wrapped)
try:
    duckdb.sql("select 3::ubigint - 5::ubigint").fetchall()
    raise SystemExit("DuckDB no longer raises")
except duckdb.OutOfRangeException as error:
    print("duckdb:", error)
EOF
