#!/usr/bin/env bash
# Starts a noctule image with runc and exactly the privileges of the DaemonSet (tests/deploy.rs).
# Checks that every feature has the same status as without a container, and that the DaemonSet's
# arguments and configuration serve metrics. Needs root, runc and umoci.
# Usage: scripts/image-check.sh [LAYOUT] (default: dist/noctule-image, from `make image`)
set -euo pipefail
layout=$(realpath "${1:-$(dirname "$0")/../dist/noctule-image}")
cd "$(dirname "$0")/.."

fail() {
    printf 'image-check: FAILED: %s\n' "$*" >&2
    exit 1
}
[ "$(id -u)" = 0 ] || fail 'it needs root'
for program in runc umoci; do
    command -v "$program" >/dev/null || fail "no $program: apt install runc umoci"
done

scratch=$(mktemp -d)
trap 'rm -rf --one-file-system "$scratch"' EXIT
trap 'exit 130' INT TERM
tag=$(umoci list --layout "$layout")
umoci unpack --image "$layout:$tag" "$scratch/image" >/dev/null

# The image contains only the binary, its configuration and its license.
(cd "$scratch/image/rootfs" && find . -type f | sort) >"$scratch/files"
diff - "$scratch/files" <<-END || fail 'other files in the image'
	./etc/noctule/noctule.toml
	./usr/bin/noctule
	./usr/share/doc/noctule/LICENSE-APACHE
	END
NOCTULE_IMAGE=$scratch/image cargo xtask blackbox a_pod_of_the_daemon_set
printf 'image-check: %s: every feature, and metrics, with the rights of the DaemonSet\n' "$layout"
