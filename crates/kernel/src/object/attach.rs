//! Attaches a loaded program by its descriptor, for targets that libbpf does not attach to.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;

use libbpf_rs::libbpf_sys as sys;
use libbpf_rs::{Link, TC_EGRESS, TC_INGRESS, TcHook, TcHookBuilder};
use perf_event::Builder;
use perf_event::events::{Software, Tracepoint};

use super::kprobe_event::KprobeEvent;
use super::owned;
use super::socket::{ClassicInsn, RawSocket};
use super::target::{Places, Target};
use crate::error::{Context as _, Error, ErrorKind};
use crate::facts;
use crate::tracefs::Tracefs;

/// An attached program, detached on drop.
#[derive(Debug)]
pub struct Attachment {
    held: Vec<Held>,
    /// Description of the target, for users.
    pub place: String,
}

/// Keeps a program attached. The parts are dropped in the order of the list.
#[derive(Debug)]
#[allow(dead_code, reason = "keeps the program attached until dropped")]
pub(super) enum Held {
    Libbpf(Link),
    Link(OwnedFd),
    Event(perf_event::Counter),
    Socket(RawSocket),
    Tc(TcFilter),
    Kprobe(KprobeEvent),
}

/// A traffic control filter, for kernels without tcx links (before Linux 6.6).
#[derive(Debug)]
pub(super) struct TcFilter(TcHook);

impl Drop for TcFilter {
    fn drop(&mut self) {
        // The interface may no longer exist, in which case the filter has disappeared, too.
        let _ = self.0.detach();
    }
}

impl Attachment {
    pub(super) fn new(held: Vec<Held>, place: String) -> Self {
        Self { held, place }
    }

    pub(super) fn of_libbpf(links: Vec<Link>, target: &Target) -> Self {
        let held = links.into_iter().map(Held::Libbpf).collect();
        Self::new(held, target.to_string())
    }

    /// Attaches a classic filter to packets of an interface. Without an interface, the socket
    /// receives no packets, and the kernel only checks the filter.
    ///
    /// # Errors
    ///
    /// Fails if the kernel rejects the filter, or there is no such interface.
    pub fn of_filter(filter: &[ClassicInsn], interface: Option<&str>) -> Result<Self, Error> {
        let socket = RawSocket::with_filter(filter).context("attaching a classic filter")?;
        let mut place = "a raw socket".to_owned();
        if let Some(name) = interface {
            let what = format!("binding the socket of a classic filter to {name}");
            socket.bind(name).context(what)?;
            place += &format!(" of {name} (classic filter)");
        }
        Ok(Self::new(vec![Held::Socket(socket)], place))
    }

    /// Returns the libbpf link, from which an iterator is created.
    pub(super) fn link(&self) -> Option<&Link> {
        self.held.iter().find_map(|held| match held {
            Held::Libbpf(link) => Some(link),
            _ => None,
        })
    }

    /// Returns the number of packets that the program of a raw socket accepted since the last call;
    /// `None` if the program is not attached to a raw socket.
    pub fn packets_passed(&self) -> Option<u64> {
        self.held.iter().find_map(|held| match held {
            Held::Socket(socket) => socket.packets().ok(),
            _ => None,
        })
    }
}

/// The descriptor and the types of a loaded program.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loaded<'a> {
    pub(super) fd: BorrowedFd<'a>,
    pub(super) attach_type: u32,
    pub(super) name: &'a str,
}

impl Loaded<'_> {
    /// Attaches the program to a target for which the program's descriptor is enough.
    pub(super) fn attach(&self, target: &Target, places: &Places) -> Result<Attachment, Error> {
        let what = || format!("attaching {} to {target}", self.name);
        let (held, more) = match target {
            Target::Tracepoint { system, event } => {
                (self.tracepoint(system, event)?, String::new())
            }
            Target::RawTracepoint(event) => (self.raw_tracepoint(event)?, String::new()),
            Target::Kprobe {
                function,
                offset,
                at_return,
            } => {
                let event = KprobeEvent::make(function, *offset, *at_return)?;
                let place = event.place();
                let held = self.event(event.id()?, &what())?;
                let held = held.into_iter().chain([Held::Kprobe(event)]).collect();
                return Ok(Attachment::new(held, place));
            }
            Target::PerfEvent => (self.samples(places)?, format!(", {} Hz", places.frequency)),
            Target::Socket => {
                let name = required(places.interface.as_deref(), target, places)?;
                let socket = RawSocket::with_program(name, self.fd).context(what())?;
                (vec![Held::Socket(socket)], format!(" of {name}"))
            }
            Target::Xdp | Target::Tc { .. } => {
                let name = required(places.interface.as_deref(), target, places)?;
                (self.interface(target, name)?, format!(" of {name}"))
            }
            Target::Cgroup => {
                let path = required(places.cgroup.as_deref(), target, places)?;
                (
                    self.link_to_file(path, &what())?,
                    format!(" {}", path.display()),
                )
            }
            Target::Netns => {
                let path = required(places.netns.as_deref(), target, places)?;
                (
                    self.link_to_file(path, &what())?,
                    format!(" {}", path.display()),
                )
            }
            other => {
                let words = format!(
                    "{}: cannot attach to {other}: the program has no BTF",
                    self.name
                );
                return Err(Error::new(ErrorKind::Kernel, words));
            }
        };
        Ok(Attachment::new(held, format!("{target}{more}")))
    }

    fn tracepoint(&self, system: &str, event: &str) -> Result<Vec<Held>, Error> {
        let tracefs = Tracefs::open(facts::tracefs(Path::new("/sys")).as_deref())?;
        let Some(id) = tracefs.id(system, event)? else {
            let words = format!(
                "{}: this kernel has no tracepoint {system}:{event}",
                self.name
            );
            return Err(Error::new(ErrorKind::Kernel, words));
        };
        self.event(id, &format!("attaching {} to {system}:{event}", self.name))
    }

    /// Attaches the program to the perf event of a tracepoint or kprobe, by the event's id. The
    /// programs of such an event run on all CPUs.
    fn event(&self, id: u64, what: &str) -> Result<Vec<Held>, Error> {
        let cpu = facts::online_cpus(Path::new("/sys"))
            .first()
            .copied()
            .unwrap_or(0);
        let event = Builder::new(Tracepoint::with_id(id))
            .any_pid()
            .one_cpu(cpu as usize)
            .include_kernel()
            .build();
        self.of_event(event.context(what)?, what)
    }

    fn samples(&self, places: &Places) -> Result<Vec<Held>, Error> {
        let what = format!("attaching {} to samples of the CPU clock", self.name);
        let mut held = Vec::new();
        for cpu in facts::online_cpus(Path::new("/sys")) {
            let mut builder = Builder::new(Software::CPU_CLOCK);
            match places.pid {
                Some(pid) => builder.observe_pid(pid.cast_signed()),
                None => builder.any_pid(),
            };
            let event = builder
                .one_cpu(cpu as usize)
                .include_kernel()
                .sample_frequency(places.frequency)
                .build();
            held.extend(self.of_event(event.context(what.clone())?, &what)?);
        }
        Ok(held)
    }

    fn of_event(&self, mut event: perf_event::Counter, what: &str) -> Result<Vec<Held>, Error> {
        let link = self.link(event.as_raw_fd(), sys::BPF_PERF_EVENT, 0);
        let mut held = Vec::new();
        match link {
            Ok(link) => held.push(Held::Link(link)),
            // Before Linux 5.15 perf events have no links.
            Err(_) => event.set_bpf(self.fd.as_raw_fd()).context(what)?,
        }
        event.enable().context(what)?;
        held.push(Held::Event(event));
        Ok(held)
    }

    fn raw_tracepoint(&self, event: &str) -> Result<Vec<Held>, Error> {
        let what = format!("attaching {} to the raw tracepoint {event}", self.name);
        let name = CString::new(event)
            .map_err(io::Error::from)
            .context(what.clone())?;
        #[allow(
            unsafe_code,
            reason = "libbpf-rs attaches only programs of its own objects"
        )]
        // SAFETY: the name ends with a NUL, and lives for the call.
        let fd = unsafe { sys::bpf_raw_tracepoint_open(name.as_ptr(), self.fd.as_raw_fd()) };
        match owned(fd) {
            Ok(link) => Ok(vec![Held::Link(link)]),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let words = format!("{}: this kernel has no raw tracepoint {event}", self.name);
                Err(Error::new(ErrorKind::Kernel, words))
            }
            Err(error) => Err(error).context(what),
        }
    }

    fn interface(&self, target: &Target, name: &str) -> Result<Vec<Held>, Error> {
        let what = format!("attaching {} to {target} of {name}", self.name);
        let index = super::socket::index(name).context(what.clone())?;
        let egress = matches!(target, Target::Tc { egress: true });
        let kind = match target {
            Target::Xdp => sys::BPF_XDP,
            _ if egress => sys::BPF_TCX_EGRESS,
            _ => sys::BPF_TCX_INGRESS,
        };
        let link = self.link(index.cast_signed(), kind, 0);
        match link {
            Ok(link) => Ok(vec![Held::Link(link)]),
            Err(error) if *target == Target::Xdp => Err(error).context(what),
            // Before Linux 6.6 traffic control has only filters.
            Err(_) => {
                let point = if egress { TC_EGRESS } else { TC_INGRESS };
                let mut builder = TcHookBuilder::new(self.fd);
                let mut hook = builder.ifindex(index.cast_signed()).hook(point);
                hook.create().context(what.clone())?;
                let hook = hook.attach().context(what)?;
                Ok(vec![Held::Tc(TcFilter(hook))])
            }
        }
    }

    fn link_to_file(&self, path: &Path, what: &str) -> Result<Vec<Held>, Error> {
        let context = format!("{what}: {}", path.display());
        let file = File::open(path).context(context.clone())?;
        let link = self.link(file.as_fd().as_raw_fd(), self.attach_type, 0);
        Ok(vec![Held::Link(link.context(context)?)])
    }

    fn link(&self, to: RawFd, attach_type: u32, flags: u32) -> io::Result<OwnedFd> {
        let options = sys::bpf_link_create_opts {
            sz: size_of::<sys::bpf_link_create_opts>() as _,
            flags,
            ..Default::default()
        };
        #[allow(
            unsafe_code,
            reason = "libbpf-rs attaches only programs of its own objects"
        )]
        // SAFETY: the kernel checks both numbers, and the options contain their size.
        owned(unsafe {
            sys::bpf_link_create(self.fd.as_raw_fd(), to, attach_type, &raw const options)
        })
    }
}

/// Returns an option that the target needs. The caller has already checked that the option is
/// given.
fn required<'a, T: ?Sized>(
    value: Option<&'a T>,
    target: &Target,
    places: &Places,
) -> Result<&'a T, Error> {
    let words = || target.needs(places).unwrap_or("an option is missing");
    value.ok_or_else(|| Error::new(ErrorKind::Other, words()))
}
