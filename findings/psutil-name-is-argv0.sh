#!/usr/bin/env bash
# psutil's Process.name() is neither the kernel's name of a process nor the name of the process's executable.
#
# Expected: name() returns the command name of the kernel (/proc/PID/comm), or the base name of the executable.
# Happens:  if comm has 15 bytes, psutil assumes that the kernel truncated it. psutil then returns argv[0] if it begins
#           with comm. The parent of a process can set argv[0] to any text.
# Matters:  two tools on one node disagree on the name of a process. A label from psutil cannot be joined with labels
#           from comm, and can be longer than 15 bytes.
# Versions: psutil 7.2.2.
# Source:   Process.name in psutil/__init__.py.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
python3 -m venv venv
venv/bin/pip --quiet --disable-pip-version-check install psutil==7.2.2
venv/bin/python - <<'EOF'
import os
import shutil
import subprocess
import time

import psutil

print("psutil", psutil.__version__)
program = os.path.abspath("a-program-of-many-letters")
shutil.copy("/bin/sleep", program)
argv0 = "a-program-of-many-words, all of them chosen by the parent"
child = subprocess.Popen([argv0, "60"], executable=program)
try:
    process = psutil.Process(child.pid)
    while process.exe() != program:
        time.sleep(0.01)
    with open(f"/proc/{child.pid}/comm") as file:
        comm = file.read().strip()
    print("comm:  ", comm)
    print("exe:   ", os.path.basename(process.exe()))
    print("argv0: ", argv0)
    print("psutil:", process.name())
    assert comm == "a-program-of-ma"
    assert process.name() == argv0
finally:
    child.kill()
    child.wait()
EOF
