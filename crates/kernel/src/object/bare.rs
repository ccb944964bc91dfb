//! Programs given as instructions, with their own maps: objects that libbpf no longer accepts, and
//! handwritten programs.

use std::ffi::CString;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

use libbpf_rs::{MapHandle, MapType, libbpf_sys as sys};

use super::attach::{Attachment, Loaded};
use super::dump::{self, MapContents};
use super::target::{Places, Target};
use super::{LOG_BYTES, ObjectError, Rejected};
use crate::error::{Cause as _, Context as _, Error, ErrorKind};
use crate::instructions::{Instructions, kernel_name};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BareMap {
    /// The map's name.
    pub name: String,
    /// `enum bpf_map_type`.
    pub kind: u32,
    /// Size of a key in bytes.
    pub key_size: u32,
    /// Size of a value in bytes.
    pub value_size: u32,
    /// Maximum number of entries.
    pub entries: u32,
    /// `BPF_F_...`.
    pub flags: u32,
}

/// A program to load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BareProgram {
    /// The program's name, of which the kernel keeps 15 characters.
    pub name: String,
    pub kind: BareKind,
    pub license: String,
    /// The kernel version for which the program was written. Kernels before 5.0 checked it.
    pub kernel_version: u32,
    /// The instructions, eight bytes each.
    pub insns: Vec<[u8; 8]>,
    /// Indexes of instructions that load a map, each with the index of that map.
    pub loads: Vec<(usize, u32)>,
}

/// The kind of a program, and how the program is attached. The kernel rejects the default value,
/// which is not a valid kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BareKind {
    kind: u32,
    attach: u32,
}

impl BareKind {
    /// Returns the kind for a section name, if there is one.
    pub fn of_section(section: &str) -> Option<Self> {
        // Section names of old objects may end with a number.
        let plain = section.trim_end_matches(|c: char| c.is_ascii_digit());
        let known = |name: &str| {
            let name = CString::new(name).ok()?;
            let (mut kind, mut attach) = (0, 0);
            #[allow(unsafe_code, reason = "libbpf-rs does not offer this function")]
            // SAFETY: the name ends with a NUL, and both out parameters are local variables.
            let found = unsafe {
                sys::libbpf_prog_type_by_name(name.as_ptr(), &raw mut kind, &raw mut attach)
            };
            (found == 0).then_some(Self { kind, attach })
        };
        known(section).or_else(|| known(plain))
    }
}

/// Returns the map kind for a bpftool name such as `percpu_hash`.
pub fn map_kind(name: &str) -> Option<u32> {
    let kinds = (1..=sys::BPF_MAP_TYPE_ARENA).map(|number| (number, MapType::from(number)));
    let mut kinds = kinds.filter(|(_, kind)| *kind != MapType::Unknown);
    kinds
        .find(|(_, kind)| dump::kind_name(*kind) == name)
        .map(|(number, _)| number)
}

/// Loaded programs with their maps. Dropping this value unloads them.
#[derive(Debug)]
pub struct BareObject {
    maps: Vec<(String, MapHandle)>,
    programs: Vec<(String, BareKind, OwnedFd)>,
}

impl BareObject {
    /// Creates the maps and loads the programs.
    ///
    /// # Errors
    ///
    /// Fails if the kernel rejects a map or a program. Nothing remains loaded.
    pub fn load(maps: &[BareMap], programs: &[BareProgram]) -> Result<Self, ObjectError> {
        let mut object = Self {
            maps: Vec::new(),
            programs: Vec::new(),
        };
        for map in maps {
            let made = make(map).map_err(ObjectError::plain)?;
            object.maps.push((map.name.clone(), made));
        }
        for program in programs {
            let fd = object.program(program)?;
            object
                .programs
                .push((program.name.clone(), program.kind, fd));
        }
        Ok(object)
    }

    fn program(&self, program: &BareProgram) -> Result<OwnedFd, ObjectError> {
        let mut insns = program.insns.clone();
        for (at, map) in &program.loads {
            let map = self.maps.get(*map as usize);
            let (Some((_, map)), Some(insn)) = (map, insns.get_mut(*at)) else {
                let words = format!("{}: instruction {at} does not load a map", program.name);
                return Err(ObjectError::plain(Error::new(ErrorKind::Other, words)));
            };
            insn[4..].copy_from_slice(&map.as_fd().as_raw_fd().to_ne_bytes());
        }
        let loaded = Instructions {
            kind: program.kind.kind,
            attach: program.kind.attach,
            name: &program.name,
            license: &program.license,
            kernel_version: program.kernel_version,
            insns: &insns,
            log_bytes: LOG_BYTES,
        }
        .load();
        loaded.map_err(|(error, log)| ObjectError {
            refused: Some(Box::new(Rejected {
                program: program.name.clone(),
                log,
                errno: error.raw_os_error().unwrap_or(0),
            })),
            ..ObjectError::plain(error.context(format!("loading {}", program.name)))
        })
    }

    /// Attaches a program.
    ///
    /// # Errors
    ///
    /// Fails if the kernel lacks the target, or rejects the program.
    pub fn attach(
        &self,
        name: &str,
        target: &Target,
        places: &Places,
    ) -> Result<Attachment, ObjectError> {
        let Some((name, kind, fd)) = self.programs.iter().find(|(own, ..)| own == name) else {
            let words = format!("the object has no program {name}");
            return Err(ObjectError::plain(Error::new(ErrorKind::Other, words)));
        };
        let loaded = Loaded {
            fd: fd.as_fd(),
            attach_type: kind.attach,
            name,
        };
        loaded.attach(target, places).map_err(ObjectError::plain)
    }

    /// Returns the maps with their entries. Only the sizes of keys and values are known.
    pub fn maps(&self) -> Vec<MapContents> {
        let maps = self.maps.iter();
        maps.map(|(name, map)| dump::plain_contents(name, map))
            .collect()
    }
}

fn make(map: &BareMap) -> Result<MapHandle, Error> {
    let options = sys::bpf_map_create_opts {
        sz: size_of::<sys::bpf_map_create_opts>() as _,
        map_flags: map.flags,
        ..Default::default()
    };
    let kind = MapType::from(map.kind);
    let name = kernel_name(&map.name);
    let (key, value) = (map.key_size, map.value_size);
    MapHandle::create(kind, Some(name), key, value, map.entries, &options)
        .context(format!("creating the map {}", map.name))
}
