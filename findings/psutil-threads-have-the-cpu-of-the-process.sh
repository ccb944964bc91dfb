#!/usr/bin/env bash
# For the id of a thread, psutil's Process has the name of the thread and the CPU time of the whole process.
#
# Expected: on Linux, psutil.Process accepts the id of a thread, according to its documentation, and returns the figures
#           of that thread.
# Happens:  name(), status() and num_ctx_switches() describe the thread; cpu_times(), cpu_percent() and io_counters()
#           describe the process. A thread that only sleeps has the CPU time of a busy thread of the same process.
#           pid_exists() returns false, whereas is_running() returns true.
# Matters:  perf, eBPF tools and tracers report ids of threads. A table of threads with psutil's figures multiplies the
#           CPU time of a process by its number of threads, and idle threads look like culprits.
# Versions: psutil 7.2.2.
# Source:   psutil documentation, class Process; https://github.com/giampaolo/psutil/issues/1989
# Workaround: use Process(pid).threads(), which returns the right figures.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
python3 -m venv venv
venv/bin/pip --quiet --disable-pip-version-check install psutil==7.2.2
venv/bin/python - <<'EOF'
import threading
import time

import psutil

print("psutil", psutil.__version__)
ids, stop = {}, threading.Event()


def idle():
    ids["idle"] = threading.get_native_id()
    stop.wait()


thread = threading.Thread(target=idle)
thread.start()
while "idle" not in ids or time.process_time() < 1:  # this thread burns the CPU time
    pass
spent = {entry.id: entry.user_time + entry.system_time for entry in psutil.Process().threads()}[ids["idle"]]
process = psutil.Process(ids["idle"])
charged = process.cpu_times().user + process.cpu_times().system
print(f"the idle thread: {spent:.2f} s by Process().threads(), {charged:.2f} s by Process(its id)")
print(f"is_running() {process.is_running()}, pid_exists() {psutil.pid_exists(ids['idle'])}")
running = process.is_running()
stop.set()
thread.join()
assert spent < 0.2 and charged > 0.8
assert running and not psutil.pid_exists(ids["idle"])
EOF
