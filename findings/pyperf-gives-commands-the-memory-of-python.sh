#!/usr/bin/env bash
# pyperf reports the memory of its own Python as the peak memory of each small command.
#
# Expected: command_max_rss of "pyperf command" is the largest resident set of the command.
# Happens:  Linux keeps the largest resident set of a process over exec. Before exec, the new process has the memory of
#           Python, so ru_maxrss of the command starts at the peak of that Python. A shell with a peak below 4 MiB
#           (VmHWM) is reported with more than 8 MiB. If a program of 200 MiB starts the same shell with subprocess and
#           reads ru_maxrss by wait4, the figure is above 200 MiB.
# Matters:  every command smaller than Python has the same figure, so two small programs cannot be compared. A test
#           runner or a job scheduler that measures in this way charges its own size to each job.
# Versions: pyperf 2.11.0 (PyPI).
# Source:   pyperf/_process_time.py; exec_mmap in fs/exec.c and setmax_mm_hiwater_rss in include/linux/mm.h of Linux;
#           https://github.com/golang/go/issues/32054
# Workaround: read VmHWM before the command ends, or memory.peak of its cgroup.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
python3 -m venv venv
venv/bin/pip --quiet --disable-pip-version-check install pyperf==2.11.0
cat >command.sh <<'EOF'
while read -r name value _; do
  case $name in VmHWM:) echo "$value" >peak ;; esac
done </proc/$$/status
EOF
venv/bin/python - <<'EOF'
import json
import os
import subprocess
import sys
from importlib.metadata import version

print("pyperf", version("pyperf"))
command = ["/bin/sh", os.path.abspath("command.sh")]
options = ["-p1", "-w0", "-n2", "-l1", "--quiet", "-o", "result.json"]
subprocess.run([sys.executable, "-m", "pyperf", "command", *options, "--", *command], check=True, capture_output=True)
with open("result.json") as file:
    result = json.load(file)
metadata = {**result["metadata"], **result["benchmarks"][0].get("metadata", {})}
reported = metadata["command_max_rss"] >> 10
with open("peak") as file:
    peak = int(file.read())

ballast = bytearray(b"x") * (200 << 20)
process = subprocess.Popen(command)
waited = os.wait4(process.pid, 0)[2].ru_maxrss
with open("peak") as file:
    peak_again = int(file.read())
print(f"VmHWM of the shell: {peak} KiB and {peak_again} KiB")
print(f"pyperf: {reported} KiB")
print(f"wait4 of a large parent: {waited} KiB")
assert max(peak, peak_again) < 4 << 10
assert reported > 8 << 10 and waited > len(ballast) >> 10
EOF
