//! Loads programs given as plain instructions, creates their maps, and attaches the programs to
//! tracepoints.

mod ring;

use std::io;
use std::ops::AddAssign;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType};
use perf_event::Builder;
use perf_event::events::Tracepoint;

use crate::error::{Cause as _, Context as _, Error};
use crate::facts;
use crate::instructions::Instructions;
use crate::object::owned;
use crate::tracefs::Tracefs;

pub use ring::PlainRing;

/// Size of the verifier log that explains a rejection.
const LOG_BYTES: usize = 1 << 20;
/// Size of an instruction (`struct bpf_insn`).
const INSN_BYTES: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlainMapKind {
    /// Entries by index, each with one value that all CPUs share.
    Array,
    /// Entries by index, each with one value per CPU.
    PerCpuArray,
    /// Entries by key, each with one value that all CPUs share.
    Hash,
    /// Like `Hash`, but a full map evicts the least recently used entry.
    LruHash,
    /// Entries by key, each with one value per CPU.
    PerCpuHash,
    /// A ring buffer that all CPUs share. The number of entries is its size in bytes.
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

/// A map of plain programs.
#[derive(Debug)]
pub struct PlainMap {
    handle: MapHandle,
    kind: PlainMapKind,
}

/// A key, and its value on each CPU.
pub type PerCpuEntry = (Vec<u8>, Vec<Vec<u8>>);

impl PlainMap {
    /// Creates a map. The entries of a hash map are preallocated, so that programs do not have to
    /// allocate memory in contexts that forbid it.
    ///
    /// # Errors
    ///
    /// Fails if the kernel rejects the sizes of the map, or if privileges or memory are
    /// insufficient.
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
            .context(format!("creating the map {name}"))?;
        Ok(Self { handle, kind })
    }

    /// Writes an entry of an array, or of a hash map with 32-bit keys.
    ///
    /// # Errors
    ///
    /// Fails if the kernel rejects the update.
    pub fn set(&self, index: u32, value: &[u8]) -> Result<(), Error> {
        let key = index.to_ne_bytes();
        let written = self.handle.update(&key, value, MapFlags::ANY);
        written.context("writing an entry of a map")
    }

    /// Removes all entries. Entries of an array become zero.
    ///
    /// # Errors
    ///
    /// Fails if the kernel rejects the update.
    pub fn clear(&self) -> Result<(), Error> {
        let what = "clearing a map";
        if self.kind == PlainMapKind::PerCpuArray {
            let zeros =
                vec![vec![0; self.handle.value_size() as usize]; TraceEvents::possible_cpus()];
            let key = 0_u32.to_ne_bytes();
            let cleared = self.handle.update_percpu(&key, &zeros, MapFlags::ANY);
            return cleared.context(what);
        }
        // The keys are collected first, because the iteration continues from the previous key.
        let keys: Vec<_> = self.handle.keys().collect();
        for key in keys {
            match self.handle.delete(&key) {
                Err(error) if error.kind() == libbpf_rs::ErrorKind::NotFound => {}
                deleted => deleted.context(what)?,
            }
        }
        Ok(())
    }

    /// Returns the number of entries. Each entry takes a system call.
    pub fn count(&self) -> usize {
        self.handle.keys().count()
    }

    /// Returns the value for this key on each possible CPU, if the key exists.
    ///
    /// # Errors
    ///
    /// Fails if the kernel rejects the lookup.
    pub fn get_per_cpu(&self, key: &[u8]) -> Result<Option<Vec<Vec<u8>>>, Error> {
        let found = self.handle.lookup_percpu(key, MapFlags::ANY);
        found.context("reading an entry of a map")
    }

    /// Returns the entry with this number, if it exists.
    ///
    /// # Errors
    ///
    /// Fails if the kernel rejects the lookup.
    pub fn get(&self, index: u32) -> Result<Option<Vec<u8>>, Error> {
        let found = self.handle.lookup(&index.to_ne_bytes(), MapFlags::ANY);
        found.context("reading an entry of a map")
    }

    /// Returns all entries. An entry created during the read may be missing.
    ///
    /// # Errors
    ///
    /// Fails if the kernel rejects a lookup.
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

/// The kind of a program, which determines its context and the helpers that it may call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlainProgramKind {
    Tracepoint,
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

/// A program to load.
#[derive(Clone, Copy, Debug)]
pub struct PlainProgram<'a> {
    pub kind: PlainProgramKind,
    /// The program's name, at most 15 characters.
    pub name: &'a str,
    /// The instructions, eight bytes each.
    pub insns: &'a [[u8; INSN_BYTES]],
    /// Instructions that load a map, each with an index into `maps`.
    pub loads: &'a [(usize, u32)],
    /// The maps. If a map is `None`, no instruction loads it.
    pub maps: &'a [Option<&'a PlainMap>],
}

/// A rejected program.
#[derive(Debug)]
pub struct Refused {
    pub error: Error,
    pub errno: i32,
    /// The verifier's log.
    pub log: String,
}

/// A loaded program. The program is unloaded when this value and its attachments are dropped.
#[derive(Debug)]
pub struct LoadedProgram {
    fd: OwnedFd,
}

/// An attached program. Dropping this value detaches the program.
#[derive(Debug)]
pub struct AttachedProgram {
    held: Vec<Held>,
}

/// Enabled and running time of perf events, summed over the CPUs. The running time is shorter if
/// the processor has too few counters for all users.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CountedTime {
    /// `time_enabled` of perf, in nanoseconds.
    pub enabled_ns: u64,
    /// `time_running` of perf, in nanoseconds.
    pub running_ns: u64,
}

impl CountedTime {
    /// Returns the fraction of time for which the events were counted; `None` above 99.9%.
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

/// Keeps a program attached while it is open.
#[derive(Debug)]
pub(crate) enum Held {
    /// A link, or a socket with the program as its filter.
    Descriptor {
        /// Owns the link or the socket, and closes it on drop.
        _fd: OwnedFd,
    },
    /// A perf event.
    Event {
        /// Owns the perf event, and closes it on drop.
        counter: perf_event::Counter,
    },
    /// A line of `kprobe_events`. The perf event uses the line, so it is declared first and dropped
    /// first.
    Kprobe {
        /// Owns the line of `kprobe_events`, and removes it on drop.
        _event: crate::object::KprobeEvent,
    },
}

impl AttachedProgram {
    /// Creates an attachment from these descriptors and events, which are closed in this order.
    pub(crate) fn new(held: Vec<Held>) -> Self {
        Self { held }
    }

    /// Returns the total time of the program's perf events so far. Unreadable events are left out.
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
    /// Loads the program.
    ///
    /// # Errors
    ///
    /// Fails if the kernel rejects the program.
    pub fn load(&self) -> Result<LoadedProgram, Refused> {
        let mut insns = self.insns.to_vec();
        let loaded = self.set_maps(&mut insns).and_then(|()| {
            Instructions {
                kind: self.kind.of_libbpf(),
                attach: 0,
                name: self.name,
                license: "Dual BSD/GPL",
                kernel_version: 0,
                insns: &insns,
                log_bytes: LOG_BYTES,
            }
            .load()
        });
        let loaded = loaded.map(|fd| LoadedProgram { fd });
        loaded.map_err(|(error, log)| Refused {
            errno: error.raw_os_error().unwrap_or(0),
            error: error.context("loading a BPF program"),
            log,
        })
    }

    /// Writes the descriptors of the maps into the instructions that load them.
    fn set_maps(&self, insns: &mut [[u8; INSN_BYTES]]) -> Result<(), (io::Error, String)> {
        for &(at, map) in self.loads {
            let map = self.maps.get(map as usize).copied().flatten();
            let fd = map.map(|map| map.handle.as_fd().as_raw_fd());
            let (Some(insn), Some(fd)) = (insns.get_mut(at), fd) else {
                let invalid = io::Error::from_raw_os_error(libc::EINVAL);
                return Err((invalid, String::new()));
            };
            insn[4..].copy_from_slice(&fd.to_ne_bytes());
        }
        Ok(())
    }
}

/// Waits until every program that is running now has ended, on all CPUs.
pub fn wait_for_programs() {
    use rustix::thread::{MembarrierCommand, membarrier};

    // The call waits for all RCU readers, which include running programs. Kernels with nohz_full
    // CPUs reject the call, but there, too, a program ends within microseconds.
    if membarrier(MembarrierCommand::Global).is_err() {
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
}

impl LoadedProgram {
    /// Returns how often the kernel skipped the program because another program was running on the
    /// CPU (counted since Linux 6.7); 0 if unknown.
    pub fn skipped(&self) -> u64 {
        crate::cost::misses(&self.fd)
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Attaches the program to a perf event, and enables the event.
    pub(crate) fn attach_to(&self, mut event: perf_event::Counter) -> Result<Vec<Held>, Error> {
        use libbpf_rs::libbpf_sys as sys;

        #[allow(
            unsafe_code,
            reason = "libbpf-rs attaches only programs of its own objects"
        )]
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
            // Before Linux 5.15 perf events have no links.
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
    /// Opens tracefs at its mount point, or else through a private mount.
    ///
    /// # Errors
    ///
    /// Fails if both ways fail, because the process lacks privileges or the kernel lacks tracefs.
    pub fn open() -> Result<Self, Error> {
        let sys = std::path::Path::new("/sys");
        let tracefs = Tracefs::open(facts::tracefs(sys).as_deref())?;
        let online = facts::online_cpus(sys).first().copied().unwrap_or(0);
        Ok(Self { tracefs, online })
    }

    /// Returns the `format` file of an event; `None` if the kernel lacks the event.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read.
    pub fn format(&self, system: &str, event: &str) -> Result<Option<String>, Error> {
        self.tracefs
            .read(&format!("events/{system}/{event}/format"))
    }

    /// Returns the number of possible CPUs, which is the number of values per entry in a per-CPU
    /// map.
    pub fn possible_cpus() -> usize {
        libbpf_rs::num_possible_cpus().unwrap_or(1)
    }

    /// Returns the system and name of every event that can be enabled, sorted. The list includes
    /// events of the kernel and its modules, and registered dynamic events such as kprobes and
    /// uprobes.
    ///
    /// # Errors
    ///
    /// Fails if the events cannot be listed.
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

    /// Returns the definitions of the registered kprobes, uprobes and other dynamic events, one per
    /// line (`p:kprobes/open do_sys_openat2`). Empty if the kernel has no dynamic events.
    ///
    /// # Errors
    ///
    /// Fails if the list cannot be read.
    pub fn dynamic(&self) -> Result<String, Error> {
        // One file lists all kinds since Linux 5.0.
        Ok(self.tracefs.read("dynamic_events")?.unwrap_or_default())
    }

    /// Returns the kernel strings that event records point to, one per line: `0xffffffff82819 :
    /// "text"`.
    ///
    /// # Errors
    ///
    /// Fails if the list cannot be read.
    pub fn texts(&self) -> Result<String, Error> {
        Ok(self.tracefs.read("printk_formats")?.unwrap_or_default())
    }

    /// Attaches the program to the tracepoint with this id, on all CPUs.
    ///
    /// # Errors
    ///
    /// Fails if the process lacks privileges, or the tracepoint already has 64 programs.
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
    fn partial_counting_is_reported_unless_negligible() {
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
