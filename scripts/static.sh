#!/usr/bin/env bash
# Builds dist/noctule, which needs no library of the machine it runs on, and dist/noctule.debug with its symbols.
# With TARGET, as in TARGET=aarch64-unknown-linux-gnu, for another architecture: dist/TARGET/noctule. That needs
# Rust's library for it (rustup target add), the compiler of C that is named so (aarch64-linux-gnu-gcc), and its
# libelf.a and libz.a where this finds them, or in LIBRARIES. What is built is run by qemu-user, if it is there.
set -euo pipefail
cd "$(dirname "$0")/.."

# Bytes that dist/noctule may have.
most=15000000

host=$(rustc -vV | sed -n 's/^host: //p')
architecture=${TARGET:-$host}
dist=dist
cc=cc
tool=
run=()
can_run=yes
if [ "$architecture" != "$host" ]; then
    dist=dist/$architecture
    # As Debian names its compilers.
    tool=${architecture/-unknown/}-
    cc=${tool}gcc
    command -v "$cc" >/dev/null || {
        echo "static: no $cc; Debian: apt install gcc-${tool%-}" >&2
        exit 1
    }
    linker=${architecture//-/_}
    export "CARGO_TARGET_${linker^^}_LINKER=$cc"
    run=("qemu-${architecture%%-*}")
    command -v "${run[0]}" >/dev/null || {
        echo "static: no ${run[0]}: what is built is not run; Debian: apt install qemu-user" >&2
        can_run=no
    }
fi
libraries=${LIBRARIES:-$(dirname "$(realpath "$("$cc" -print-file-name=libelf.a)")")}
for library in libelf.a libz.a; do
    # The compiler prints the bare name of what it does not find.
    if [ ! -e "$libraries/$library" ]; then
        echo "static: no $library; Fedora: dnf install elfutils-libelf-devel-static zlib-static;" \
            'Alpine: apk add libelf-static zlib-static; for another architecture: docs/install.md' >&2
        exit 1
    fi
done

# Paths of this machine stand in messages of panics and in line numbers. With these in their place the binary is
# the same wherever it is built.
target=$(realpath --canonicalize-missing "${CARGO_TARGET_DIR:-target}")
cargo_home=$(realpath "${CARGO_HOME:-$HOME/.cargo}")
cargo fetch --quiet --locked --target "$architecture"
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

# What the binary points at within itself is 446 kB, or 5 kB packed; functions of the same code are one.
# Both need lld, which comes with rustc, and the first a C library that unpacks it (glibc 2.36, musl 1.2.4): tried.
tools=$(rustc --print sysroot)/lib/rustlib/$host/bin/gcc-ld
lld=("-B$tools" -fuse-ld=lld -Wl,-z,pack-relative-relocs -Wl,--icf=all)
link=()
tried=$(mktemp)
trap 'rm -f "$tried"' EXIT
if echo 'int x, *p = &x; int main(void) { return *p; }' |
    "$cc" -static-pie "${lld[@]}" -x c -o "$tried" - 2>/dev/null && [ "$can_run" = yes ] && "${run[@]}" "$tried"; then
    for flag in "${lld[@]}"; do link+=(-C "link-arg=$flag"); done
else
    echo 'static: no lld in rustc, or an old C library, or nothing to try it by: the binary will be larger' >&2
fi
# Unlike RUSTFLAGS it takes paths with blanks.
CARGO_ENCODED_RUSTFLAGS=$(printf '%s\x1f' "${rust_flags[@]}")
export CARGO_ENCODED_RUSTFLAGS=${CARGO_ENCODED_RUSTFLAGS%$'\x1f'}

# With --target, build scripts and their libbpf are built apart, stay dynamic, and take libelf of this machine.
of_host=$(dirname "$(realpath "$(cc -print-file-name=libelf.a)")")
env "LIBBPF_SYS_LIBRARY_PATH_$architecture=$libraries" "LIBBPF_SYS_LIBRARY_PATH_$host=$of_host" \
    cargo rustc --release --locked --package noctule --bin noctule --features static --target "$architecture" \
        -- "${link[@]}"

built=$target/$architecture/release/noctule
if readelf --wide --program-headers --dynamic "$built" | grep -E 'INTERP|NEEDED'; then
    echo "static: $built needs the above: it is not static" >&2
    exit 1
fi
mkdir -p "$dist"
# A backtrace finds names and lines where the second file is beside the first.
"${tool}objcopy" --only-keep-debug --compress-debug-sections=zlib "$built" "$dist/noctule.debug"
chmod 644 "$dist/noctule.debug"
"${tool}objcopy" --strip-all "--add-gnu-debuglink=$dist/noctule.debug" "$built" "$dist/noctule"
for file in "$dist/noctule" "$dist/noctule.debug"; do
    # Names in the second are compressed.
    "${tool}objcopy" --decompress-debug-sections "$file" "$tried"
    if grep --text --only-matching --max-count=3 -F -e "$PWD/" -e "$cargo_home/" -e "$target/" "$tried"; then
        echo "static: $file has the above paths of this machine" >&2
        exit 1
    fi
done
[ "$can_run" = no ] || "${run[@]}" "$dist/noctule" --version >/dev/null
size=$(stat -c %s "$dist/noctule")
echo "$dist/noctule: static, $size bytes; $dist/noctule.debug: $(stat -c %s "$dist/noctule.debug") bytes"
if [ "$size" -gt "$most" ]; then
    echo "static: $dist/noctule has more than $most bytes. Find what came in: '${tool}nm --print-size --size-sort -C" \
        "$built', and 'cargo tree -i CRATE'. Lower [profile.release.package] for what no tick runs, or raise the" \
        'bound with the reason, here and in docs/install.md' >&2
    exit 1
fi
