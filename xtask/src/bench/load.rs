//! The loads: each is a process of its own, this program run with `bench load NAME SIZE`, which
//! prints one line of JSON when it is done.

use std::io::{Read as _, Write as _, stdout};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde_json::{Value, json};

use super::child::Child;
use super::stop::Stop;

mod fork_storm;
mod hackbench;
mod kepler;
mod netflix;
mod object;
mod ping_pong;
mod population;
mod proc_scan;

/// A load that takes longer is stuck.
const LIMIT: Duration = Duration::from_secs(300);

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    part: Part,
    /// Operations; for a part that runs until its input ends, what it is to do
    size: String,
}

/// What this program can be in a run of the bench.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(super) enum Part {
    PingPong,
    Hackbench,
    ForkStorm,
    Population,
    /// The other end of ping-pong.
    Echo,
    /// One process of the population.
    Sleeper,
    /// Holds a BPF object.
    Object,
    /// The same, and reads its events.
    Netflix,
    /// The same, and takes out its rows.
    Kepler,
    /// The yardstick of the agents.
    ProcScan,
}

/// Is what the arguments say.
pub(crate) fn run(args: &Args) -> Result<()> {
    let size = || args.size.parse::<u64>().context("the size is a number");
    let outcome = match args.part {
        Part::PingPong => ping_pong::run(size()?)?,
        Part::Hackbench => hackbench::run(size()?)?,
        Part::ForkStorm => fork_storm::run(size()?)?,
        Part::Population => return population::run(&args.size),
        Part::Echo => return ping_pong::echo(size()? as usize),
        Part::Sleeper => return population::sleeper(size()?),
        Part::Object => return object::run(args.size.as_ref()),
        Part::Netflix => return netflix::run(args.size.as_ref()),
        Part::Kepler => return kepler::run(args.size.as_ref()),
        Part::ProcScan => return proc_scan::run(Duration::from_millis(size()?)),
    };
    writeln!(stdout(), "{}", outcome.to_json()).context("telling the outcome")
}

/// What the bench can put on the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Load {
    /// Two processes on one CPU pass a byte to and fro over two pipes
    PingPong,
    /// 4 groups of 10 senders and 10 receivers over socket pairs, as threads
    Hackbench,
    /// One process after another on each CPU: start /bin/true, wait for it
    ForkStorm,
    /// 1,000 processes in 200 cgroups; each wakes twice a second and runs for 50 us
    Population,
}

impl Load {
    pub(super) const ALL: [Self; 4] = [
        Self::PingPong,
        Self::Hackbench,
        Self::ForkStorm,
        Self::Population,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::PingPong => "ping-pong",
            Self::Hackbench => "hackbench",
            Self::ForkStorm => "fork-storm",
            Self::Population => "population",
        }
    }

    /// What it does, and what one operation is.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::PingPong => "two processes on one CPU over two pipes; operation: a round trip",
            Self::Hackbench => {
                "4 x (10 senders, 10 receivers), threads, socket pairs; operation: a message"
            }
            Self::ForkStorm => "a worker per CPU starts /bin/true and waits; operation: a process",
            Self::Population => {
                "1,000 processes in 200 cgroups (containers of 100 pods), each wakes twice a \
                 second and runs 50 us"
            }
        }
    }

    /// Operations of a run: about half a second on the development machine.
    pub(super) fn operations(self, quick: bool) -> u64 {
        let full = match self {
            Self::PingPong => 100_000,
            Self::Hackbench => 600_000,
            Self::ForkStorm => 1_000,
            Self::Population => 0,
        };
        if quick { full / 10 } else { full }
    }

    fn part(self) -> Part {
        match self {
            Self::PingPong => Part::PingPong,
            Self::Hackbench => Part::Hackbench,
            Self::ForkStorm => Part::ForkStorm,
            Self::Population => Part::Population,
        }
    }

    /// Runs it to its end. Not for the population, which has none.
    pub(super) fn run(self, operations: u64, stop: &Stop) -> Result<Outcome> {
        let mut command = command(self.part(), &operations.to_string());
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = Child::start(&mut command)?;
        let status = child.wait(stop, LIMIT).context(self.name())?;
        ensure!(status.success(), "the load {}: {status}", self.name());
        let mut text = String::new();
        let pipe = child
            .pipes()
            .stdout
            .as_mut()
            .context("the outcome of a load")?;
        pipe.read_to_string(&mut text)?;
        Outcome::from_json(&text).with_context(|| format!("the outcome of {}", self.name()))
    }
}

/// This program as one part of the bench. The link leads to what runs, even if it was built anew
/// since.
fn command(part: Part, size: &str) -> Command {
    use clap::ValueEnum as _;
    let mut command = Command::new("/proc/self/exe");
    let value = part.to_possible_value();
    let name = value.as_ref().map_or("", |v| v.get_name());
    command.args(["bench", "load", name, size]);
    command
}

/// The population, for the bench: its input keeps it alive.
pub(super) fn population(name: &str) -> Command {
    command(Part::Population, name)
}

/// A part that holds the BPF object at `path`.
pub(super) fn holder(part: Part, path: &Path) -> Command {
    command(part, &path.display().to_string())
}

/// A scanner of /proc with this period.
pub(super) fn proc_scan(period: Duration) -> Command {
    command(Part::ProcScan, &period.as_millis().to_string())
}

/// What a load did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) operations: u64,
    pub(super) elapsed_ns: u64,
    /// Time on a CPU of all its processes: unlike elapsed time, it does not contain what others
    /// took.
    pub(super) cpu_ns: u64,
    /// Context switches of its own threads, where it knows them.
    pub(super) switches: Option<u64>,
}

impl Outcome {
    fn to_json(self) -> Value {
        json!({
            "operations": self.operations,
            "elapsed_ns": self.elapsed_ns,
            "cpu_ns": self.cpu_ns,
            "switches": self.switches,
        })
    }

    fn from_json(text: &str) -> Result<Self> {
        let value: Value = serde_json::from_str(text)?;
        let number = |name: &str| {
            value[name]
                .as_u64()
                .with_context(|| format!("{name} is missing"))
        };
        Ok(Self {
            operations: number("operations")?,
            elapsed_ns: number("elapsed_ns")?,
            cpu_ns: number("cpu_ns")?,
            switches: value["switches"].as_u64(),
        })
    }

    /// A time for each operation, nanoseconds.
    pub(super) fn per_operation(&self, ns: u64) -> f64 {
        ns as f64 / self.operations.max(1) as f64
    }
}

/// Time on a CPU of all threads of this process, ended ones too.
fn own_cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Keeps the calling thread on one CPU.
fn pin(cpu: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).with_context(|| format!("staying on CPU {cpu}"))
}

/// The last CPU that this process may use: the first ones take most interrupts.
fn last_cpu() -> Result<usize> {
    let set = sched_getaffinity(None::<Pid>).context("the CPUs of this process")?;
    let last = (0..CpuSet::MAX_CPU).rev().find(|&cpu| set.is_set(cpu));
    last.context("no CPU is allowed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_survives_its_json() {
        let outcome = Outcome {
            operations: 4,
            elapsed_ns: 10,
            cpu_ns: 8,
            switches: None,
        };
        let text = outcome.to_json().to_string();
        assert_eq!(Outcome::from_json(&text).expect("as written"), outcome);
        assert!(Outcome::from_json("{}").is_err());
        assert_eq!(outcome.per_operation(outcome.elapsed_ns), 2.5);
    }

    #[test]
    fn the_loads_do_what_they_say() {
        let messages = hackbench::run(400).expect("hackbench");
        assert_eq!(messages.operations, 400);
        let storm = fork_storm::run(8).expect("fork storm");
        assert_eq!(storm.operations, 8);
        assert!(storm.elapsed_ns > 0);
    }
}
