//! Compiles each BPF object and generates its skeleton.

use std::env;
use std::path::{Path, PathBuf};

use libbpf_cargo::SkeletonBuilder;

const OBJECTS: [&str; 8] = [
    "switch",
    "softirq",
    "pagecache",
    "cgroup",
    "lifecycle",
    "tcp",
    "files",
    "udp",
];

fn main() {
    let here = env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    let bpf = Path::new(&here).join("../../bpf");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    for object in OBJECTS {
        let source = bpf.join(object).join(format!("{object}.bpf.c"));
        let built = SkeletonBuilder::new()
            .source(&source)
            // v3: 32-bit registers and jumps (5.1); nothing newer, for 5.10.
            .clang_args([
                "-mcpu=v3",
                "-Wall",
                "-Wextra",
                "-Wno-unused-parameter",
                "-Werror",
            ])
            .build_and_generate(out.join(format!("{object}.skel.rs")));
        if let Err(error) = built {
            panic!("{}: {error:#}", source.display());
        }
    }
    println!("cargo:rerun-if-changed={}", bpf.display());
}
