#!/usr/bin/env bash
# dpkt reads the times of every interface in a pcapng file with the resolution of the first interface.
#
# Expected: in pcapng each interface has its own time resolution (if_tsresol). A reader applies to each packet the
#           resolution of the packet's interface, as Scapy and python-pcapng do.
# Happens:  dpkt reads the first interface description, and uses its resolution for all packets. A packet on a second
#           interface with nanoseconds has a time that is 1000 times too large. In the other order, the time is 1000
#           times too small. dpkt returns no interface, so a caller cannot correct the time.
# Matters:  a capture on several devices, or merged from two captures, can have a NIC with hardware timestamps in ns and
#           an interface in us. Times between packets, rates and latencies are wrong by a factor of a thousand.
# Versions: dpkt 1.9.8, scapy 2.8.0, python-pcapng 2.1.1.
# Source:   Reader.__init__ and Reader.__iter__ in dpkt/pcapng.py; draft-ietf-opsawg-pcapng, "Interface Description
#           Block", if_tsresol.
# Workaround: split the file by interface first, or use another reader.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
python3 -m venv venv
venv/bin/pip --quiet --disable-pip-version-check install dpkt==1.9.8 scapy==2.8.0 python-pcapng==2.1.1
venv/bin/python - <<'EOF'
import struct
from importlib.metadata import version

import dpkt
from pcapng import FileScanner
from scapy.utils import rdpcap

for package in ["dpkt", "scapy", "python-pcapng"]:
    print(package, version(package))
packet = bytes.fromhex("020000000002020000000001") + b"\x88\xb5" + bytes(46)


def block(kind, body):
    body += bytes(-len(body) % 4)
    length = struct.pack("<I", len(body) + 12)
    return struct.pack("<I", kind) + length + body + length


def interface(digits):
    resolution = struct.pack("<HHB3x", 9, 1, digits)
    return block(1, struct.pack("<HHI", 1, 0, 65535) + resolution + struct.pack("<HH", 0, 0))


def enhanced(number, ticks):
    head = struct.pack("<IIIII", number, ticks >> 32, ticks & 0xFFFFFFFF, len(packet), len(packet))
    return block(6, head + packet)


def write(path, first, second):
    """Writes two packets, 5 ms apart, on two interfaces with the given numbers of decimal digits."""
    section = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    times = [1_764_400_000_000_000_000, 1_764_400_000_005_000_000]
    packets = [enhanced(i, times[i] // 10 ** (9 - digits)) for i, digits in enumerate([first, second])]
    with open(path, "wb") as file:
        file.write(section + interface(first) + interface(second) + b"".join(packets))


def times_of_dpkt(path):
    with open(path, "rb") as file:
        return [time for time, _ in dpkt.pcapng.Reader(file)]


def times_of_scapy(path):
    return [float(packet.time) for packet in rdpcap(path)]


def times_of_pcapng(path):
    with open(path, "rb") as file:
        return [block.timestamp for block in FileScanner(file) if hasattr(block, "timestamp")]


for path, first, second in [("us-ns.pcapng", 6, 9), ("ns-us.pcapng", 9, 6), ("us-us.pcapng", 6, 6)]:
    write(path, first, second)
    found = {f.__name__: f(path) for f in [times_of_scapy, times_of_pcapng, times_of_dpkt]}
    for reader, (start, end) in found.items():
        print(f"{path}, {reader}: {start:.3f} and {end:.3f}, {end - start:.3f} s apart")
    for reader, (start, end) in found.items():
        scale = 1000.0 ** ((second - first) // 3) if reader == "times_of_dpkt" else 1
        assert abs(start - 1_764_400_000) < 0.001 and abs(end / 1_764_400_000.005 - scale) < scale * 1e-9, found
EOF
