#!/usr/bin/env bash
# PyArrow reads a column of unsigned 64-bit integers in CSV or JSON as doubles if one value exceeds 2^63 - 1.
#
# Expected: integers stay integers, or the reader raises an error. DuckDB widens to HUGEINT, Polars to Int128.
# Happens:  PyArrow infers double for the whole column, so numbers above 2^53 change and distinct ids become equal.
# Matters:  kernel ids, masks and "no limit" values are unsigned 64-bit numbers. One row with such a value corrupts
#           the whole column, including rows whose own values would fit.
# Versions: PyArrow 26.0.1, DuckDB 2.0.1, Polars 2.1.0.
# Source:   PyArrow documentation, "Reading CSV files", column type inference.
# Workaround: ConvertOptions(column_types=...), or an explicit schema.
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
import pyarrow.csv as pc
import pyarrow.json as pj

print("pyarrow", pa.__version__, "duckdb", duckdb.__version__, "polars", pl.__version__)
ids = [9007199254740993, 9007199254740992, 18446744073709551615]
with open("ids.csv", "w") as file:
    file.write("id\n" + "".join(f"{number}\n" for number in ids))
with open("ids.jsonl", "w") as file:
    file.write("".join(f'{{"id": {number}}}\n' for number in ids))

csv = pc.read_csv("ids.csv")["id"]
lines = pj.read_json("ids.jsonl")["id"]
for name, column in [("csv", csv), ("json", lines)]:
    values = column.to_pylist()
    print(f"pyarrow {name}: {column.type} {values}; the first two are equal: {values[0] == values[1]}")
    assert column.type == pa.float64() and values[0] == values[1]
duck = [row[0] for row in duckdb.sql("select id from read_csv('ids.csv')").fetchall()]
polars = pl.read_csv("ids.csv")["id"].to_list()
print("duckdb:", duck)
print("polars:", polars)
assert duck == polars == ids
EOF
