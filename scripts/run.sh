#!/usr/bin/env bash
# Starts a binary with the privileges that it needs: directly if they are present, otherwise with
# sudo.
set -euo pipefail
binary=$1

# CAP_DAC_READ_SEARCH, CAP_PERFMON and CAP_BPF, as bits of a capability set.
needed=$((1 << 2 | 1 << 38 | 1 << 39))

# Whether the ambient capabilities suffice, which a program without file capabilities inherits.
ambient() {
    local mask
    mask=$(sed -n 's/^CapAmb:[[:space:]]*//p' /proc/self/status)
    (((16#${mask:-0} & needed) == needed))
}

if [ "$(id -u)" = 0 ] || ambient; then
    exec "$@"
fi
if ! command -v sudo >/dev/null 2>&1; then
    echo "$binary needs root, and there is no sudo: run this command as root" >&2
    exit 3
fi
echo "loading BPF programs needs root: sudo $*" >&2
exec sudo "$@"
