//! Probes at functions of the kernel and of user space programs: parameters from BTF, and how to
//! attach.

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

/// A function at whose entry or return a program runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionProbe {
    pub place: FunctionPlace,
    pub at_return: bool,
}

/// The location of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FunctionPlace {
    Kernel {
        /// The symbol of the function.
        function: String,
        /// Offset from the symbol, in bytes.
        offset: u64,
    },
    /// A function of a program or library.
    File {
        path: PathBuf,
        /// File offsets of the function's code. There is one offset, unless processes use different
        /// code.
        offsets: Vec<u64>,
    },
    /// An event that is registered in `kprobe_events` or `uprobe_events`.
    Registered {
        id: u64,
        /// Whether the event is a uprobe.
        is_of_file: bool,
    },
}

/// An integer or pointer that a function takes or returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// The parameter's name; empty for the return value.
    pub name: String,
    /// The parameter's type in C.
    pub declared: String,
    /// Size in bytes: 1, 2, 4 or 8.
    pub size: u32,
    pub signed: bool,
}

/// Parameters and return value of a function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prototype {
    /// The parameters, up to the first that does not have its own register.
    pub parameters: Vec<Parameter>,
    /// The return value; `None` if there is none or if it is a structure.
    pub returned: Option<Parameter>,
}

impl Prototype {
    /// Returns the prototype of a kernel function; `None` if BTF does not contain the function.
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

/// Returns the name, size and sign of a type that fits into a register; `None` if the type does not
/// fit or is a floating-point number.
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

/// Returns the C type of a pointer, such as `struct file *`. A pointer to `char` is always returned
/// as `const char *`, by which callers recognize strings.
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
    /// Fails if the kernel lacks the function or this kind of probe, or the process lacks
    /// privileges.
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
                    let event = event.context(format!(
                        "opening a probe at {offset:#x} of {}",
                        path.display()
                    ))?;
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
        let name = name.context("invalid function name")?;
        if let Some(kind) = kind_of("kprobe")
            && let Ok(event) = self.open(kind, &name, offset)
        {
            return Ok(AttachedProgram::new(program.attach_to(event)?));
        }
        // Used before Linux 4.17, which added this kind of perf event, and to get a precise error.
        let made = KprobeEvent::make(function, offset, self.at_return)?;
        let event = builder(Tracepoint::with_id(made.id()?)).build();
        let event = event.context("opening a kprobe event")?;
        let mut held = program.attach_to(event)?;
        held.push(Held::Kprobe { _event: made });
        Ok(AttachedProgram::new(held))
    }

    /// Opens the perf event of a probe. `name` is a kernel function or a file.
    fn open(&self, kind: u32, name: &CString, offset: u64) -> io::Result<perf_event::Counter> {
        let address = name.as_ptr().addr() as u64;
        let event = Raw::new(self.at_return.into())
            .config1(address)
            .config2(offset);
        let mut builder = builder(event);
        builder.attrs_mut().type_ = kind;
        // The event contains the address of `name`, so `name` must live until this call.
        builder.build()
    }
}

/// Returns the number of this kind of perf event; `None` if the kernel lacks the kind.
fn kind_of(name: &str) -> Option<u32> {
    let path = format!("/sys/bus/event_source/devices/{name}/type");
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Returns a builder of an event for all processes. The event is opened on one CPU, but its
/// programs run on all CPUs.
fn builder<'a>(event: impl Event) -> Builder<'a> {
    let cpu = facts::online_cpus(Path::new("/sys"));
    let cpu = cpu.first().copied().unwrap_or(0);
    let mut builder = Builder::new(event);
    builder.any_pid().one_cpu(cpu as usize).include_kernel();
    builder
}
