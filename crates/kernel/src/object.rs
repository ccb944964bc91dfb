//! Opens, loads and attaches foreign BPF objects, and reads their maps.

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
use std::os::fd::{AsFd as _, FromRawFd as _, OwnedFd, RawFd};
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
pub(crate) use said::keep_message;
pub use shape::{Member, Shape};
pub use socket::ClassicInsn;
pub use target::{NoTarget, Places, SECTIONS, Target};

use crate::error::{Cause, Context as _, Error, ErrorKind};

/// Size of the verifier log per program. Pages that are never written take no memory.
const LOG_BYTES: usize = 16 << 20;

/// Log level: the verifier's steps and the reason for a rejection.
pub(crate) const STEPS: u32 = 1;
/// Log level: only the reason for a rejection and statistics (`BPF_LOG_STATS`, Linux 5.2). Before
/// Linux 6.4 a full log loses its last lines, which contain the reason. The error is then ENOSPC.
pub(crate) const REASON: u32 = 4;

/// An internal error of the kernel that has no name in user space.
const ENOTSUPP: i32 = 524;

/// Prefix of the kernel functions that implement system calls.
const SYSCALL_PREFIX: &str = if cfg!(target_arch = "aarch64") {
    "__arm64_sys_"
} else {
    "__x64_sys_"
};

/// Why an object could not be loaded or attached.
#[derive(Debug)]
pub struct ObjectError {
    pub error: Error,
    /// Messages of libbpf, which contain the reason.
    pub said: Vec<String>,
    /// The rejected program, and the verifier's log.
    pub refused: Option<Box<Rejected>>,
}

impl ObjectError {
    /// Returns the errno of the rejected program.
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

/// A program that the kernel rejected.
#[derive(Clone, Debug)]
pub struct Rejected {
    pub program: String,
    /// The verifier's log; empty if the program was rejected before verification.
    pub log: String,
    pub errno: i32,
}

/// A program of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignProgram {
    /// The name of the program's function.
    pub name: String,
    pub section: String,
    /// Whether the section name determines the program type.
    pub typed: bool,
    pub instructions: usize,
}

/// An opened object, not loaded yet.
#[derive(Debug)]
pub struct ForeignObject {
    object: OpenObject,
    /// Maps that the object wants to pin.
    pins: Vec<String>,
    made: Recipe,
}

/// How the object was opened and prepared. Needed to repeat these steps, because libbpf can load an
/// object only once.
#[derive(Debug)]
struct Recipe {
    bytes: Vec<u8>,
    name: String,
    /// Programs to load; `None` for all.
    kept: Option<Vec<String>>,
    /// Programs to attach to another function than their section names, each with that function.
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
    /// Opens an object.
    ///
    /// # Errors
    ///
    /// Fails if `bytes` is not an object, or does not follow libbpf's conventions.
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

    /// Returns the programs, in the order of the object.
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

    /// Returns the maps that the object wants to pin (`LIBBPF_PIN_BY_NAME`). These maps are not
    /// pinned.
    pub fn pins(&self) -> &[String] {
        &self.pins
    }

    /// Selects the programs to load.
    pub fn keep(&mut self, names: &[String]) {
        for mut program in self.object.progs_mut() {
            let name = program.name().to_string_lossy();
            let kept = names.iter().any(|kept| **kept == *name);
            program.set_autoload(kept);
        }
        self.made.kept = Some(names.to_vec());
    }

    /// Sets the function or tracepoint to which a BTF-based program is attached.
    ///
    /// # Errors
    ///
    /// Fails if there is no such target.
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

    /// Creates the maps and loads the programs.
    ///
    /// # Errors
    ///
    /// Fails if the kernel rejects a map or a program. Nothing remains loaded.
    pub fn load(self) -> Result<LoadedObject, ObjectError> {
        match load_logged(self.object, None) {
            Err(error) if error.errno() == Some(libc::ENOSPC) => {
                load_logged(self.made.make()?.object, Some(REASON))
            }
            loaded => loaded,
        }
    }
}

/// Disables pinning of maps, and returns their names. A pinned map would outlive the process, and
/// libbpf would reuse an existing map that is pinned under the same name.
fn forget_pins(object: &mut OpenObject) -> Vec<String> {
    let mut names = Vec::new();
    for map in object.maps_mut() {
        let pointer = map.as_libbpf_object().as_ptr();
        #[allow(
            unsafe_code,
            reason = "libbpf-rs can change the path but not remove it"
        )]
        // SAFETY: the map belongs to an object that is borrowed during the call. libbpf accepts a
        // null path.
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

/// Loads the object with a log buffer for each program. `level` is the log level. If it is `None`
/// and a program is rejected, libbpf loads the program again to log the verifier's steps.
fn load_logged(mut object: OpenObject, level: Option<u32>) -> Result<LoadedObject, ObjectError> {
    let mut logs = Vec::new();
    for mut program in object.progs_mut().filter(|p| p.autoload()) {
        let mut log = vec![0_u8; LOG_BYTES];
        #[allow(unsafe_code, reason = "libbpf-rs does not support log buffers")]
        // SAFETY: the buffer has the given length, and outlives the load: `logs` is dropped last.
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
            Err(ObjectError {
                error: Cause::context(error, "loading the object"),
                said,
                refused,
            })
        }
    }
}

/// Returns the program that libbpf reports as rejected, with its log: `prog 'x': BPF program load
/// failed: -EPERM`.
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

/// Returns the number of an errno name in a libbpf message; 0 if the name is not in this list.
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

pub(crate) fn until_nul(bytes: &[u8]) -> String {
    let end = bytes
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// A loaded object. Dropping this value detaches the programs, and unloads the programs and maps.
#[derive(Debug)]
pub struct LoadedObject {
    object: Object,
}

impl LoadedObject {
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
                format!("the object has no program {name}"),
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

    /// Returns the output of an iterator.
    ///
    /// # Errors
    ///
    /// Fails if the kernel rejects the read, or if the attached program is not an iterator.
    pub fn read_iterator(attached: &Attachment) -> Result<String, Error> {
        let link = attached.link();
        let link = link.ok_or_else(|| {
            Error::new(
                ErrorKind::Other,
                "this attachment is not an \
                iterator",
            )
        })?;
        let mut text = Vec::new();
        let mut iterator = Iter::new(link).context("starting an iterator")?;
        iterator
            .read_to_end(&mut text)
            .context("reading an iterator")?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Registers the struct_ops tables that the object declares in `.struct_ops.link`, and returns
    /// their names.
    ///
    /// # Errors
    ///
    /// Fails if the kernel rejects a table.
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
                    let place = "a function table of the kernel".to_owned();
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

    /// Returns the maps with their entries.
    pub fn maps(&self) -> Vec<MapContents> {
        let btf = self.object.btf().ok().flatten();
        let maps = self.object.maps();
        maps.map(|map| dump::contents(&map, btf.as_ref())).collect()
    }
}

/// Attaches the kinds of programs for which the descriptor alone is not enough, because libbpf
/// keeps data that attaching needs. Returns `None` for other kinds.
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

/// Attaches a kprobe with an offset, which libbpf-rs does not support.
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
    #[allow(unsafe_code, reason = "libbpf-rs does not support kprobe offsets")]
    // SAFETY: the program is borrowed, the name ends with a NUL, and the options contain their
    // size.
    let link =
        unsafe { sys::bpf_program__attach_kprobe_opts(program, name.as_ptr(), &raw const options) };
    match NonNull::new(link) {
        #[allow(unsafe_code, reason = "libbpf gives a pointer")]
        // SAFETY: libbpf just created the link, and nothing else owns it.
        Some(link) => Ok(unsafe { Link::from_ptr(link) }),
        None => Err(io::Error::last_os_error().into()),
    }
}

/// Converts the result of a libbpf function to a descriptor.
pub(crate) fn owned(fd: RawFd) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    #[allow(unsafe_code, reason = "libbpf returns a plain number")]
    // SAFETY: the descriptor was just created, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
