#!/usr/bin/env bash
# The container detector of OpenTelemetry Python gives a container.id to processes that are in no container.
#
# Expected: container.id is the id that the runtime gave the container, and is missing for a process on the host.
# Happens:  in /proc/self/cgroup the detector treats any number of hexadecimal digits between a slash, hyphen or colon
#           and a dot as an id. A shell in session-3.scope gets the container "3", and a unit cafe.service gets "cafe".
#           If there are no such digits, the detector uses the first path component of 64 characters in a line of
#           /proc/self/mountinfo that contains "containers". On a node with Docker this is the shm mount of some
#           container, and nginx.service gets the id of that container.
# Matters:  spans and metrics of a host service are joined with an unrelated container. "3" is the id of a container on
#           every node.
# Versions: opentelemetry-resource-detector-containerid 0.66b1.
# Source:   _get_container_id_v1 and _get_container_id_v2 in opentelemetry/resource/detector/containerid/__init__.py;
#           OpenTelemetry semantic conventions, "Container", container.id.
# Workaround: drop an id that does not have 64 digits, and do not use the detector on hosts.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
python3 -m venv venv
venv/bin/pip --quiet --disable-pip-version-check install opentelemetry-resource-detector-containerid==0.66b1 \
  opentelemetry-sdk==1.45.2
venv/bin/python - <<'EOF'
from importlib.metadata import version

import opentelemetry.resource.detector.containerid as detector

print("opentelemetry-resource-detector-containerid", version("opentelemetry-resource-detector-containerid"))
OWN, OTHER = "0123456789abcdef" * 4, "fedcba9876543210" * 4
ROOT = "24 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
SHM = f"91 24 0:55 / /var/lib/docker/containers/{OTHER}/mounts/shm rw shared:40 - tmpfs shm rw,size=65536k\n"
cases = [  # what runs, its cgroup, its mounts, the container.id seen
    ("in a container", f"/system.slice/docker-{OWN}.scope", ROOT, OWN),
    ("login shell", "/user.slice/user-1000.slice/session-3.scope", ROOT, "3"),
    ("host unit cafe", "/system.slice/cafe.service", ROOT, "cafe"),
    ("host unit nginx", "/system.slice/nginx.service", ROOT, None),
    ("host unit nginx, Docker runs", "/system.slice/nginx.service", ROOT + SHM, OTHER),
]
# The detector reads these two files of /proc; here they have the text that a process of each kind reads there.
detector._DEFAULT_CGROUP_V1_PATH = "cgroup"
detector._DEFAULT_CGROUP_V2_PATH = "mountinfo"
for name, cgroup, mounts, expected in cases:
    with open("cgroup", "w") as file:
        file.write(f"0::{cgroup}\n")
    with open("mountinfo", "w") as file:
        file.write(mounts)
    found = detector.ContainerResourceDetector().detect().attributes.get("container.id")
    print(f"{name}: {found}")
    assert found == expected, (name, found)
EOF
