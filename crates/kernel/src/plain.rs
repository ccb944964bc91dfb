//! Programs that are given as plain instructions, their maps, and attaching them to tracepoints.

mod ring;

use std::ffi::CString;
use std::io;
use std::ops::AddAssign;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType};
use perf_event::Builder;
use perf_event::events::Tracepoint;

use crate::error::{Context, Error, ErrorKind};
use crate::facts;
use crate::object::{REASON, STEPS};
use crate::tracefs::Tracefs;

pub use ring::PlainRing;

/// Bytes of the verifier's log where a refusal is explained.
const LOG_BYTES: usize = 1 << 20;
/// Bytes of an instruction (`struct bpf_insn`).
const INSN_BYTES: usize = 8;

/// What kind of map it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlainMapKind {
    /// Numbered entries, one value for all CPUs.
    Array,
    /// Numbered entries, a value for each CPU.
    PerCpuArray,
    /// Entries by key, one value for all CPUs.
    Hash,
    /// The same; where it is full the entry that was used longest ago makes room.
    LruHash,
    /// Entries by key, a value for each CPU.
    PerCpuHash,
    /// Records for one reader, of all CPUs; its size is given as the number of entries.
    Ring,
}

impl PlainMapKind {
    const fn of_libbpf(self) -> MapType {
        match self {
            Self::Array => MapType::Array,
            Self::PerCpuArray => MapType::PercpuArray,
            Self::Hash => MapType::Hash,
            Self::LruHash => MapType::LruHash,
            Self::PerCpuHash => MapType::PercpuHash,
            Self::Ring => MapType::RingBuf,
        }
    }
}

/// A map of such a program.
#[derive(Debug)]
pub struct PlainMap {
    handle: MapHandle,
    kind: PlainMapKind,
}

/// A key, and its value on each CPU.
pub type PerCpuEntry = (Vec<u8>, Vec<Vec<u8>>);

impl PlainMap {
    /// Makes a map. All entries of a hash have their memory from the start, so that no program has to
    /// ask for memory where it must not.
    ///
    /// # Errors
    ///
    /// The kernel refuses: rights, memory, or sizes.
    pub fn create(
        kind: PlainMapKind,
        name: &str,
        key_size: usize,
        value_size: usize,
        entries: u32,
    ) -> Result<Self, Error> {
        let size = |bytes| u32::try_from(bytes).unwrap_or(u32::MAX);
        let options = libbpf_rs::libbpf_sys::bpf_map_create_opts {
            sz: size_of::<libbpf_rs::libbpf_sys::bpf_map_create_opts>() as _,
            ..Default::default()
        };
        let (key, value) = (size(key_size), size(value_size));
        let kind_there = kind.of_libbpf();
        let handle = MapHandle::create(kind_there, Some(name), key, value, entries, &options)
            .context(format!("making the map {name}"))?;
        Ok(Self { handle, kind })
    }

    /// Writes an entry of an array, or of a hash whose keys are such numbers.
    ///
    /// # Errors
    ///
    /// The kernel refuses.
    pub fn set(&self, index: u32, value: &[u8]) -> Result<(), Error> {
        let key = index.to_ne_bytes();
        let written = self.handle.update(&key, value, MapFlags::ANY);
        written.context("writing an entry of a map")
    }

    /// Removes all entries; those of an array become zero.
    ///
    /// # Errors
    ///
    /// The kernel refuses.
    pub fn clear(&self) -> Result<(), Error> {
        let what = "clearing a map";
        if self.kind == PlainMapKind::PerCpuArray {
            let zeros =
                vec![vec![0; self.handle.value_size() as usize]; TraceEvents::possible_cpus()];
            let key = 0_u32.to_ne_bytes();
            let cleared = self.handle.update_percpu(&key, &zeros, MapFlags::ANY);
            return cleared.context(what);
        }
        // Not while they are listed: the list goes on from the key before.
        let keys: Vec<_> = self.handle.keys().collect();
        for key in keys {
            match self.handle.delete(&key) {
                Err(error) if error.kind() == libbpf_rs::ErrorKind::NotFound => {}
                deleted => deleted.context(what)?,
            }
        }
        Ok(())
    }

    /// How many entries there are. They are listed one by one: each takes a system call.
    pub fn count(&self) -> usize {
        self.handle.keys().count()
    }

    /// The entry of this key on each CPU that can be online; `None`: there is none.
    ///
    /// # Errors
    ///
    /// The kernel refuses.
    pub fn get_per_cpu(&self, key: &[u8]) -> Result<Option<Vec<Vec<u8>>>, Error> {
        let found = self.handle.lookup_percpu(key, MapFlags::ANY);
        found.context("reading an entry of a map")
    }

    /// The entry of this number; `None`: there is none.
    ///
    /// # Errors
    ///
    /// The kernel refuses.
    pub fn get(&self, index: u32) -> Result<Option<Vec<u8>>, Error> {
        let found = self.handle.lookup(&index.to_ne_bytes(), MapFlags::ANY);
        found.context("reading an entry of a map")
    }

    /// All entries. One that is made meanwhile may be missing.
    ///
    /// # Errors
    ///
    /// The kernel refuses.
    pub fn per_cpu_entries(&self) -> Result<Vec<PerCpuEntry>, Error> {
        if self.kind == PlainMapKind::PerCpuArray {
            let key = 0_u32.to_ne_bytes().to_vec();
            let value = self.get_per_cpu(&key)?;
            return Ok(value.map(|value| (key, value)).into_iter().collect());
        }
        let mut entries = Vec::new();
        for key in self.handle.keys() {
            if let Some(value) = self.get_per_cpu(&key)? {
                entries.push((key, value));
            }
        }
        Ok(entries)
    }
}

/// What a program is attached to: it decides what it finds there and which functions it may call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlainProgramKind {
    /// A tracepoint of tracefs.
    Tracepoint,
    /// A socket, as its filter.
    SocketFilter,
    /// A perf event other than a tracepoint or a kprobe.
    PerfEvent,
    /// A kprobe, kretprobe, uprobe or uretprobe.
    Kprobe,
}

impl PlainProgramKind {
    const fn of_libbpf(self) -> libbpf_rs::libbpf_sys::bpf_prog_type {
        use libbpf_rs::libbpf_sys as sys;
        match self {
            Self::Tracepoint => sys::BPF_PROG_TYPE_TRACEPOINT,
            Self::SocketFilter => sys::BPF_PROG_TYPE_SOCKET_FILTER,
            Self::PerfEvent => sys::BPF_PROG_TYPE_PERF_EVENT,
            Self::Kprobe => sys::BPF_PROG_TYPE_KPROBE,
        }
    }
}

/// A program that is to be loaded.
#[derive(Clone, Copy, Debug)]
pub struct PlainProgram<'a> {
    /// What it is attached to.
    pub kind: PlainProgramKind,
    /// At most 15 characters.
    pub name: &'a str,
    /// The instructions, eight bytes each.
    pub insns: &'a [[u8; INSN_BYTES]],
    /// Instructions that load a map, and which of `maps` that is.
    pub loads: &'a [(usize, u32)],
    /// The maps; `None` has a number that no instruction loads.
    pub maps: &'a [Option<&'a PlainMap>],
}

/// The kernel refuses a program.
#[derive(Debug)]
pub struct Refused {
    /// Why, as the system says it.
    pub error: Error,
    /// The number of the system's error.
    pub errno: i32,
    /// What the verifier wrote.
    pub log: String,
}

/// A loaded program; it is unloaded when this and its attachments are dropped.
#[derive(Debug)]
pub struct LoadedProgram {
    fd: OwnedFd,
}

/// A program that is attached; detached when this is dropped.
#[derive(Debug)]
pub struct AttachedProgram {
    held: Vec<Held>,
}

/// For how long perf events were wanted, and for how long of that they counted: less where the processor
/// has too few counters for all who want one. Added up over the CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CountedTime {
    /// `time_enabled` of perf, in nanoseconds.
    pub enabled_ns: u64,
    /// `time_running` of perf, in nanoseconds.
    pub running_ns: u64,
}

impl CountedTime {
    /// The part of the time in which they counted; `None`: all of it, but for a thousandth at most.
    pub fn part(self) -> Option<f64> {
        let part = self.running_ns as f64 / self.enabled_ns.max(1) as f64;
        (self.enabled_ns > 0 && part < 0.999).then_some(part)
    }
}

impl AddAssign for CountedTime {
    fn add_assign(&mut self, other: Self) {
        self.enabled_ns += other.enabled_ns;
        self.running_ns += other.running_ns;
    }
}

/// What keeps a program attached as long as it is open.
#[derive(Debug)]
pub(crate) enum Held {
    /// A link, or a socket whose filter it is.
    Descriptor {
        /// It is closed in the end.
        _fd: OwnedFd,
    },
    /// A perf event.
    Event {
        /// It is closed in the end.
        counter: perf_event::Counter,
    },
    /// A line of `kprobe_events`, behind the perf event that it is the place of.
    Kprobe {
        /// It is removed in the end.
        _event: crate::object::KprobeEvent,
    },
}

impl AttachedProgram {
    /// Attached by these, which are closed in this order.
    pub(crate) fn new(held: Vec<Held>) -> Self {
        Self { held }
    }

    /// For how long its perf events counted up to now. One that cannot be read says nothing.
    pub fn counted_time(&mut self) -> CountedTime {
        let mut sum = CountedTime::default();
        for held in &mut self.held {
            if let Held::Event { counter } = held
                && let Ok(now) = counter.read_count_and_time()
            {
                sum += CountedTime {
                    enabled_ns: now.time_enabled,
                    running_ns: now.time_running,
                };
            }
        }
        sum
    }
}

impl PlainProgram<'_> {
    /// Loads it. Only where the verifier refuses it is its log asked for: a log of every step takes
    /// longer than the check.
    ///
    /// # Errors
    ///
    /// The kernel refuses it.
    pub fn load(&self) -> Result<LoadedProgram, Refused> {
        self.load_logged(None).or_else(|error| {
            let mut log = vec![0; LOG_BYTES];
            let again = self.load_logged(Some((STEPS, log.as_mut_slice())));
            let again = again.or_else(|error| {
                if error != libc::ENOSPC {
                    return Err(error);
                }
                log.fill(0);
                self.load_logged(Some((REASON, log.as_mut_slice())))
            });
            match again {
                // Memory was short, or the like.
                Ok(loaded) => Ok(loaded),
                Err(_) => {
                    let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
                    let log = String::from_utf8_lossy(&log[..end]).into_owned();
                    let errno = error;
                    let error = io::Error::from_raw_os_error(errno);
                    let error = Err::<(), _>(error).context("loading a BPF program");
                    let error = error
                        .err()
                        .unwrap_or_else(|| Error::new(ErrorKind::Other, ""));
                    Err(Refused { error, errno, log })
                }
            }
        })
    }

    /// The error is that of the system.
    fn load_logged(&self, log: Option<(u32, &mut [u8])>) -> Result<LoadedProgram, i32> {
        use libbpf_rs::libbpf_sys as sys;

        let mut insns = self.insns.to_vec();
        for &(at, map) in self.loads {
            let map = self.maps.get(map as usize).copied().flatten();
            let fd = map.map(|map| map.handle.as_fd().as_raw_fd());
            let (Some(insn), Some(fd)) = (insns.get_mut(at), fd) else {
                return Err(rustix::io::Errno::INVAL.raw_os_error());
            };
            insn[4..].copy_from_slice(&fd.to_ne_bytes());
        }
        let name = CString::new(self.name).unwrap_or_default();
        let mut options = sys::bpf_prog_load_opts {
            sz: size_of::<sys::bpf_prog_load_opts>() as _,
            ..Default::default()
        };
        if let Some((level, log)) = log {
            options.log_level = level;
            options.log_size = u32::try_from(log.len()).unwrap_or(u32::MAX);
            options.log_buf = log.as_mut_ptr().cast();
        }
        #[allow(unsafe_code, reason = "libbpf-rs loads objects only")]
        // SAFETY: all pointers are to memory that lives for the call: two strings with their NUL, whole
        // instructions of eight bytes, of which libbpf needs no alignment but passes the address on to
        // the kernel, and options whose size they say themselves.
        let fd = unsafe {
            sys::bpf_prog_load(
                self.kind.of_libbpf(),
                name.as_ptr(),
                c"Dual BSD/GPL".as_ptr(),
                insns.as_ptr().cast(),
                insns.len() as _,
                &raw mut options,
            )
        };
        owned(fd).map(|fd| LoadedProgram { fd })
    }
}

/// A descriptor that a function of libbpf has given, or the number of its error.
pub(crate) fn owned(fd: RawFd) -> Result<OwnedFd, i32> {
    if fd < 0 {
        return Err(-fd);
    }
    #[allow(unsafe_code, reason = "libbpf gives plain numbers")]
    // SAFETY: the descriptor was made for us just now, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Waits until no CPU runs a program that it has begun by now.
pub fn wait_for_programs() {
    use rustix::thread::{MembarrierCommand, membarrier};

    // It waits for all readers of RCU, as which programs run. Kernels with CPUs that have no ticks
    // (nohz_full) refuse it; a program ends within microseconds there too.
    if membarrier(MembarrierCommand::Global).is_err() {
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
}

impl LoadedProgram {
    /// How often the kernel did not run it because another program ran on that CPU (counted since
    /// Linux 6.7); 0 where that cannot be read.
    pub fn skipped(&self) -> u64 {
        crate::cost::misses(&self.fd)
    }

    /// The number of its descriptor.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Attaches it to a perf event, and enables that.
    pub(crate) fn attach_to(&self, mut event: perf_event::Counter) -> Result<Vec<Held>, Error> {
        use libbpf_rs::libbpf_sys as sys;

        #[allow(unsafe_code, reason = "libbpf-rs attaches programs of objects only")]
        // SAFETY: both descriptors are open, and there are no options.
        let link = owned(unsafe {
            sys::bpf_link_create(
                self.fd.as_raw_fd(),
                event.as_raw_fd(),
                sys::BPF_PERF_EVENT,
                std::ptr::null(),
            )
        });
        let link = match link {
            Ok(link) => Some(link),
            // Before Linux 5.15 there are no such links.
            Err(_) => {
                event
                    .set_bpf(self.fd.as_raw_fd())
                    .context("attaching to a perf event")?;
                None
            }
        };
        event.enable().context("enabling a perf event")?;
        let link = link.map(|fd| Held::Descriptor { _fd: fd });
        let event = Held::Event { counter: event };
        Ok(link.into_iter().chain([event]).collect())
    }
}

/// The kernel's tracepoints.
#[derive(Debug)]
pub struct TraceEvents {
    tracefs: Tracefs,
    online: u32,
}

impl TraceEvents {
    /// Opens tracefs where it is mounted, else a mount that nobody else sees.
    ///
    /// # Errors
    ///
    /// Neither can be done: rights, or a kernel without tracefs.
    pub fn open() -> Result<Self, Error> {
        let sys = std::path::Path::new("/sys");
        let tracefs = Tracefs::open(facts::tracefs(sys).as_deref())?;
        let online = facts::online_cpus(sys).first().copied().unwrap_or(0);
        Ok(Self { tracefs, online })
    }

    /// The `format` file of an event; `None`: the kernel has no such event.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub fn format(&self, system: &str, event: &str) -> Result<Option<String>, Error> {
        self.tracefs
            .read(&format!("events/{system}/{event}/format"))
    }

    /// How many CPUs can ever be online: so many values has an entry of a map that is per CPU.
    pub fn possible_cpus() -> usize {
        libbpf_rs::num_possible_cpus().unwrap_or(1)
    }

    /// System and name of every event that can be enabled, in the order of the alphabet: those of the
    /// kernel and its modules, and the kprobes, uprobes and others that somebody has registered.
    ///
    /// # Errors
    ///
    /// They cannot be listed.
    pub fn available(&self) -> Result<Vec<(String, String)>, Error> {
        let text = self.tracefs.read("available_events")?.unwrap_or_default();
        let split = |line: &str| {
            let (system, event) = line.split_once(':')?;
            Some((system.to_owned(), event.to_owned()))
        };
        let mut all: Vec<_> = text.lines().filter_map(split).collect();
        all.sort_unstable();
        Ok(all)
    }

    /// How the registered kprobes, uprobes and other dynamic events were defined, one a line
    /// (`p:kprobes/open do_sys_openat2`). Empty where the kernel has none of these kinds.
    ///
    /// # Errors
    ///
    /// The list cannot be read.
    pub fn dynamic(&self) -> Result<String, Error> {
        // One file for all kinds since Linux 5.0.
        Ok(self.tracefs.read("dynamic_events")?.unwrap_or_default())
    }

    /// The texts of the kernel that records of events point to, one a line: `0xffffffff82819 : "text"`.
    ///
    /// # Errors
    ///
    /// The list cannot be read.
    pub fn texts(&self) -> Result<String, Error> {
        Ok(self.tracefs.read("printk_formats")?.unwrap_or_default())
    }

    /// Attaches the program to the tracepoint with this number, on all CPUs.
    ///
    /// # Errors
    ///
    /// The kernel refuses: rights, or more than 64 programs of one tracepoint.
    pub fn attach(&self, program: &LoadedProgram, id: u64) -> Result<AttachedProgram, Error> {
        let event = Builder::new(Tracepoint::with_id(id))
            .any_pid()
            .one_cpu(self.online as usize)
            .include_kernel()
            .build()
            .context("opening the perf event of a tracepoint")?;
        Ok(AttachedProgram::new(program.attach_to(event)?))
    }
}

#[cfg(test)]
mod tests {
    use super::CountedTime;

    #[test]
    fn a_part_of_the_time_is_told_and_noise_is_not() {
        let part = |enabled_ns, running_ns| {
            let time = CountedTime {
                enabled_ns,
                running_ns,
            };
            time.part()
        };
        assert_eq!(part(1_000_000, 250_000), Some(0.25));
        assert_eq!(part(1_000_000, 0), Some(0.0));
        assert_eq!(part(1_000_000, 999_500), None);
        assert_eq!(part(1_000_000, 1_000_000), None);
        assert_eq!(part(0, 0), None);
    }
}
