#!/usr/bin/env bash
# Formats the BPF C, or checks its format with --check. The version of clang-format is fixed,
# because versions format differently.
set -euo pipefail
cd "$(dirname "$0")/.."
version=14

find_formatter() {
    local name
    for name in "clang-format-$version" clang-format; do
        if "$name" --version 2>/dev/null | grep -q "version $version\."; then
            command -v "$name"
            return
        fi
    done
    return 1
}

if ! formatter=$(find_formatter); then
    [ "$1" != --find ] || exit 1
    echo "bpf-format: SKIPPED: no clang-format $version here (Debian 12: apt install clang-format)" >&2
    [ -z "${NOCTULE_NOT_RUN:-}" ] || echo "format of BPF C (no clang-format $version)" >>"$NOCTULE_NOT_RUN"
    exit 0
fi
mapfile -t files < <(find lab/bench bpf -name '*.[ch]' | sort)
case $1 in
--find) echo "$formatter" ;;
--fix) "$formatter" -i "${files[@]}" ;;
--check) "$formatter" --dry-run -Werror "${files[@]}" ;;
esac
