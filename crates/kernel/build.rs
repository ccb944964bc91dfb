//! Compiles each BPF object, generates its skeleton, and compresses the object. Without compression
//! the binary is 1.2 MB larger.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{env, fs};

use libbpf_cargo::SkeletonBuilder;
use libbpf_rs::btf::{Btf, BtfKind, BtfType};

const OBJECTS: [&str; 9] = [
    "switch",
    "softirq",
    "pagecache",
    "cgroup",
    "lifecycle",
    "tcp",
    "files",
    "udp",
    "disk",
];

/// The highest zstd level whose window size readers accept without a setting.
const LEVEL: i32 = 19;

/// Text before the byte array of an object in a libbpf-cargo skeleton. The array is formatted by
/// rustfmt, or not at all if rustfmt is missing.
const BYTES: &str = "link_section = \".bpf.objs\"";

/// The panic in a skeleton if a map has an unexpected name, and its replacement. If libbpf's probe
/// of the kernel fails, for example because of a brief lack of memory, libbpf omits map names.
const PANIC: &str = "panic!(\"encountered unexpected map: `{name}`\")";
const ERROR: &str = "return Err(libbpf_rs::Error::from(std::io::Error::other(format!(\"libbpf \
                     could not probe the kernel: a map has the unexpected name `{name}`\"))))";

fn main() {
    let here = env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    let root = Path::new(&here).join("../..");
    let root = root.canonicalize().expect("the source directory exists");
    let bpf = root.join("bpf");
    // BTF line info contains file paths. The object must not depend on the directories of the
    // sources and the build.
    let sources = format!("-ffile-prefix-map={}=/noctule", root.display());
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let mut named = BTreeSet::new();
    for object in OBJECTS {
        let source = bpf.join(object).join(format!("{object}.bpf.c"));
        let compiled = out.join(format!("{object}.bpf.o"));
        let skeleton = out.join(format!("{object}.skel.rs"));
        let built = SkeletonBuilder::new()
            .source(&source)
            .obj(&compiled)
            // v3: 32-bit registers and jumps (5.1). Linux 5.10 supports nothing newer.
            .clang_args([
                "-mcpu=v3",
                "-Wall",
                "-Wextra",
                "-Wno-unused-parameter",
                "-Werror",
                &sources,
            ])
            .build_and_generate(&skeleton);
        if let Err(error) = built {
            panic!("{}: {error:#}", source.display());
        }
        pack(&skeleton, &compiled);
        named.extend(names(&compiled));
    }
    let named = Vec::from_iter(named);
    let named = format!("const NAMED: &[&str] = &{named:?};\n");
    fs::write(out.join("named.rs"), named).expect("OUT_DIR is writable");
    println!("cargo:rerun-if-changed={}", bpf.display());
}

/// Returns the names of the structs, unions and enumerations in the object. libbpf ignores a suffix
/// after three underscores.
fn names(compiled: &Path) -> Vec<String> {
    let btf = Btf::from_path(compiled).expect("the object has BTF");
    let types = (1..btf.len() as u32).filter_map(|id| btf.type_by_id::<BtfType<'_>>(id.into()));
    let kinds = [
        BtfKind::Struct,
        BtfKind::Union,
        BtfKind::Enum,
        BtfKind::Enum64,
    ];
    let asked_for = types.filter(|it| kinds.contains(&it.kind()));
    let names = asked_for.filter_map(|it| it.name()?.to_str()?.split("___").next());
    names.map(str::to_owned).collect()
}

/// Replaces the byte array in the skeleton with the compressed object.
fn pack(skeleton: &Path, compiled: &Path) {
    let object = fs::read(compiled).expect("libbpf-cargo wrote the object");
    let packed = compiled.with_extension("zst");
    let bytes = zstd::bulk::compress(&object, LEVEL).expect("memory is there");
    fs::write(&packed, bytes).expect("OUT_DIR is writable");

    let text = fs::read_to_string(skeleton).expect("libbpf-cargo wrote the skeleton");
    let (before, rest) = text
        .split_once(BYTES)
        .expect("the skeleton contains the object's bytes");
    let attribute = before.rfind('#').expect("an attribute sets the section");
    // `static DATA: [u8; N] = [...];`
    let (_, array) = rest
        .split_once('=')
        .expect("the byte array has an initializer");
    let (_, after) = array
        .split_once(';')
        .expect("the initializer ends with a semicolon");
    let before = &before[..attribute];
    let data = format!(
        "static DATA: std::sync::LazyLock<Vec<u8>> = std::sync::LazyLock::new(|| \
         crate::skel::unpacked(include_bytes!({packed:?}), {}));",
        object.len()
    );
    let text = format!("{before}{data}{after}");
    assert!(
        text.contains(PANIC),
        "the skeleton is from an unknown version of libbpf-cargo"
    );
    fs::write(skeleton, text.replace(PANIC, ERROR)).expect("OUT_DIR is writable");
}
