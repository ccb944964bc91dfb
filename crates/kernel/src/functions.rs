//! Functions of the kernel and of programs as probes: their parameters from BTF, and attaching to them.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use libbpf_rs::ReferencesType as _;
use libbpf_rs::btf::types::{Enum, Func, FuncProto, Int, IntEncoding};
use libbpf_rs::btf::{Btf, BtfKind, BtfType};
use perf_event::Builder;
use perf_event::events::{Event, Raw, Tracepoint};

use crate::error::{Context as _, Error, ErrorKind};
use crate::facts;
use crate::object::{KprobeEvent, NO_KPROBES, kprobes_exist};
use crate::plain::{AttachedProgram, Held, LoadedProgram};

/// A function, where a program is to run at its entry or return.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionProbe {
    /// Which function.
    pub place: FunctionPlace,
    /// At its return.
    pub at_return: bool,
}

/// Which function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FunctionPlace {
    /// Of the kernel.
    Kernel {
        /// Its symbol.
        function: String,
        /// Bytes into it.
        offset: u64,
    },
    /// Of a program or library.
    File {
        /// The file.
        path: PathBuf,
        /// Where its code lies in the file: one place, unless processes differ in it.
        offsets: Vec<u64>,
    },
    /// Of an event that somebody registered in `kprobe_events` or `uprobe_events`.
    Registered {
        /// The number of the event.
        id: u64,
        /// It is a uprobe.
        is_of_file: bool,
    },
}

/// A number or pointer that a function gets or returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name; empty of what is returned.
    pub name: String,
    /// Its type, as C has it.
    pub declared: String,
    /// Bytes: 1, 2, 4 or 8.
    pub size: u32,
    /// Numbers below zero are possible.
    pub signed: bool,
}

/// What a function gets and returns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prototype {
    /// Its parameters, up to the first that is in no register of its own.
    pub parameters: Vec<Parameter>,
    /// What it returns; `None`: nothing, or a structure.
    pub returned: Option<Parameter>,
}

impl Prototype {
    /// That of a function of the kernel; `None`: its BTF does not have it.
    pub fn of_kernel(function: &str) -> Option<Self> {
        let btf = Btf::from_vmlinux().ok()?;
        let mut functions = btf.type_by_kind::<Func<'_>>();
        let function = functions.find(|known| known.name().is_some_and(|name| name == function))?;
        let prototype = FuncProto::try_from(function.referenced_type()).ok()?;
        let of = |name: &str, kind: BtfType<'_>| {
            let (declared, size, signed) = scalar(kind)?;
            Some(Parameter {
                name: name.to_owned(),
                declared,
                size,
                signed,
            })
        };
        let parameters = prototype.iter().map_while(|parameter| {
            let name = parameter.name?.to_str()?;
            of(name, btf.type_by_id(parameter.ty)?)
        });
        Some(Self {
            parameters: parameters.collect(),
            returned: prototype.next_type().and_then(|kind| of("", kind)),
        })
    }
}

/// Type, size and sign of what fits into a register; `None`: it does not, or is a floating number.
fn scalar(kind: BtfType<'_>) -> Option<(String, u32, bool)> {
    let text = |kind: &BtfType<'_>| Some(kind.name()?.to_str()?.to_owned());
    let mut named = None;
    let mut kind = kind;
    loop {
        match kind.kind() {
            BtfKind::Typedef => {
                named = named.or_else(|| text(&kind));
                kind = kind.next_type()?;
            }
            BtfKind::Const | BtfKind::Volatile | BtfKind::Restrict | BtfKind::TypeTag => {
                kind = kind.next_type()?;
            }
            _ => break,
        }
    }
    match kind.kind() {
        BtfKind::Int => {
            let name = named.or_else(|| text(&kind))?;
            let int = Int::try_from(kind).ok()?;
            let size = u32::from(int.bits) / 8;
            let signed = matches!(int.encoding, IntEncoding::Signed);
            matches!(size, 1 | 2 | 4 | 8).then_some((name, size, signed))
        }
        BtfKind::Enum => {
            let name = named.or_else(|| text(&kind)).unwrap_or_default();
            let signed = Enum::try_from(kind).is_ok_and(|values| values.is_signed());
            Some((format!("enum {name}").trim().to_owned(), 4, signed))
        }
        BtfKind::Ptr => Some((pointer(&kind), 8, false)),
        _ => None,
    }
}

/// `const char *`, by which text is known, `struct file *` and the like.
fn pointer(kind: &BtfType<'_>) -> String {
    let Some(to) = kind.next_type().map(|to| to.skip_mods_and_typedefs()) else {
        return "void *".to_owned();
    };
    let name = to.name().unwrap_or_default().to_string_lossy().into_owned();
    match to.kind() {
        BtfKind::Int if name == "char" => "const char *".to_owned(),
        BtfKind::Struct if !name.is_empty() => format!("struct {name} *"),
        _ if name.is_empty() => "void *".to_owned(),
        _ => format!("{name} *"),
    }
}

impl FunctionProbe {
    /// Attaches the program, for all processes.
    ///
    /// # Errors
    ///
    /// The kernel has no such probes, or not this function; rights.
    pub fn attach(&self, program: &LoadedProgram) -> Result<AttachedProgram, Error> {
        match &self.place {
            FunctionPlace::Kernel { function, offset } => self.kernel(function, *offset, program),
            FunctionPlace::Registered { id, .. } => {
                let event = builder(Tracepoint::with_id(*id)).build();
                let event = event.context("opening the event of a registered probe")?;
                Ok(AttachedProgram::new(program.attach_to(event)?))
            }
            FunctionPlace::File { path, offsets } => {
                let name = CString::new(path.as_os_str().as_bytes());
                let name = name.map_err(io::Error::from);
                let name = name.context(path.display().to_string())?;
                let Some(kind) = kind_of("uprobe") else {
                    let words = "this kernel has no uprobes (CONFIG_UPROBE_EVENTS)";
                    return Err(Error::new(ErrorKind::Kernel, words));
                };
                let mut held = Vec::new();
                for &offset in offsets {
                    let event = self.open(kind, &name, offset);
                    let event =
                        event.context(format!("a probe at {offset:#x} of {}", path.display()))?;
                    held.extend(program.attach_to(event)?);
                }
                Ok(AttachedProgram::new(held))
            }
        }
    }

    fn kernel(
        &self,
        function: &str,
        offset: u64,
        program: &LoadedProgram,
    ) -> Result<AttachedProgram, Error> {
        if !kprobes_exist() {
            return Err(Error::new(ErrorKind::Kernel, NO_KPROBES));
        }
        let name = CString::new(function).map_err(io::Error::from);
        let name = name.context("the name of a function")?;
        if let Some(kind) = kind_of("kprobe")
            && let Ok(event) = self.open(kind, &name, offset)
        {
            return Ok(AttachedProgram::new(program.attach_to(event)?));
        }
        // Without the kind of perf event for it (Linux 4.17), and for the words of an error.
        let made = KprobeEvent::make(function, offset, self.at_return)?;
        let event = builder(Tracepoint::with_id(made.id()?)).build();
        let event = event.context("opening a kprobe event")?;
        let mut held = program.attach_to(event)?;
        held.push(Held::Kprobe { _event: made });
        Ok(AttachedProgram::new(held))
    }

    /// The perf event of a probe: `name` is a function of the kernel, or a file.
    fn open(&self, kind: u32, name: &CString, offset: u64) -> io::Result<perf_event::Counter> {
        let address = name.as_ptr().addr() as u64;
        let event = Raw::new(self.at_return.into())
            .config1(address)
            .config2(offset);
        let mut builder = builder(event);
        builder.attrs_mut().type_ = kind;
        // The name lives until here.
        builder.build()
    }
}

/// The number of this kind of perf event; `None`: the kernel does not have it.
fn kind_of(name: &str) -> Option<u32> {
    let path = format!("/sys/bus/event_source/devices/{name}/type");
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// An event on all CPUs.
fn builder<'a>(event: impl Event) -> Builder<'a> {
    let cpu = facts::online_cpus(Path::new("/sys"));
    let cpu = cpu.first().copied().unwrap_or(0);
    let mut builder = Builder::new(event);
    builder.any_pid().one_cpu(cpu as usize).include_kernel();
    builder
}
