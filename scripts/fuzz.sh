#!/usr/bin/env bash
# Builds the fuzz targets and runs the named ones, or all, for FUZZ_SECONDS (180) each. Stops at the
# first finding, whose input is then in fuzz/artifacts.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo fuzz --version >/dev/null 2>&1 || {
    echo 'cargo-fuzz is missing: cargo install --locked cargo-fuzz' >&2
    exit 1
}
seconds=${FUZZ_SECONDS:-180}
targets=("$@")
[ "$#" -gt 0 ] || mapfile -t targets < <(cargo fuzz list --fuzz-dir fuzz)

# The parsers are safe Rust and need no sanitizer, so a stable compiler suffices.
cargo fuzz build -s none --fuzz-dir fuzz
for target in "${targets[@]}"; do
    options=(-max_total_time="$seconds" -timeout=20 -print_final_stats=1)
    case $target in parse | resolve) options+=(-dict=fuzz/trace.dict) ;; esac
    mkdir -p "fuzz/corpus/$target"
    cp -r "fuzz/seeds/$target/." "fuzz/corpus/$target/"
    printf '\n== %s: %s s\n' "$target" "$seconds"
    cargo fuzz run -s none --fuzz-dir fuzz "$target" -- "${options[@]}"
done
rm -rf /dev/shm/noctule-fuzz-*
