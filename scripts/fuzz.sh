#!/usr/bin/env bash
# Builds the fuzz targets and runs each, or those that are named, for FUZZ_SECONDS (180). Ends with the first
# that finds something; the input is in fuzz/artifacts then.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo fuzz --version >/dev/null 2>&1 || {
    echo 'cargo-fuzz is missing: cargo install --locked cargo-fuzz' >&2
    exit 1
}
seconds=${FUZZ_SECONDS:-180}
targets=("$@")
[ "$#" -gt 0 ] || mapfile -t targets < <(cargo fuzz list --fuzz-dir fuzz)

# What is read is safe Rust: without a sanitizer a stable compiler will do.
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
