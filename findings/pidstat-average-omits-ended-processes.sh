#!/usr/bin/env bash
# The average of pidstat has only the processes that were alive at the last sample.
#
# Expected: "pidstat 1 8" prints a line for each process per second, and at the end the average over the eight seconds
#           for each process that had a line.
# Happens:  pidstat computes the average from the first and the last sample. A process that ended before the last sample
#           is missing, although its lines precede the average.
# Matters:  scripts read only the lines with "Average:". Their sum is too low by each compiler, batch job or worker that
#           ended. If such processes do most of the work, the average shows an idle system.
# Versions: sysstat 12.6.1-1 (Debian 12).
# Source:   write_stats_avg and rw_pidstat_loop in pidstat.c of sysstat.
# Workaround: add up the lines of the intervals. The time after a process's last sample is in none of them.
#
# The script needs apt, with Debian 12 among its sources. It does not install the package.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
apt-get download --quiet=2 sysstat=12.6.1-1 2>/dev/null
dpkg-deb --extract sysstat_*.deb .
cat >work.py <<'EOF'
import sys
import time

start, work, rest = map(float, sys.argv[1:])
time.sleep(start)
end = time.process_time() + work
while time.process_time() < end:
    pass
time.sleep(rest)
EOF
python3 - <<'EOF'
import os
import subprocess
import sys
import threading

environment = {**os.environ, "LC_ALL": "C"}
print(subprocess.run(["usr/bin/pidstat", "-V"], capture_output=True, text=True, env=environment).stdout.splitlines()[0])


def start(*times):
    return subprocess.Popen([sys.executable, "work.py", *map(str, times)])


# Each works for 0.4 s of CPU. The first ends before the last sample, the second lives on.
processes = {"ended": start(0.5, 0.4, 1.2), "alive": start(0.5, 0.4, 60)}
threading.Thread(target=processes["ended"].wait).start()
names = {str(process.pid): name for name, process in processes.items()}
command = ["usr/bin/pidstat", "-u", "-p", "ALL", "1", "8"]
report = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
assert processes["ended"].poll() == 0 and processes["alive"].poll() is None
processes["alive"].kill()
seconds, average = dict.fromkeys(processes, 0.0), {}
header = []
for line in report.splitlines():
    words = line.split()
    if "%CPU" in words:
        header = words
    elif header and len(words) >= len(header) and words[header.index("PID")] in names:
        name = names[words[header.index("PID")]]
        share = float(words[header.index("%CPU")])
        if words[0] == "Average:":
            average[name] = share
        else:
            seconds[name] += share / 100
for name in processes:
    print(f"{name}: {seconds[name]:.2f} s in the intervals, average {average.get(name, 'absent')} %")
assert all(0.2 < total < 0.6 for total in seconds.values()), seconds
assert "ended" not in average and 2 < average["alive"] < 8, average
EOF
