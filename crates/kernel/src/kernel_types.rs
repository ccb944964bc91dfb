//! A small copy of the kernel's BTF: the types alone that noctule names.
//!
//! libbpf looks at all types of the kernel, some 150,000, for each type that an object names, and begins
//! anew with each object: that was a third of the CPU time of a start. The copy has some thousand.
//!
//! Its types have other numbers. Where the kernel has to be told a type by number, a program is given it as a
//! constant (`CAST`): `bpf_core_type_id_kernel()` would be the number in the copy.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;
use std::sync::Arc;

use libbpf_rs::btf::Btf;
use libbpf_rs::skel::SkelBuilder;
use memmap2::Mmap;
use rustix::fs::{MemfdFlags, memfd_create};

use crate::facts::{Facts, VMLINUX};

mod copy;
mod raw;

use raw::{Kind, Types};

// `const NAMED: &[&str]`, written by the build: structs, unions and enumerations that the objects have.
include!(concat!(env!("OUT_DIR"), "/named.rs"));

/// The enumeration of the copy by which programs know the kernel's numbers of these structs, for the function
/// that takes them (`bpf/include/read.bpf.h`).
const NUMBERS: &str = "kernel_number";
const CAST: [(&str, &str); 7] = [
    ("NUMBER_TASK_STRUCT", "task_struct"),
    ("NUMBER_RQ", "rq"),
    ("NUMBER_TCP_SOCK", "tcp_sock"),
    ("NUMBER_ADDRESS_SPACE", "address_space"),
    ("NUMBER_LIST_HEAD", "list_head"),
    ("NUMBER_FILE", "file"),
    ("NUMBER_SOCKET", "socket"),
];
const CASTS: &str = "bpf_rdonly_cast";

/// The copy, and what it has not: by which numbers the kernel knows its types.
#[derive(Clone, Debug, Default)]
pub(crate) struct KernelTypes {
    /// A file in memory. `None`: libbpf is to read the kernel's own.
    copy: Option<Arc<File>>,
    functions: HashMap<String, u32>,
}

impl KernelTypes {
    /// Copies what the objects name, and functions and types of these names. Where the kernel does not
    /// describe its types, or in a way that is not known here, there is no copy.
    pub(crate) fn read(others: impl IntoIterator<Item = String>) -> Self {
        let names = NAMED.iter().map(|name| (*name).to_owned());
        let names: HashSet<String> = names.chain(others).chain([CASTS.to_owned()]).collect();
        let copied = || Self::of(&fs::read(VMLINUX).ok()?, &names);
        let read = match mapped() {
            Ok(whole) => Self::of(&whole, &names),
            Err(_) => copied(),
        };
        read.unwrap_or_default()
    }

    fn of(whole: &[u8], names: &HashSet<String>) -> Option<Self> {
        let types = Types::parse(whole)?;
        let found = types.named(names);
        let structs = numbers(&types, &found, Kind::STRUCT);
        let functions = numbers(&types, &found, Kind::FUNC);
        let known = CAST
            .iter()
            .filter_map(|(name, of)| Some((*name, *structs.get(*of)?)));
        let known = known.filter(|_| functions.contains_key(CASTS));
        let numbers = (NUMBERS, known.collect::<Vec<_>>());
        let copy = in_memory(&copy::with_parts(&types, &found, numbers)?).ok()?;
        // It is opened by its name in /proc, which need not be there.
        File::open(path(&copy)).ok()?;
        Some(Self {
            copy: Some(Arc::new(copy)),
            functions,
        })
    }

    /// The number by which the kernel knows the function, where it is known.
    pub(crate) fn of_function(&self, name: &str) -> Option<u32> {
        self.functions.get(name).copied()
    }

    /// The types that were asked for, and where there is no copy all of them.
    pub(crate) fn btf(&self) -> Option<Btf<'static>> {
        match &self.copy {
            Some(copy) => Btf::from_path(path(copy)).ok(),
            None => Btf::from_vmlinux().ok(),
        }
    }
}

/// All types of the kernel, without a copy: some megabytes, which are read page by page otherwise. Refused before
/// Linux 6.16.
fn mapped() -> io::Result<Mmap> {
    let file = File::open(VMLINUX)?;
    #[allow(unsafe_code, reason = "a mapped file could be changed by others")]
    // SAFETY: this one is the kernel's, and stays as it is.
    unsafe {
        Mmap::map(&file)
    }
}

/// Of types of the same name the first, as libbpf does.
fn numbers(types: &Types<'_>, found: &[u32], kind: Kind) -> HashMap<String, u32> {
    let known = found.iter().rev().filter_map(|id| {
        let it = types.get(*id).filter(|it| it.kind == kind)?;
        Some((str::from_utf8(types.name(it)).ok()?.to_owned(), *id))
    });
    known.collect()
}

/// Opens an object, whose memory stays: a skeleton borrows it for as long as it lives.
pub(crate) fn open<B>(facts: &Facts) -> Result<B::Output, libbpf_rs::Error>
where
    B: SkelBuilder<'static> + Default,
{
    let mut builder = B::default();
    if let Some(copy) = &facts.kernel_types.copy {
        builder.object_builder_mut().btf_custom_path(path(copy))?;
    }
    builder.open(Box::leak(Box::new(MaybeUninit::uninit())))
}

fn in_memory(bytes: &[u8]) -> io::Result<File> {
    let mut file = File::from(memfd_create("noctule-types", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    Ok(file)
}

fn path(copy: &File) -> PathBuf {
    format!("/proc/self/fd/{}", copy.as_raw_fd()).into()
}

#[cfg(test)]
mod tests {
    use libbpf_rs::HasSize as _;
    use libbpf_rs::btf::types::{Composite, Enum, Func, MemberAttr};
    use libbpf_rs::btf::{BtfKind, BtfType};

    use super::*;

    /// The members of a struct, and of those that are in it: where each is, and its size.
    fn members(btf: &Btf<'_>, it: &Composite<'_>, begin: u32, all: &mut Vec<String>) {
        for member in it.iter() {
            let Some(of) = btf.type_by_id::<BtfType<'_>>(member.ty) else {
                continue;
            };
            let of = of.skip_mods_and_typedefs();
            let (kind, name) = (of.kind(), member.name);
            let (MemberAttr::Normal { offset } | MemberAttr::BitField { offset, .. }) = member.attr;
            let at = begin + offset;
            all.push(format!("{name:?} at {at}: {kind:?}, {:?}", member.attr));
            if let Ok(inside) = Composite::try_from(of) {
                members(btf, &inside, at, all);
            }
        }
    }

    fn described(btf: &Btf<'_>, name: &str) -> Option<Vec<String>> {
        let types = (1..btf.len() as u32).filter_map(|id| btf.type_by_id::<BtfType<'_>>(id.into()));
        let mut named =
            types.filter(|it| it.kind() == BtfKind::Struct && it.name() == Some(name.as_ref()));
        let it = Composite::try_from(named.next()?).ok()?;
        let mut all = vec![format!("{} bytes", it.size())];
        members(btf, &it, 0, &mut all);
        Some(all)
    }

    #[test]
    fn the_copy_has_the_members_that_the_kernel_has() {
        let whole = Btf::from_vmlinux().expect("this kernel describes its types");
        let types = KernelTypes::read([]);
        assert!(types.copy.is_some());
        let copy = types.btf().expect("BTF that libbpf takes");
        assert!(copy.len() < whole.len() / 10, "{} types", copy.len());
        for name in [
            "task_struct",
            "rq",
            "tcp_sock",
            "sk_buff",
            "cgroup",
            "mm_struct",
        ] {
            let there = described(&whole, name);
            assert!(there.as_ref().is_some_and(|all| all.len() > 10), "{name}");
            assert_eq!(described(&copy, name), there, "{name}");
        }
    }

    #[test]
    fn numbers_are_those_of_the_kernel() {
        let whole = Btf::from_vmlinux().expect("this kernel describes its types");
        let types = KernelTypes::read(["tcp_v4_connect".to_owned()]);
        let name = |number: u32| {
            let it = whole.type_by_id::<BtfType<'_>>(number.into())?;
            Some((it.kind(), it.name()?.to_str()?.to_owned()))
        };
        let copy = types.btf().expect("BTF that libbpf takes");
        let numbers = copy
            .type_by_name::<Enum<'_>>(NUMBERS)
            .expect("the enumeration");
        // Where it is not there, nobody may be told that it can be used.
        let casts = whole.type_by_name::<Func<'_>>(CASTS).is_some();
        assert_eq!(numbers.len(), if casts { CAST.len() } else { 0 });
        for (member, (number_of, it)) in numbers.iter().zip(CAST) {
            assert_eq!(member.name.and_then(|name| name.to_str()), Some(number_of));
            assert_eq!(
                name(member.value as u32),
                Some((BtfKind::Struct, it.to_owned()))
            );
        }
        let function = types.of_function("tcp_v4_connect").and_then(name);
        assert_eq!(function, Some((BtfKind::Func, "tcp_v4_connect".to_owned())));
        assert_eq!(types.of_function("task_struct"), None);
    }

    #[test]
    fn what_is_no_btf_is_not_copied() {
        let names = HashSet::from(["task_struct".to_owned()]);
        let whole = fs::read(VMLINUX).expect("this kernel describes its types");
        assert!(KernelTypes::of(&whole, &names).is_some());
        for broken in [&[][..], &[0; 64], &whole[..whole.len() / 2], &whole[..24]] {
            assert!(
                KernelTypes::of(broken, &names).is_none(),
                "{} bytes",
                broken.len()
            );
        }
        let mut unknown = whole.clone();
        // The kind of the first type.
        unknown[24 + 7] |= 0x1f;
        assert!(KernelTypes::of(&unknown, &names).is_none());
    }
}
