#!/usr/bin/env bash
# For the period from 00:00 to 24:00, whisper of Graphite returns the hours from 01:00 to 01:00 of the next day.
#
# Expected: a point at 00:00 in an hourly archive covers the time from 00:00 to 01:00. fetch(path, 00:00, 24:00) returns
#           the 24 points of the day, or these and the point at 24:00.
# Happens:  whisper stores a value under the start of its step, but fetch leaves out the point at "from" and includes
#           the point at "until". The result has 24 points and looks complete. The first hour of the day is missing, and
#           the first hour of the next day is in its place.
# Matters:  the sum over a day or a month contains an hour or a day of the wrong period. Reports and invoices of
#           consecutive periods add up to the right total, so a comparison of totals does not show the shift.
# Versions: whisper 1.1.10 (PyPI).
# Source:   __archive_fetch in whisper.py: fromInterval = (fromTime - fromTime % step) + step.
# Workaround: subtract one second from both limits.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
python3 -m venv venv
venv/bin/pip --quiet --disable-pip-version-check install whisper==1.1.10
venv/bin/python - <<'EOF'
import time
from importlib.metadata import version

import whisper

print("whisper", version("whisper"))
HOUR, DAY = 3600, 86400
whisper.create("requests.wsp", [(HOUR, 24 * 10)], xFilesFactor=0, aggregationMethod="sum")
start = int(time.time()) // DAY * DAY - 3 * DAY
# At ten minutes past each hour: 1000 in the first hour of the day, 5 in that of the next day, otherwise 1.
for hour in range(26):
    value = {0: 1000, 24: 5}.get(hour, 1)
    whisper.update_many("requests.wsp", [(start + hour * HOUR + 600, value)])


def fetch(begin, end):
    (first, last, step), values = whisper.fetch("requests.wsp", begin, end)
    hours = [(limit - start) // step for limit in (first, last)]
    print(f"from {hours[0]} h to {hours[1]} h: {len(values)} points, sum {sum(values):.0f}")
    return hours[0], len(values), sum(values)


assert fetch(start, start + DAY) == (1, 24, 23 + 5)
assert fetch(start - 1, start + DAY - 1) == (0, 24, 1000 + 23)
EOF
