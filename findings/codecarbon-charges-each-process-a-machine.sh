#!/usr/bin/env bash
# codecarbon charges each process the memory power of a whole small machine.
#
# Expected: with tracking_mode="process" the energy of memory is a share of the machine's memory energy, so that the
#           processes of a node add up to no more than the node.
# Happens:  codecarbon estimates the power from the resident set of the process as if this were the memory of a machine:
#           at least two modules of 5 W each (1.5 W on Arm). Even a sleeping process is charged 10 W. Ten processes are
#           charged 100 W for memory, on any node.
# Matters:  for a process that mostly waits, the estimate for memory exceeds the estimate for the CPU by a factor of ten
#           or more, and the sum over a node has no bound.
# Versions: codecarbon 3.3.2.
# Source:   RAM._calculate_ram_power in codecarbon/external/ram.py.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
python3 -m venv venv
venv/bin/pip --quiet --disable-pip-version-check install codecarbon==3.3.2
venv/bin/python - <<'EOF'
import os
import subprocess
import sys
from importlib.metadata import version

CHILD = """
import time
from codecarbon import OfflineEmissionsTracker
tracker = OfflineEmissionsTracker(country_iso_code="FRA", measure_power_secs=1, save_to_file=False, log_level="error",
                                  tracking_mode="process", force_cpu_power=30, allow_multiple_runs=True)
tracker.start()
time.sleep(3)
tracker.stop()
print("watts", tracker.final_emissions_data.ram_power)
"""
print("codecarbon", version("codecarbon"))
children = [
    subprocess.Popen([sys.executable, "-c", CHILD], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    for _ in range(3)
]
outputs = [child.communicate()[0] for child in children]
watts = [float(line.split()[1]) for output in outputs for line in output.splitlines() if line.startswith("watts")]
print(f"three processes that sleep: {watts} W of memory each, {sum(watts)} W together")
assert watts == [3.0 if os.uname().machine == "aarch64" else 10.0] * 3
EOF
