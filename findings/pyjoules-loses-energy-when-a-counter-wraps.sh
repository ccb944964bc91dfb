#!/usr/bin/env bash
# pyJoules and pyRAPL lose 262 kJ each time the energy counter of a socket wraps.
#
# Expected: energy_uj of Linux's powercap wraps at max_energy_range_uj, a file beside it. A library that returns the
#           energy of a piece of code adds this range if the counter fell, as codecarbon does.
# Happens:  neither library reads max_energy_range_uj. If two sockets use 360 kJ and 60 J, and each counter wraps once,
#           both libraries return 98 kJ and -262 kJ. If only the second socket is measured, pyRAPL returns None, which
#           otherwise means that the machine has no counter.
# Matters:  a socket at 200 W wraps every 22 minutes. A call of half an hour has a plausible figure that is a quarter of
#           the truth. A sum over a table of calls loses 262 kJ per wrap.
# Versions: pyJoules 0.5.1, pyRAPL 0.2.3.1 (PyPI).
# Source:   EnergyState.compute_energy in pyJoules/energy_meter.py; SubstractableList in pyRAPL/sensor.py; Linux
#           documentation, "Power Capping Framework", max_energy_range_uj.
# Workaround: read the counters more often than they wrap, and add max_energy_range_uj to negative differences.
#
# The script puts its own directory over /sys, in a mount namespace of its own (util-linux).
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
python3 -m venv venv
venv/bin/pip --quiet --disable-pip-version-check install pyJoules==0.5.1 pyRAPL==0.2.3.1
cat >wrap.py <<'EOF'
import logging
from importlib.metadata import version
from pathlib import Path

logging.disable()  # both libraries warn about optional packages
import pyRAPL
from pyJoules.device import DeviceFactory
from pyJoules.energy_meter import EnergyMeter

range_uj = 262_143_328_850
zones = [Path(f"/sys/class/powercap/intel-rapl/intel-rapl:{socket}") for socket in range(2)]


def set_counters(*values):
    for zone, value in zip(zones, values):
        (zone / "energy_uj").write_text(f"{value}\n")


cpus = Path("/sys/devices/system/cpu")
for socket, zone in enumerate(zones):
    zone.mkdir(parents=True)
    (zone / "name").write_text(f"package-{socket}\n")
    (zone / "max_energy_range_uj").write_text(f"{range_uj}\n")
    topology = cpus / f"cpu{socket}" / "topology"
    topology.mkdir(parents=True)
    (topology / "physical_package_id").write_text(f"{socket}\n")
(cpus / "present").write_text("0-1\n")
used = [360_000_000_000, 60_000_000]
start = [1_000_000, range_uj - 10_000_000]
end = [(value + more) % range_uj for value, more in zip(start, used)]

print("pyJoules", version("pyJoules"), "pyRAPL", version("pyRAPL"))
set_counters(*start)
meter = EnergyMeter(DeviceFactory.create_devices())
measurements = []
for sockets in [[0, 1], [1]]:
    pyRAPL.setup(devices=[pyRAPL.Device.PKG], socket_ids=sockets)
    measurements.append(pyRAPL.Measurement(f"sockets {sockets}"))
meter.start()
for measurement in measurements:
    measurement.begin()
set_counters(*end)
for measurement in measurements:
    measurement.end()
meter.stop()
joules = [int(value) for value in meter.get_trace()[0].energy.values()]
both, second = [measurement.result.pkg for measurement in measurements]
print(f"used:     {used} uJ")
print(f"pyJoules: {joules} uJ")
print(f"pyRAPL:   {both} uJ, only the second socket: {second}")
assert joules == both == [energy - range_uj for energy in used] and second is None
EOF
mkdir sys
unshare --map-root-user --mount sh -c "mount --bind sys /sys && venv/bin/python wrap.py"
