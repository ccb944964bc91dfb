//! The loads. Each load is a separate process, which runs this program as `bench load NAME SIZE`
//! and prints one line of JSON when it is done.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{Read as _, Write as _, stdout};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rustix::process::{Pid, Signal, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::child::Child;
use super::events::folder_of;
use super::stop::Stop;

pub(super) mod asleep;
mod connections;
mod eater;
mod fork_storm;
mod hackbench;
mod kepler;
mod kind;
mod kinds;
mod mixed;
mod netflix;
mod object;
mod opens;
mod outcome;
mod ping_pong;
mod population;
mod proc_scan;
mod server;

pub(super) use kind::{Load, Subject};
pub(super) use outcome::Outcome;

use outcome::{children_ns, on_each_cpu, own_cpu_ns};

/// Time limit for a load. A load that takes longer is stuck.
const LIMIT: Duration = Duration::from_secs(300);

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    part: Part,
    /// Number of operations; for a part that runs until its input ends, its parameter
    size: String,
}

/// The parts that this program can play in a run of the bench.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(super) enum Part {
    PingPong,
    Hackbench,
    ForkStorm,
    Connections,
    Opens,
    Kinds,
    Redis,
    Nginx,
    /// Every kind of event, for the side-by-side run.
    Mixed,
    /// A process for the OOM killer.
    Eater,
    Population,
    /// Threads that sleep.
    Asleep,
    /// The other end of ping-pong.
    Echo,
    /// A process of the population.
    Sleeper,
    /// Holds a BPF object.
    Object,
    /// Holds a BPF object and reads its events.
    Netflix,
    /// Loads Kepler's BPF object and removes the rows of its maps.
    Kepler,
    /// Scans /proc, as the baseline for agents.
    ProcScan,
}

impl Part {
    /// Returns whether the part runs until its input closes. Such a part can clean up in any case,
    /// even if the bench is killed.
    fn ends_with_input(self) -> bool {
        use Part::{Asleep, Echo, Kepler, Netflix, Object, Population, ProcScan, Sleeper};
        matches!(
            self,
            Population | Asleep | Echo | Sleeper | Object | Netflix | Kepler | ProcScan
        )
    }
}

/// Runs the part given by the arguments.
pub(crate) fn run(args: &Args) -> Result<()> {
    if !args.part.ends_with_input() {
        set_parent_process_death_signal(Some(Signal::TERM)).context("ending with the bench")?;
    }
    let size = || args.size.parse::<u64>().context("the size is a number");
    let outcome = match args.part {
        Part::PingPong => ping_pong::run(size()?)?,
        Part::Hackbench => hackbench::run(size()?)?,
        Part::ForkStorm => fork_storm::run(size()?)?,
        Part::Connections => connections::run(size()?)?,
        Part::Opens => opens::run(size()?)?,
        Part::Kinds => kinds::run(size()?)?,
        Part::Redis => server::redis(size()?)?,
        Part::Nginx => server::nginx(size()?)?,
        Part::Mixed => return mixed::run(args.size.as_ref()),
        Part::Eater => return eater::run(args.size.as_ref()),
        Part::Population => return population::run(&args.size),
        Part::Asleep => return asleep::run(size()?),
        Part::Echo => return ping_pong::echo(size()? as usize),
        Part::Sleeper => return population::sleeper(size()?),
        Part::Object => return object::run(args.size.as_ref()),
        Part::Netflix => return netflix::run(args.size.as_ref()),
        Part::Kepler => return kepler::run(args.size.as_ref()),
        Part::ProcScan => return proc_scan::run(Duration::from_millis(size()?)),
    };
    writeln!(stdout(), "{}", outcome.to_json()).context("telling the outcome")
}

impl Load {
    /// Runs the load until it ends. The population has no end and cannot be run this way.
    pub(super) fn run(self, operations: u64, stop: &Stop) -> Result<Outcome> {
        let mut command = command(self.part(), &operations.to_string());
        command.stdin(Stdio::null());
        let (pid, text) = finish(&mut command, stop).context(self.name())?;
        let outcome =
            Outcome::from_json(&text).with_context(|| format!("the outcome of {}", self.name()))?;
        Ok(Outcome { pid, ..outcome })
    }
}

/// Runs the mixed load in its own network namespace. Returns its process, and the TCP counters of
/// that namespace.
pub(super) fn mixed(cgroup: &Path, stop: &Stop) -> Result<(u32, BTreeMap<String, u64>)> {
    let own = command(Part::Mixed, &cgroup.display().to_string());
    let mut command = Command::new("unshare");
    // The link leads to the running binary.
    command
        .args(["--net", "--"])
        .arg(format!("/proc/{}/exe", std::process::id()));
    let (pid, text) = finish(command.args(own.get_args()).stdin(Stdio::null()), stop)?;
    Ok((pid, serde_json::from_str(&text).context("the counters")?))
}

/// Runs a load until it ends. Returns its process and its output.
fn finish(command: &mut Command, stop: &Stop) -> Result<(u32, String)> {
    let mut child = Child::start(command.stdout(Stdio::piped()))?;
    let pid = child.pid();
    let text = printed(&mut child, stop);
    if text.is_err() {
        // The load was killed before it could clean up.
        drop(child);
        let _ = fs::remove_dir_all(folder_of(pid));
    }
    Ok((pid, text?))
}

fn printed(child: &mut Child, stop: &Stop) -> Result<String> {
    let status = child.wait(stop, LIMIT)?;
    ensure!(status.success(), "the load failed: {status}");
    let mut text = String::new();
    let pipe = child.pipes().stdout.as_mut().context("its output")?;
    pipe.read_to_string(&mut text)?;
    Ok(text)
}

/// Returns a command for a program that ends with the process that starts it, even if that process
/// is killed. The caller adds the arguments.
pub(super) fn tied(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.args(["tied", "--"]).arg(program);
    command
}

/// Returns a command that runs this program as a part of the bench. The link leads to the running
/// binary, even if the binary was rebuilt after the start.
fn command(part: Part, size: &str) -> Command {
    use clap::ValueEnum as _;
    let mut command = Command::new("/proc/self/exe");
    let value = part.to_possible_value();
    let name = value.as_ref().map_or("", |v| v.get_name());
    command.args(["load", name, size]);
    command
}

/// Returns the command for the population, which lives until its input closes.
pub(super) fn population(name: &str) -> Command {
    command(Part::Population, name)
}

/// Returns the command for `threads` sleeping threads, which live until the input closes.
pub(super) fn sleepers(threads: u64) -> Command {
    command(Part::Asleep, &threads.to_string())
}

/// Returns the command of a part that holds the BPF object at `path`.
pub(super) fn holder(part: Part, path: &Path) -> Command {
    command(part, &path.display().to_string())
}

/// Returns the command of a scanner of /proc with this period.
pub(super) fn proc_scan(period: Duration) -> Command {
    command(Part::ProcScan, &period.as_millis().to_string())
}

/// Pins the calling thread to a CPU.
fn pin(cpu: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).with_context(|| format!("staying on CPU {cpu}"))
}

/// Returns the last CPU that this process may use, because the first ones take most interrupts.
fn last_cpu() -> Result<usize> {
    let set = sched_getaffinity(None::<Pid>).context("the CPUs of this process")?;
    let last = (0..CpuSet::MAX_CPU).rev().find(|&cpu| set.is_set(cpu));
    last.context("no CPU is allowed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_report_their_operations() {
        let messages = hackbench::run(400).expect("hackbench");
        assert_eq!(messages.operations, 400);
        let storm = fork_storm::run(8).expect("fork storm");
        assert_eq!(storm.operations, 8);
        assert!(storm.elapsed_ns > 0);
    }
}
