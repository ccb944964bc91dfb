#!/usr/bin/env bash
# clang never sets the BTF flag for characters, so a reader of BTF sees char as a small integer.
#
# Expected: BTF has BTF_INT_CHAR for integers that are characters, and the type of "char comm[16]" has it.
# Happens:  clang writes char and signed char as a signed integer of 8 bits. Only the name "char" distinguishes them.
#           is_char() of btf-rs returns false for char.
# Matters:  a tool that prints events of a BPF program by their BTF shows the command as sixteen numbers, or shows each
#           int8_t array as text. The specification, the header files and the readers of BTF all have the flag.
# Versions: clang 22.1.8 of ziglang 0.17.1 (PyPI), btf-rs 2.0.0 (crates.io).
# Source:   BTFTypeInt in llvm/lib/Target/BPF/BTFDebug.cpp; Linux documentation, "BPF Type Format", BTF_KIND_INT.
# Workaround: treat an integer of one byte with the name "char" as a character.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
python3 -m venv venv
venv/bin/pip --quiet --disable-pip-version-check install ziglang==0.17.1
cat >event.c <<'EOF'
struct event {
    char comm[16];
    signed char nice;
    _Bool failed;
};
int size(struct event *event) { return event->nice; }
EOF
venv/bin/python -m ziglang cc -target bpfel-freestanding -g -O2 -c event.c -o event.o
venv/bin/python -m ziglang cc -target bpfel-freestanding --version | head -1
mkdir -p reader/src
cat >reader/Cargo.toml <<'EOF'
[package]
name = "reader"
version = "0.0.0"
edition = "2021"
[dependencies]
btf-rs = "=2.0.0"
object = { version = "=0.39.1", default-features = false, features = ["read", "std"] }
[workspace]
EOF
cat >reader/src/main.rs <<'EOF'
use btf_rs::{Btf, Type};
use object::{Object, ObjectSection};

fn main() {
    let bytes = std::fs::read("../event.o").unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let btf = Btf::from_bytes(file.section_by_name(".BTF").unwrap().data().unwrap()).unwrap();
    for name in ["char", "signed char", "_Bool"] {
        let types = btf.resolve_types_by_name(name).unwrap();
        let [Type::Int(int)] = types.as_slice() else { panic!("{name} is not one integer") };
        let (signed, char, bool) = (int.is_signed(), int.is_char(), int.is_bool());
        println!("{name}: {} byte, is_signed {signed}, is_char {char}, is_bool {bool}", int.size());
        assert!(!char);
        assert_eq!(bool, name == "_Bool");
        assert_eq!(signed, name != "_Bool");
    }
}
EOF
cd reader
cargo run --quiet 2>&1
grep -A1 '^name = "btf-rs"' Cargo.lock
