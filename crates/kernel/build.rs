//! Compiles each BPF object, generates its skeleton, and packs the object: a binary without packing has 1.2 MB
//! more.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{env, fs};

use libbpf_cargo::SkeletonBuilder;
use libbpf_rs::btf::{Btf, BtfKind, BtfType};

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

/// The most that zstd has without windows that a reader must allow.
const LEVEL: i32 = 19;

/// Before the array of an object's bytes in a skeleton of libbpf-cargo, which is laid out by rustfmt or, where
/// there is none, not at all.
const BYTES: &str = "link_section = \".bpf.objs\"";

/// What a skeleton does with a map that has another name, and what it is to do instead. libbpf gives maps no names
/// where it finds out wrongly that the kernel takes none: it has no memory for a moment.
const PANIC: &str = "panic!(\"encountered unexpected map: `{name}`\")";
const ERROR: &str = "return Err(libbpf_rs::Error::from(std::io::Error::other(format!(\
                     \"a map has the name `{name}` in the kernel: libbpf could not probe the kernel\"))))";

fn main() {
    let here = env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    let root = Path::new(&here).join("../..");
    let root = root.canonicalize().expect("the folder of the sources");
    let bpf = root.join("bpf");
    // Line info in BTF names files: an object is to be the same wherever the sources and the build lie.
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
            // v3: 32-bit registers and jumps (5.1); nothing newer, for 5.10.
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
    fs::write(out.join("named.rs"), named).expect("OUT_DIR can be written");
    println!("cargo:rerun-if-changed={}", bpf.display());
}

/// The structs, unions and enumerations that the object names. libbpf does not look at what follows three
/// underscores.
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

/// Puts the packed object into the skeleton in place of the array of its bytes.
fn pack(skeleton: &Path, compiled: &Path) {
    let object = fs::read(compiled).expect("libbpf-cargo has written the object");
    let packed = compiled.with_extension("zst");
    let bytes = zstd::bulk::compress(&object, LEVEL).expect("memory is there");
    fs::write(&packed, bytes).expect("OUT_DIR can be written");

    let text = fs::read_to_string(skeleton).expect("libbpf-cargo has written the skeleton");
    let (before, rest) = text.split_once(BYTES).expect("a skeleton has its bytes");
    let attribute = before.rfind('#').expect("the section is in an attribute");
    // `static DATA: [u8; N] = [...];`
    let (_, array) = rest.split_once('=').expect("the bytes have a value");
    let (_, after) = array.split_once(';').expect("an array has an end");
    let before = &before[..attribute];
    let data = format!(
        "static DATA: std::sync::LazyLock<Vec<u8>> = std::sync::LazyLock::new(|| \
         crate::skel::unpacked(include_bytes!({packed:?}), {}));",
        object.len()
    );
    let text = format!("{before}{data}{after}");
    assert!(text.contains(PANIC), "a skeleton of another libbpf-cargo");
    fs::write(skeleton, text.replace(PANIC, ERROR)).expect("OUT_DIR can be written");
}
