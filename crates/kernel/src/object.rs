//! Objects that are not ours: opening, loading and attaching them, and what they leave in their maps.

mod attach;
mod bare;
mod dump;
mod folder;
mod instance;
mod kprobe_event;
mod said;
mod shape;
mod socket;
mod target;

use std::ffi::CString;
use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::ptr::NonNull;

use libbpf_rs::{
    AsRawLibbpf as _, Iter, Link, MapCore as _, Object, ObjectBuilder, OpenObject, ProgramMut,
    ProgramType, UprobeOpts, libbpf_sys as sys,
};

pub use attach::Attachment;
pub use bare::{BareKind, BareMap, BareObject, BareProgram, map_kind};
pub use dump::{MapContents, MapEntry};
pub use instance::Printed;
pub(crate) use kprobe_event::{KprobeEvent, NONE as NO_KPROBES, exist as kprobes_exist};
pub(crate) use said::hear;
pub use shape::{Member, Shape};
pub use socket::ClassicInsn;
pub use target::{NoTarget, Places, SECTIONS, Target};

use crate::error::{Context as _, Error, ErrorKind};

/// Bytes for what the verifier writes of one program. Memory that is not written to costs nothing.
const LOG_BYTES: usize = 16 << 20;

/// The verifier writes its steps and its reason.
pub(crate) const STEPS: u32 = 1;
/// It writes its reason and figures alone (`BPF_LOG_STATS`, Linux 5.2). Before Linux 6.4 the end of a log
/// that is full is lost, and with it the reason: the error is ENOSPC then.
pub(crate) const REASON: u32 = 4;

/// An error of the kernel that user space has no name for.
const ENOTSUPP: i32 = 524;

/// What the names of the functions of system calls begin with.
const SYSCALL_PREFIX: &str = if cfg!(target_arch = "aarch64") {
    "__arm64_sys_"
} else {
    "__x64_sys_"
};

/// Why an object does not load or attach.
#[derive(Debug)]
pub struct ObjectError {
    /// What failed.
    pub error: Error,
    /// What libbpf said meanwhile, which names the reason.
    pub said: Vec<String>,
    /// The program that was refused, and what the verifier wrote.
    pub refused: Option<Box<Rejected>>,
}

impl ObjectError {
    /// The error of the system at a program that was refused.
    fn errno(&self) -> Option<i32> {
        self.refused.as_ref().map(|rejected| rejected.errno)
    }

    fn plain(error: Error) -> Self {
        Self {
            error,
            said: Vec::new(),
            refused: None,
        }
    }
}

impl From<Error> for ObjectError {
    fn from(error: Error) -> Self {
        Self::plain(error)
    }
}

/// A program that the kernel refuses.
#[derive(Clone, Debug)]
pub struct Rejected {
    /// Its name.
    pub program: String,
    /// What the verifier wrote; empty if it was refused before that.
    pub log: String,
    /// The error of the system, by its number.
    pub errno: i32,
}

/// A program of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignProgram {
    /// The name of its function.
    pub name: String,
    /// Its section.
    pub section: String,
    /// Whether the section's name says what kind of program it is.
    pub typed: bool,
    /// Its instructions.
    pub instructions: usize,
}

/// An object that was read, and not loaded yet.
#[derive(Debug)]
pub struct ForeignObject {
    object: OpenObject,
    /// Maps that it asks to pin.
    pins: Vec<String>,
    made: Recipe,
}

/// How it was opened and prepared, to do it again: libbpf loads an object once.
#[derive(Debug)]
struct Recipe {
    bytes: Vec<u8>,
    name: String,
    /// The only programs that are wanted.
    kept: Option<Vec<String>>,
    /// Programs with the function that they look for.
    targets: Vec<(String, String)>,
}

impl Recipe {
    fn make(self) -> Result<ForeignObject, ObjectError> {
        let mut object = ForeignObject::open(&self.bytes, &self.name)?;
        if let Some(kept) = &self.kept {
            object.keep(kept);
        }
        for (program, function) in &self.targets {
            object.retarget(program, function)?;
        }
        Ok(object)
    }
}

impl ForeignObject {
    /// Reads an object.
    ///
    /// # Errors
    ///
    /// It is no object, or not one of libbpf's conventions.
    pub fn open(bytes: &[u8], name: &str) -> Result<Self, ObjectError> {
        let (opened, said) = said::listen(|| {
            let mut builder = ObjectBuilder::default();
            builder.name(name)?;
            builder.open_memory(bytes)
        });
        match opened.context("reading the object") {
            Ok(mut object) => Ok(Self {
                pins: forget_pins(&mut object),
                object,
                made: Recipe {
                    bytes: bytes.to_vec(),
                    name: name.to_owned(),
                    kept: None,
                    targets: Vec::new(),
                },
            }),
            Err(error) => Err(ObjectError {
                error,
                said,
                refused: None,
            }),
        }
    }

    /// Its programs, in the order of the object.
    pub fn programs(&self) -> Vec<ForeignProgram> {
        let programs = self.object.progs();
        programs
            .map(|program| ForeignProgram {
                name: program.name().to_string_lossy().into_owned(),
                section: program.section().to_string_lossy().into_owned(),
                typed: program.prog_type() != ProgramType::Unspec,
                instructions: program.insn_cnt(),
            })
            .collect()
    }

    /// The maps that the object asks to pin (`LIBBPF_PIN_BY_NAME`). They are not pinned.
    pub fn pins(&self) -> &[String] {
        &self.pins
    }

    /// Loads only these programs.
    pub fn keep(&mut self, names: &[String]) {
        for mut program in self.object.progs_mut() {
            let name = program.name().to_string_lossy();
            let kept = names.iter().any(|kept| **kept == *name);
            program.set_autoload(kept);
        }
        self.made.kept = Some(names.to_vec());
    }

    /// Lets a program that BTF finds its target for look for this function or tracepoint.
    ///
    /// # Errors
    ///
    /// There is no such target.
    pub fn retarget(&mut self, name: &str, function: &str) -> Result<(), ObjectError> {
        for mut program in self.object.progs_mut().filter(|p| p.name() == name) {
            let (set, said) =
                said::listen(|| program.set_attach_target(0, Some(function.to_owned())));
            set.context(format!("attaching {name} to {function}"))
                .map_err(|error| ObjectError {
                    error,
                    said,
                    refused: None,
                })?;
        }
        self.made
            .targets
            .push((name.to_owned(), function.to_owned()));
        Ok(())
    }

    /// Makes the maps, and has the programs verified.
    ///
    /// # Errors
    ///
    /// The kernel refuses a map or a program; nothing stays loaded.
    pub fn load(self) -> Result<LoadedObject, ObjectError> {
        match load_logged(self.object, None) {
            Err(error) if error.errno() == Some(libc::ENOSPC) => {
                load_logged(self.made.make()?.object, Some(REASON))
            }
            loaded => loaded,
        }
    }
}

/// Takes back that maps are to be pinned, and returns their names. A pinned map would outlive the process, and
/// libbpf would use a map of somebody else that is pinned under its name.
fn forget_pins(object: &mut OpenObject) -> Vec<String> {
    let mut names = Vec::new();
    for map in object.maps_mut() {
        let pointer = map.as_libbpf_object().as_ptr();
        #[allow(
            unsafe_code,
            reason = "libbpf-rs can change the path, and not remove it"
        )]
        // SAFETY: the map belongs to an object that is borrowed meanwhile; a path that is null is not read.
        let is_pinned = unsafe {
            let has_path = !sys::bpf_map__pin_path(pointer).is_null();
            sys::bpf_map__set_pin_path(pointer, std::ptr::null());
            has_path
        };
        if is_pinned {
            names.push(map.name().to_string_lossy().into_owned());
        }
    }
    names
}

/// `level`: what the verifier writes; without it libbpf asks for the steps if a program is refused.
fn load_logged(mut object: OpenObject, level: Option<u32>) -> Result<LoadedObject, ObjectError> {
    let mut logs = Vec::new();
    for mut program in object.progs_mut().filter(|p| p.autoload()) {
        let mut log = vec![0_u8; LOG_BYTES];
        #[allow(unsafe_code, reason = "libbpf-rs has no buffers for the log")]
        // SAFETY: the buffer is as long as is said, and outlives the load: `logs` is dropped last.
        unsafe {
            sys::bpf_program__set_log_buf(
                program.as_libbpf_object().as_ptr(),
                log.as_mut_ptr().cast(),
                log.len() as _,
            );
        }
        if let Some(level) = level {
            program.set_log_level(level);
        }
        logs.push((program.name().to_string_lossy().into_owned(), log));
    }
    let (loaded, said) = said::listen(|| object.load());
    match loaded {
        Ok(object) => Ok(LoadedObject { object }),
        Err(error) => {
            let refused = refused(&logs, &said);
            let error = Err::<(), _>(error).context("loading the object").err();
            Err(ObjectError {
                error: error.unwrap_or_else(|| Error::new(ErrorKind::Other, "")),
                said,
                refused,
            })
        }
    }
}

/// The program that libbpf says was refused, with its log: `prog 'x': BPF program load failed: -EPERM`.
fn refused(logs: &[(String, Vec<u8>)], said: &[String]) -> Option<Box<Rejected>> {
    let about = |line: &String| -> Option<(String, i32)> {
        let (name, rest) = line.strip_prefix("prog '")?.split_once('\'')?;
        let error = rest.strip_prefix(": BPF program load failed: ")?;
        Some((name.to_owned(), errno(error)))
    };
    let (program, errno) = said.iter().find_map(about)?;
    let log = logs.iter().find(|(name, _)| *name == program);
    Some(Box::new(Rejected {
        log: log.map_or_else(String::new, |(_, log)| until_nul(log)),
        program,
        errno,
    }))
}

/// The number of an error that libbpf names; 0: none of those that are distinguished here.
fn errno(name: &str) -> i32 {
    let known = [
        ("-EPERM", libc::EPERM),
        ("-E2BIG", libc::E2BIG),
        ("-ENOSPC", libc::ENOSPC),
        ("-ENOMEM", libc::ENOMEM),
        ("-EACCES", libc::EACCES),
        ("-EINVAL", libc::EINVAL),
        ("-ENOTSUPP", ENOTSUPP),
    ];
    let found = known.iter().find(|(known, _)| *known == name);
    found.map_or(0, |(_, number)| *number)
}

fn until_nul(bytes: &[u8]) -> String {
    let end = bytes
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// An object in the kernel; its programs and maps are gone when it is dropped, and whatever is
/// attached.
#[derive(Debug)]
pub struct LoadedObject {
    object: Object,
}

impl LoadedObject {
    /// Attaches a program.
    ///
    /// # Errors
    ///
    /// The kernel has no such place, or refuses it.
    pub fn attach(
        &self,
        name: &str,
        target: &Target,
        places: &Places,
    ) -> Result<Attachment, ObjectError> {
        let (attached, said) = said::listen(|| self.attach_inner(name, target, places));
        attached.map_err(|error| ObjectError {
            error,
            said,
            refused: None,
        })
    }

    fn attach_inner(
        &self,
        name: &str,
        target: &Target,
        places: &Places,
    ) -> Result<Attachment, Error> {
        let Some(program) = self
            .object
            .progs_mut()
            .find(|program| program.name() == name)
        else {
            return Err(Error::new(
                ErrorKind::Other,
                format!("there is no program {name}"),
            ));
        };
        match by_libbpf(&program, target, places) {
            Some(links) => {
                let links = links.context(format!("attaching {name} to {target}"));
                match links {
                    Ok(links) => Ok(Attachment::of_libbpf(links, target)),
                    Err(_) if target.is_kprobe() && !kprobe_event::exist() => {
                        let words = format!("{name}: {}", kprobe_event::NONE);
                        Err(Error::new(ErrorKind::Kernel, words))
                    }
                    Err(error) => Err(error),
                }
            }
            None => {
                let loaded = attach::Loaded {
                    fd: program.as_fd(),
                    attach_type: program.attach_type() as u32,
                    name,
                };
                loaded.attach(target, places)
            }
        }
    }

    /// What an iterator prints.
    ///
    /// # Errors
    ///
    /// The kernel refuses it, or what is attached is no iterator.
    pub fn read_iterator(attached: &Attachment) -> Result<String, Error> {
        let link = attached.link();
        let link = link.ok_or_else(|| Error::new(ErrorKind::Other, "this is no iterator"))?;
        let mut text = Vec::new();
        let mut iterator = Iter::new(link).context("starting an iterator")?;
        iterator
            .read_to_end(&mut text)
            .context("reading an iterator")?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Registers the tables of functions that the object declares in `.struct_ops.link`; their names.
    ///
    /// # Errors
    ///
    /// The kernel refuses one.
    pub fn register_tables(&mut self) -> Result<Vec<(String, Attachment)>, ObjectError> {
        let mut registered = Vec::new();
        for mut map in self.object.maps_mut() {
            if map.map_type() != libbpf_rs::MapType::StructOps {
                continue;
            }
            let name = map.name().to_string_lossy().into_owned();
            let (link, said) = said::listen(|| map.attach_struct_ops());
            match link.context(format!("registering {name}")) {
                Ok(link) => {
                    let place = "the kernel's table of functions".to_owned();
                    let held = vec![attach::Held::Libbpf(link)];
                    registered.push((name, Attachment::new(held, place)));
                }
                Err(error) => {
                    return Err(ObjectError {
                        error,
                        said,
                        refused: None,
                    });
                }
            }
        }
        Ok(registered)
    }

    /// How many maps it has.
    pub fn map_count(&self) -> usize {
        self.object.maps().count()
    }

    /// The maps with their entries.
    pub fn maps(&self) -> Vec<MapContents> {
        let btf = self.object.btf().ok().flatten();
        let maps = self.object.maps();
        maps.map(|map| dump::contents(&map, btf.as_ref())).collect()
    }
}

/// What libbpf attaches better than a descriptor alone could be; `None`: the rest.
fn by_libbpf(
    program: &ProgramMut<'_>,
    target: &Target,
    places: &Places,
) -> Option<libbpf_rs::Result<Vec<Link>>> {
    let pid = places.pid.map_or(-1, u32::cast_signed);
    let link = match target {
        Target::Btf { .. } | Target::KprobeMulti | Target::UprobeMulti | Target::Iterator => {
            program.attach()
        }
        Target::Kprobe {
            function,
            offset,
            at_return,
        } => kprobe(program, function, *offset, *at_return),
        Target::Ksyscall { call, at_return } => program.attach_ksyscall(*at_return, call),
        Target::Uprobe {
            file,
            code,
            at_return,
            ..
        } => {
            let attach = |offset: &u64| {
                let options = UprobeOpts {
                    retprobe: *at_return,
                    ..Default::default()
                };
                let offset = usize::try_from(*offset).unwrap_or(usize::MAX);
                program.attach_uprobe_with_opts(pid, file, offset, options)
            };
            return Some(code.iter().map(attach).collect());
        }
        Target::Usdt {
            file,
            provider,
            name,
        } => program.attach_usdt(pid, file, provider, name),
        _ => return None,
    };
    Some(link.map(|link| vec![link]))
}

/// libbpf-rs has no offsets for kprobes.
fn kprobe(
    program: &ProgramMut<'_>,
    function: &str,
    offset: u64,
    at_return: bool,
) -> libbpf_rs::Result<Link> {
    if offset == 0 {
        return program.attach_kprobe(at_return, function);
    }
    let name = CString::new(function).map_err(io::Error::from)?;
    let options = sys::bpf_kprobe_opts {
        sz: size_of::<sys::bpf_kprobe_opts>() as _,
        offset: offset as _,
        retprobe: at_return,
        ..Default::default()
    };
    let program = program.as_libbpf_object().as_ptr();
    #[allow(unsafe_code, reason = "libbpf-rs has no offsets for kprobes")]
    // SAFETY: the program is borrowed, the name ends with its NUL, and the options say their size.
    let link =
        unsafe { sys::bpf_program__attach_kprobe_opts(program, name.as_ptr(), &raw const options) };
    match NonNull::new(link) {
        #[allow(unsafe_code, reason = "libbpf gives a pointer")]
        // SAFETY: libbpf made the link just now, and nobody else has it.
        Some(link) => Ok(unsafe { Link::from_ptr(link) }),
        None => Err(io::Error::last_os_error().into()),
    }
}
