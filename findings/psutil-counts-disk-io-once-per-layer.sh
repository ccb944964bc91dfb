#!/usr/bin/env bash
# psutil's total of disk I/O counts each byte once for the disk and again for each layer on it.
#
# Expected: psutil.disk_io_counters() returns the bytes that the disks of the system read and wrote. psutil leaves out
#           partitions for this reason.
# Happens:  psutil adds up every name in /sys/block: disks, encrypted volumes, LVM volumes, RAID arrays and loop
#           devices. A read of 1 GB through LVM on LUKS on one disk is 3 GB. busy_time adds up in the same way, and can
#           exceed the elapsed time.
# Matters:  the usual laptop or server with encryption has three layers, and its throughput appears three times as high.
#           Metric agents and scripts report this total. The factor differs between machines.
# Versions: psutil 7.2.2.
# Source:   disk_io_counters and is_storage_device in psutil/_pslinux.py.
# Workaround: perdisk=True, and add up the devices without /sys/block/NAME/slaves/*.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
python3 -m venv venv
venv/bin/pip --quiet --disable-pip-version-check install psutil==7.2.2
# A disk with a partition, an encrypted volume on it, and an LVM volume on that: 1 GB (10^9 bytes) was read.
mkdir -p block/sda/sda1 block/dm-0/slaves block/dm-1/slaves
cat >diskstats <<'EOF'
   8       0 sda 2000 0 1953125 500 0 0 0 0 0 900 500 0 0 0 0 0 0
   8       1 sda1 2000 0 1953125 500 0 0 0 0 0 900 500 0 0 0 0 0 0
 254       0 dm-0 2000 0 1953125 600 0 0 0 0 0 900 600 0 0 0 0 0 0
 254       1 dm-1 2000 0 1953125 700 0 0 0 0 0 900 700 0 0 0 0 0 0
EOF
cat >total.py <<'EOF'
import psutil

print("psutil", psutil.__version__)
disks = psutil.disk_io_counters(perdisk=True)
for name, counters in disks.items():
    print(f"{name}: {counters.read_bytes} bytes read, busy for {counters.busy_time} ms")
total = psutil.disk_io_counters()
print(f"total: {total.read_bytes} bytes read, busy for {total.busy_time} ms")
assert disks["sda"].read_bytes == 10**9
assert total.read_bytes == 3 * 10**9 and total.busy_time == 3 * 900
EOF
unshare --map-root-user --mount sh -c \
    "mount --bind block /sys/block && mount --bind diskstats /proc/diskstats && venv/bin/python total.py"
