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

# With --target, build scripts and their libbpf are built apart, and stay dynamic.
LIBBPF_SYS_LIBRARY_PATH=$libraries RUSTFLAGS='-C target-feature=+crt-static' \
    cargo build --release --locked --package noctule --features static --target "$host"

built=${CARGO_TARGET_DIR:-target}/$host/release/noctule
if readelf --wide --program-headers --dynamic "$built" | grep -E 'INTERP|NEEDED'; then
    echo "static: $built needs the above: it is not static" >&2
    exit 1
fi
mkdir -p dist
# Without line numbers it is a fifth of the size; names of functions stay for backtraces.
strip --strip-debug -o dist/noctule "$built"
echo "dist/noctule: static, $(stat -c %s dist/noctule) bytes"
