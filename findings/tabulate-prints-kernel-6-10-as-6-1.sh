#!/usr/bin/env bash
# The Python package tabulate prints the kernel versions "6.10" and "6.1" alike.
#
# Expected: a table prints a string as it is.
# Happens:  tabulate examines the strings of each column. If all of them look like numbers, it formats them as numbers
#           with six significant digits. "6.10" becomes 6.1, and the id "451234e12" becomes 4.51234e+17. An integer
#           2^60 + 1 in a column with a fraction becomes 1.15292e+18. If one node has a version with a letter, the whole
#           column keeps its text.
# Matters:  tables of nodes list kernels, versions, ids and byte counts. Two kernels with different bugs appear as one,
#           and an id that is copied from the table does not exist.
# Versions: tabulate 0.10.0 (PyPI).
# Source:   _type and _format in tabulate; README of tabulate, "Number formatting", "Disable automatic conversion".
# Workaround: disable_numparse=True.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
python3 -m venv venv
venv/bin/pip --quiet --disable-pip-version-check install tabulate==0.10.0
venv/bin/python - <<'EOF'
from importlib.metadata import version

from tabulate import tabulate

print("tabulate", version("tabulate"))


def column(cells, **options):
    return tabulate([[cell] for cell in cells], tablefmt="plain", **options).split()


cases = [
    (["6.10", "6.1"], ["6.1", "6.1"]),
    (["6.10", "6.1", "6.9-rc1"], ["6.10", "6.1", "6.9-rc1"]),
    (["451234e12", "400000e10"], ["4.51234e+17", "4e+15"]),
    (["1234567.25", "1234567.5"], ["1.23457e+06", "1.23457e+06"]),
    ([2**60 + 1, 0.5], ["1.15292e+18", "0.5"]),
]
for cells, expected in cases:
    printed = column(cells)
    print(*cells, "->", *printed)
    assert printed == expected, printed
assert column(["6.10", "6.1"], disable_numparse=True) == ["6.10", "6.1"]
EOF
