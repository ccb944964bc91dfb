#!/usr/bin/env bash
# Starts a binary with the rights that it needs: directly when they are there, else through sudo.
set -euo pipefail
binary=$1

# CAP_DAC_READ_SEARCH, CAP_PERFMON and CAP_BPF, as bits of a capability set.
needed=$((1 << 2 | 1 << 38 | 1 << 39))

# What a program without file capabilities keeps when a user starts it.
ambient() {
    local mask
    mask=$(sed -n 's/^CapAmb:[[:space:]]*//p' /proc/self/status)
    (((16#${mask:-0} & needed) == needed))
}

file_capabilities() {
    PATH=$PATH:/usr/sbin:/sbin getcap "$binary" 2>/dev/null | grep -q cap_bpf
}

if [ "$(id -u)" = 0 ] || ambient || file_capabilities; then
    exec "$@"
fi
if ! command -v sudo >/dev/null 2>&1; then
    echo "$binary needs root and there is no sudo. As root, run it, or once:" >&2
    echo "  setcap cap_bpf,cap_perfmon,cap_dac_read_search=ep $binary" >&2
    exit 3
fi
echo "loading BPF programs needs root: sudo $*" >&2
exec sudo "$@"
