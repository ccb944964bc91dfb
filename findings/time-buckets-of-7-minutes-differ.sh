#!/usr/bin/env bash
# DuckDB, Polars and pandas cut the same day into different buckets of 7 minutes.
#
# Expected: buckets of a fixed width start at multiples of the width since 1970, so that two results can be joined. The
#           bucket of an event does not depend on the other rows of the file.
# Happens:  Polars counts from 1970, DuckDB's time_bucket from 2000-01-03, and pandas' resample from midnight of the day
#           of the first row. In pandas the same event is in another bucket if the file begins two days earlier. The
#           tools agree only if the width divides a day.
# Matters:  buckets of 7 or 45 minutes, 5 hours or 100 seconds are usual where a chart has a given number of points. A
#           join of two results, or of two files from pandas, finds no rows, or only some. If the days of a week are
#           resampled one by one, each ends with a short bucket, which looks like a drop in traffic.
# Versions: DuckDB 2.0.1, Polars 2.1.0, pandas 3.1.1.
# Source:   DuckDB documentation, "time_bucket", origin; pandas documentation, "DataFrame.resample", origin="start_day";
#           Polars documentation, "Expr.dt.truncate".
# Workaround: origin="epoch" in pandas, and time_bucket(width, t, timestamp '1970-01-01') in DuckDB.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
python3 -m venv venv
venv/bin/pip --quiet --disable-pip-version-check install duckdb==2.0.1 polars==2.1.0 pandas==3.1.1 pyarrow==26.0.1
venv/bin/python - <<'EOF'
from datetime import datetime, timedelta

import duckdb
import pandas as pd
import polars as pl

print("duckdb", duckdb.__version__, "polars", pl.__version__, "pandas", pd.__version__)
event = datetime(2026, 1, 2, 0, 5)
before = event - timedelta(days=2)


def bucket_of_pandas(times, minutes):
    """Returns the bucket of the last of the times."""
    return pd.Series(1, index=pd.DatetimeIndex(times)).resample(f"{minutes}min").sum().index[-1].to_pydatetime()


def buckets(minutes):
    query = f"select time_bucket(interval '{minutes} minutes', $1), time_bucket(interval '{minutes} minutes', $1, $2)"
    duck, duck_of_epoch = duckdb.execute(query, [event, datetime(1970, 1, 1)]).fetchall()[0]
    return {
        "Polars": pl.select(pl.lit(event).dt.truncate(f"{minutes}m")).item(),
        "DuckDB, origin 1970": duck_of_epoch,
        "DuckDB": duck,
        "pandas, one day": bucket_of_pandas([event], minutes),
        "pandas, three days": bucket_of_pandas([before, event], minutes),
    }


found = buckets(7)
for name, bucket in found.items():
    print(f"{name}: {event:%H:%M} is in the bucket from {bucket:%d %b %H:%M}")
assert found["Polars"] == found["DuckDB, origin 1970"]
assert len({found[name] for name in ["Polars", "DuckDB", "pandas, one day", "pandas, three days"]}) == 4, found
assert set(buckets(15).values()) == {datetime(2026, 1, 2)}
EOF
