#!/usr/bin/env bash
# Builds dist/noctule, which needs no libraries at run time, and dist/noctule.debug with its
# symbols. TARGET selects another architecture: TARGET=aarch64-unknown-linux-gnu builds
# dist/TARGET/noctule. A build for another architecture needs Rust's standard library for the target
# (rustup target add) and a C cross compiler (aarch64-linux-gnu-gcc). It also needs the target's
# libelf.a and libz.a, next to the compiler's own libraries or in LIBRARIES. If qemu-user is
# installed, the script runs the result with it.
set -euo pipefail
cd "$(dirname "$0")/.."

# Maximum size of dist/noctule in bytes.
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
    # The prefix of cross compilers on Debian.
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
    # If the compiler does not find a library, it prints only the library's name.
    if [ ! -e "$libraries/$library" ]; then
        echo "static: no $library; Fedora: dnf install elfutils-libelf-devel-static zlib-static;" \
            'Alpine: apk add libelf-static zlib-static; for another architecture: docs/install.md' >&2
        exit 1
    fi
done

# Panic messages and line tables contain build paths. The compilers replace these paths, so that
# builds on different machines produce equal binaries.
target=$(realpath --canonicalize-missing "${CARGO_TARGET_DIR:-target}")
cargo_home=$(realpath "${CARGO_HOME:-$HOME/.cargo}")
cargo fetch --quiet --locked --target "$architecture"
# If several prefixes match, rustc and the C compiler use the last one.
places=("$cargo_home=/cargo")
# The name of a source directory depends on the registry's address.
for sources in "$cargo_home"/registry/src/*; do places+=("$sources=/cargo/src"); done
places+=("$PWD=/noctule" "$target=/noctule/target")
c_flags=${CFLAGS:-}
rust_flags=(-C target-feature=+crt-static)
for place in "${places[@]}"; do
    rust_flags+=("--remap-path-prefix=$place")
    c_flags+=" -ffile-prefix-map=$place"
done
export CFLAGS=$c_flags

# Relative relocations take 446 kB, or 5 kB when packed. Folding merges identical functions. Packing
# and folding need lld, which comes with rustc. Packing also needs support in the C library (glibc
# 2.36, musl 1.2.4), which a test program checks.
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
# Unlike RUSTFLAGS, this variable allows paths with spaces.
CARGO_ENCODED_RUSTFLAGS=$(printf '%s\x1f' "${rust_flags[@]}")
export CARGO_ENCODED_RUSTFLAGS=${CARGO_ENCODED_RUSTFLAGS%$'\x1f'}

# With --target, build scripts and their libbpf are built separately for the host. They stay dynamic
# and use the host's libelf.
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
# Backtraces contain names and line numbers if noctule.debug is in the same directory as noctule.
"${tool}objcopy" --only-keep-debug --compress-debug-sections=zlib "$built" "$dist/noctule.debug"
chmod 644 "$dist/noctule.debug"
"${tool}objcopy" --strip-all "--add-gnu-debuglink=$dist/noctule.debug" "$built" "$dist/noctule"
for file in "$dist/noctule" "$dist/noctule.debug"; do
    # Expands compressed debug sections before the search.
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
