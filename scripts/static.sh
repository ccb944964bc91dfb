#!/usr/bin/env bash
# Builds dist/noctule, which needs no library of the machine it runs on.
set -euo pipefail
cd "$(dirname "$0")/.."

host=$(rustc -vV | sed -n 's/^host: //p')
for library in libelf.a libz.a; do
    # The compiler prints the bare name of what it does not find.
    if [ "$(cc -print-file-name="$library")" = "$library" ]; then
        echo "static: no $library; Fedora: dnf install elfutils-libelf-devel-static zlib-static;" \
            'Alpine: apk add libelf-static zlib-static' >&2
        exit 1
    fi
done
libraries=$(dirname "$(realpath "$(cc -print-file-name=libelf.a)")")

# Paths of this machine stand in messages of panics and in line numbers. With these in their place the binary is
# the same wherever it is built.
target=$(realpath --canonicalize-missing "${CARGO_TARGET_DIR:-target}")
cargo_home=$(realpath "${CARGO_HOME:-$HOME/.cargo}")
cargo fetch --quiet --locked --target "$host"
# Where several fit, rustc and the C compiler take the last one.
places=("$cargo_home=/cargo")
# The name of a folder of sources depends on where they were fetched from.
for sources in "$cargo_home"/registry/src/*; do places+=("$sources=/cargo/src"); done
places+=("$PWD=/noctule" "$target=/noctule/target")
c_flags=${CFLAGS:-}
rust_flags=(-C target-feature=+crt-static)
for place in "${places[@]}"; do
    rust_flags+=("--remap-path-prefix=$place")
    c_flags+=" -ffile-prefix-map=$place"
done
export CFLAGS=$c_flags
# Unlike RUSTFLAGS it takes paths with blanks.
CARGO_ENCODED_RUSTFLAGS=$(printf '%s\x1f' "${rust_flags[@]}")
export CARGO_ENCODED_RUSTFLAGS=${CARGO_ENCODED_RUSTFLAGS%$'\x1f'}

# With --target, build scripts and their libbpf are built apart, and stay dynamic.
LIBBPF_SYS_LIBRARY_PATH=$libraries \
    cargo build --release --locked --package noctule --features static --target "$host"

built=$target/$host/release/noctule
if readelf --wide --program-headers --dynamic "$built" | grep -E 'INTERP|NEEDED'; then
    echo "static: $built needs the above: it is not static" >&2
    exit 1
fi
mkdir -p dist
# Without line numbers it is a fifth of the size; names of functions stay for backtraces.
strip --strip-debug -o dist/noctule "$built"
if grep --text --only-matching --max-count=3 -F -e "$PWD/" -e "$cargo_home/" -e "$target/" dist/noctule; then
    echo 'static: dist/noctule has the above paths of this machine' >&2
    exit 1
fi
echo "dist/noctule: static, $(stat -c %s dist/noctule) bytes"
