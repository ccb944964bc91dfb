#!/usr/bin/env bash
# jq from PyPI prints two numbers alike although they compare as different, and computes a difference of 0.
#
# Expected: jq 1.7 and later keep large integers that a filter does not change. Even if jq rounded them, numbers that
#           compare as different should print differently.
# Happens:  jq.compile(".t").input_text(...) of the Python package prints 1764400000000000001 as 1764400000000000000,
#           while tostring and tojson print it exactly. ".[0].t == .[1].t" is false and unique keeps both, but both
#           print alike and their difference is 0.
# Matters:  times in nanoseconds are above 2^53. The exact digits survive inside jq, but its output loses them.
# Versions: jq 1.13.0 of PyPI.
# Source:   jq manual, section on numbers ("literal"); the package converts results by jv_number_value.
# Workaround: "| tostring", or keep such numbers as text.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
python3 -m venv venv
venv/bin/pip --quiet --disable-pip-version-check install jq==1.13.0
venv/bin/python - <<'EOF'
from importlib.metadata import version

import jq

print("jq", version("jq"))
document = '[{"t": 1764400000000000001}, {"t": 1764400000000000002}]'
expected = {
    ".[0].t": 1764400000000000000,
    ".[1].t": 1764400000000000000,
    ".[0].t | tostring": "1764400000000000001",
    ".[0].t == .[1].t": False,
    "map(.t) | unique | length": 2,
    ".[1].t - .[0].t": 0,
}
for program, value in expected.items():
    seen = jq.compile(program).input_text(document).first()
    print(f"{program}: {seen}")
    assert seen == value, (program, seen)
EOF
