#!/usr/bin/env bash
# Starts an image of noctule by runc with exactly the rights of the DaemonSet (tests/deploy.rs): every feature is as
# that of the bare binary, and the arguments and the configuration of the DaemonSet serve metrics. Needs root, runc and
# umoci.
# Usage: scripts/image-check.sh [LAYOUT] (default: dist/noctule-image, which `make image` leaves)
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

# Nothing but the binary, its configuration and its licence.
(cd "$scratch/image/rootfs" && find . -type f | sort) >"$scratch/files"
diff - "$scratch/files" <<-END || fail 'other files in the image'
	./etc/noctule/noctule.toml
	./usr/bin/noctule
	./usr/share/doc/noctule/LICENSE-APACHE
	END
NOCTULE_IMAGE=$scratch/image cargo xtask blackbox a_pod_of_the_daemon_set
printf 'image-check: %s: every feature, and metrics, with the rights of the DaemonSet\n' "$layout"
