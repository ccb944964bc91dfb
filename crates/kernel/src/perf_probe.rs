//! Perf events as probes: on every CPU, a program runs each time the counter of an event overflows.

use std::io;
use std::path::Path;

use perf_event::events::{Hardware, Software};
use perf_event::{Builder, Counter};

use crate::error::{Cause as _, Error, ErrorKind};
use crate::facts;
use crate::plain::{AttachedProgram, LoadedProgram};

/// How often the program of a perf event runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampling {
    /// The program runs this number of times per second.
    Frequency(u64),
    /// The program runs once per this number of events.
    Period(u64),
}

/// A perf event to attach programs to.
#[derive(Clone, Copy, Debug)]
pub struct PerfProbe {
    event: Source,
    sampling: Sampling,
    on_all_cpus: bool,
}

#[derive(Clone, Copy, Debug)]
enum Source {
    Software(Software),
    Hardware(Hardware),
}

/// Software events with their default sampling periods.
const SOFTWARE: [(&str, Software, u64); 8] = [
    ("page-faults", Software::PAGE_FAULTS, 1),
    ("minor-faults", Software::PAGE_FAULTS_MIN, 1),
    ("major-faults", Software::PAGE_FAULTS_MAJ, 1),
    ("context-switches", Software::CONTEXT_SWITCHES, 1),
    ("cpu-migrations", Software::CPU_MIGRATIONS, 1),
    ("alignment-faults", Software::ALIGNMENT_FAULTS, 1),
    ("emulation-faults", Software::EMULATION_FAULTS, 1),
    ("cpu-clock", Software::CPU_CLOCK, 1_000_000),
];

/// Hardware events with their default sampling periods.
const HARDWARE: [(&str, Hardware, u64); 9] = [
    ("cycles", Hardware::CPU_CYCLES, 1_000_000),
    ("ref-cycles", Hardware::REF_CPU_CYCLES, 1_000_000),
    ("instructions", Hardware::INSTRUCTIONS, 1_000_000),
    ("cache-references", Hardware::CACHE_REFERENCES, 100_000),
    ("cache-misses", Hardware::CACHE_MISSES, 10_000),
    ("branches", Hardware::BRANCH_INSTRUCTIONS, 100_000),
    ("branch-misses", Hardware::BRANCH_MISSES, 10_000),
    (
        "stalled-cycles-frontend",
        Hardware::STALLED_CYCLES_FRONTEND,
        1_000_000,
    ),
    (
        "stalled-cycles-backend",
        Hardware::STALLED_CYCLES_BACKEND,
        1_000_000,
    ),
];

impl PerfProbe {
    /// Samples each CPU at this frequency with a kernel timer, whatever runs on the CPU.
    pub fn profile(hertz: u64) -> Self {
        Self {
            event: Source::Software(Software::CPU_CLOCK),
            sampling: Sampling::Frequency(hertz),
            on_all_cpus: true,
        }
    }

    /// Fires on one CPU at this interval.
    pub fn interval(nanoseconds: u64) -> Self {
        Self {
            event: Source::Software(Software::CPU_CLOCK),
            sampling: Sampling::Period(nanoseconds),
            on_all_cpus: false,
        }
    }

    /// Returns the software event of this name, if it exists.
    pub fn software(name: &str, period: Option<u64>) -> Option<Self> {
        let (_, event, usual) = SOFTWARE.iter().find(|(known, ..)| *known == name)?;
        Some(Self {
            event: Source::Software(*event),
            sampling: Sampling::Period(period.unwrap_or(*usual)),
            on_all_cpus: true,
        })
    }

    /// Returns the hardware event of this name, if it exists.
    pub fn hardware(name: &str, period: Option<u64>) -> Option<Self> {
        let (_, event, usual) = HARDWARE.iter().find(|(known, ..)| *known == name)?;
        Some(Self {
            event: Source::Hardware(*event),
            sampling: Sampling::Period(period.unwrap_or(*usual)),
            on_all_cpus: true,
        })
    }

    /// Returns the names of the software events.
    pub fn software_names() -> Vec<&'static str> {
        SOFTWARE.iter().map(|(name, ..)| *name).collect()
    }

    /// Returns the names of the hardware events.
    pub fn hardware_names() -> Vec<&'static str> {
        HARDWARE.iter().map(|(name, ..)| *name).collect()
    }

    /// Returns how often the program runs.
    pub fn sampling(&self) -> Sampling {
        self.sampling
    }

    /// Attaches the program on the online CPUs.
    ///
    /// # Errors
    ///
    /// Fails if the kernel or the machine lacks the event, the process lacks privileges, or the
    /// frequency exceeds the kernel's limit.
    pub fn attach(&self, program: &LoadedProgram) -> Result<AttachedProgram, Error> {
        let mut cpus = facts::online_cpus(Path::new("/sys"));
        if !self.on_all_cpus {
            cpus.truncate(1);
        }
        // All events are opened before the first is enabled, because opening takes the most time.
        let events: Result<Vec<_>, Error> = cpus
            .into_iter()
            .map(|cpu| self.open(cpu).map_err(|error| self.explained(error)))
            .collect();
        let mut held = Vec::new();
        for event in events? {
            held.extend(program.attach_to(event)?);
        }
        Ok(AttachedProgram::new(held))
    }

    fn open(&self, cpu: u32) -> io::Result<Counter> {
        let mut builder = match self.event {
            Source::Software(event) => Builder::new(event),
            Source::Hardware(event) => Builder::new(event),
        };
        builder.any_pid().one_cpu(cpu as usize).include_kernel();
        match self.sampling {
            Sampling::Frequency(hertz) => builder.sample_frequency(hertz),
            Sampling::Period(period) => builder.sample_period(period),
        };
        builder.build()
    }

    fn explained(&self, error: io::Error) -> Error {
        let words = "opening a perf event";
        match (self.event, error.raw_os_error()) {
            (Source::Hardware(_), Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP)) => {
                let words = "this machine has no hardware counter for this event (virtual machines \
                    often have none): use profile:HZ or software:EVENT, which need no hardware \
                    counter";
                Error::new(ErrorKind::Kernel, words)
            }
            (_, Some(libc::EINVAL)) if matches!(self.sampling, Sampling::Frequency(_)) => {
                let words = format!(
                    "{words}: the frequency is limited to kernel.perf_event_max_sample_rate{}",
                    most_samples().map_or(String::new(), |most| format!(" ({most} Hz)"))
                );
                Error::new(ErrorKind::Kernel, words)
            }
            _ => error.context(words),
        }
    }
}

fn most_samples() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/perf_event_max_sample_rate").ok()?;
    Some(text.trim().to_owned())
}
