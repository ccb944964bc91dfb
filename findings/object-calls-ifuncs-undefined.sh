#!/usr/bin/env bash
# The crate object reports an indirect function as not defined.
#
# Expected: Symbol::is_definition() is true for each function in a file, if the function has an address.
# Happens:  an indirect function (STT_GNU_IFUNC) has an address, a section and the kind Text, and is_definition() is
#           false.
# Matters:  memcpy, strlen and many other functions of glibc are such symbols. A symbolizer or a uprobe tool that keeps
#           only definitions cannot find these functions, or resolves their addresses to a neighbouring function.
# Versions: object 0.39.1.
# Source:   ElfSymbol::is_definition and kind in object/src/read/elf/symbol.rs; ELF gABI and the GNU extension
#           STT_GNU_IFUNC.
# Workaround: test the section and the address, or read st_info.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
cat >lib.c <<'EOF'
static int plain_impl(void) { return 1; }
int (*choose(void))(void) { return plain_impl; }
int chosen(void) __attribute__((ifunc("choose")));
int plain(void) { return 2; }
EOF
cc -shared -fPIC -o lib.so lib.c
mkdir -p reader/src
cat >reader/Cargo.toml <<'EOF'
[package]
name = "reader"
version = "0.0.0"
edition = "2021"
[dependencies]
object = { version = "=0.39.1", default-features = false, features = ["read", "std"] }
[workspace]
EOF
cat >reader/src/main.rs <<'EOF'
use object::{Object, ObjectSymbol};

fn main() {
    let bytes = std::fs::read("../lib.so").unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    for symbol in file.dynamic_symbols() {
        let name = symbol.name().unwrap();
        if name == "chosen" || name == "plain" {
            let place = symbol.section_index().is_some() && symbol.address() > 0;
            let (kind, defined) = (symbol.kind(), symbol.is_definition());
            println!("{name}: kind {kind:?}, has an address {place}, is_definition {defined}");
            assert!(place);
            assert_eq!(defined, name == "plain");
        }
    }
}
EOF
cd reader
cargo run --quiet 2>&1
grep -A1 '^name = "object"' Cargo.lock
