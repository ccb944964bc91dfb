//! Contenders run together with the loads. The contenders are the agent, its peers, and the
//! references.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::events::Format;
use super::load::{self, Load, Part, Subject};
use super::stop::Stop;

mod all;
mod bed;
mod launch;
mod running;
mod tool;

pub(super) use all::{ALL, PEERS, Peer, STREAM_ALL};
pub(super) use bed::Bed;
pub(super) use running::Running;
pub(super) use tool::{is_installed, with_sbin};

use launch::Launch;
use tool::Tool;

/// The agent with its default configuration, which the bars judge.
pub(super) const OURS: &str = "noctule";
/// No contender, which is the baseline for slowdowns.
pub(super) const NONE: &str = "none";
/// An attached empty program, which is the baseline for costs.
pub(super) const EMPTY: &str = "empty";
/// Empty programs on the hooks that a server's request passes. The cost of these programs is the
/// minimum cost of tracing a server.
pub(super) const EMPTY_HOOKS: &str = "empty_hooks";
/// Like [`EMPTY_HOOKS`], with an account for each socket. The cost of this contender is the minimum
/// cost of knowing which process owns a socket.
pub(super) const EMPTY_ACCOUNTS: &str = "empty_accounts";
/// The minimum costs of tracing a server.
pub(super) const FLOORS: [&str; 2] = [EMPTY_HOOKS, EMPTY_ACCOUNTS];
/// Reads /proc once a second, which is the baseline for agents.
pub(super) const SCAN: &str = "proc-scan";
/// Reimplements the structure that Netflix describes in "Noisy Neighbor Detection with eBPF".
pub(super) const NETFLIX: &str = "netflix";
/// Reimplements what Kepler v0.7.12 does at a switch.
pub(super) const KEPLER: &str = "kepler";
/// `runqlat` of libbpf-tools.
pub(super) const RUNQLAT: &str = "runqlat";
/// The agent without events, which is the baseline for the cost of events.
pub(super) const NO_EVENTS: &str = "noctule_no_events";
/// `noctule events` with its default options.
pub(super) const STREAM: &str = "noctule_stream";

/// Period between two samples of /proc.
const PERIOD: Duration = Duration::from_secs(1);

#[derive(Clone, Copy)]
pub(super) struct Contender {
    pub(super) name: &'static str,
    kind: Kind,
    /// The loads for which the contender is relevant.
    subjects: &'static [Subject],
}

#[derive(Clone, Copy)]
enum Kind {
    Nothing,
    /// `bench/bpf/NAME.bpf.c`, loaded by this part of the bench.
    Own(Part, &'static str),
    ProcScan,
    /// The agent with this configuration.
    Noctule(&'static str),
    /// `noctule events` with these arguments, and a process that reads its output.
    Stream(&'static [&'static str]),
    /// Third-party tools that run at the same time.
    Tools(&'static [Tool]),
}

impl Contender {
    /// Describes the command for the report.
    pub(super) fn command_line(&self, bed: &Bed) -> String {
        let noctule = bed.noctule.display();
        match self.kind {
            Kind::Nothing => "the load alone".into(),
            Kind::Own(_, words) => format!("bench/bpf/{}.bpf.c: {words}", self.name),
            Kind::ProcScan => "/proc/PID/stat of every process, read once a second".into(),
            Kind::Noctule(config) => {
                let line = format!("{noctule} run {}", config.replace('\n', " "));
                line.trim_end().to_owned()
            }
            Kind::Stream(arguments) => {
                let line = format!("{noctule} events --json {}", arguments.join(" "));
                line.trim_end().to_owned()
            }
            Kind::Tools(tools) => {
                let line = |tool: &Tool| format!("{} {}", tool.program, tool.arguments.join(" "));
                let lines: Vec<String> = tools.iter().map(line).collect();
                lines.join("; ").trim_end().to_owned()
            }
        }
    }

    /// Returns whether the contender is the agent. The targets apply only to the agent.
    pub(super) fn is_noctule(&self) -> bool {
        matches!(self.kind, Kind::Noctule(_) | Kind::Stream(_))
    }

    /// Returns whether the contender serves /metrics.
    fn serves(&self) -> bool {
        matches!(self.kind, Kind::Noctule(_))
    }

    /// Returns whether the contender attaches anything to the kernel.
    fn attaches(&self) -> bool {
        !matches!(self.kind, Kind::ProcScan)
    }

    /// Returns whether the contender runs with this load. A contender that attaches nothing cannot
    /// slow a load down, and "none" is only the baseline for slowdowns.
    pub(super) fn takes_part(&self, load: Load) -> bool {
        let fits = match load {
            load if load.lasts() => !matches!(self.kind, Kind::Nothing),
            _ => self.attaches(),
        };
        fits && self.subjects.contains(&load.subject())
    }

    /// Returns whether the contender is a process that collects data, in the form published by its
    /// authors.
    pub(super) fn is_agent(&self) -> bool {
        !matches!(self.kind, Kind::Nothing | Kind::Own(..))
    }

    /// Returns the first line of the tool's version output.
    pub(super) fn version(&self, bed: &Bed) -> Option<String> {
        let program = match self.kind {
            Kind::Tools(tools) => Path::new(tools.first()?.program),
            Kind::Noctule(_) | Kind::Stream(_) => &bed.noctule,
            _ => return None,
        };
        let mut command = Command::new(program);
        let output = with_sbin(&mut command).arg("--version").output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout);
        text.lines().next().map(|line| line.trim().to_owned())
    }

    /// Returns the programs to start.
    fn launches(&self, bed: &Bed) -> Result<Vec<Launch>> {
        let one = |command| Ok(vec![Launch::silent(command)]);
        match self.kind {
            Kind::Nothing => Ok(Vec::new()),
            // These programs end when their input closes.
            Kind::Own(part, _) => match bed.objects.get(self.name) {
                Some(Ok(object)) => one(load::holder(part, object)),
                Some(Err(reason)) => bail!("{reason}"),
                None => bail!("its object was not compiled"),
            },
            Kind::ProcScan => one(load::proc_scan(PERIOD)),
            Kind::Noctule(config) => {
                let file = bed.folder.join(format!("{}.toml", self.name));
                fs::write(&file, config).with_context(|| file.display().to_string())?;
                let mut command = load::tied(&bed.noctule);
                command.arg("--config").arg(file);
                command.args(["run", "--listen", "127.0.0.1:0"]);
                Ok(vec![Launch::serving(command)])
            }
            Kind::Stream(arguments) => {
                let mut command = load::tied(&bed.noctule);
                command.args(["events", "--json"]).args(arguments);
                Ok(vec![Launch::reporting(command, Format::Noctule)])
            }
            Kind::Tools(tools) => tools.iter().map(Tool::launch).collect(),
        }
    }

    /// Starts the contender and waits until it is attached. The contender "none" starts nothing.
    pub(super) fn start(&self, bed: &Bed, stop: &Stop) -> Result<Running> {
        let launches = self.launches(bed)?;
        let errors = |n| bed.folder.join(format!("{}.{n}.stderr", self.name));
        let mut running = Running::default();
        for (number, launch) in launches.into_iter().enumerate() {
            running.add(launch, errors(number))?;
        }
        running.wait(self, stop)?;
        Ok(running)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    #[test]
    fn names_are_unique_and_documented() {
        let names: BTreeSet<&str> = ALL.iter().map(|c| c.name).collect();
        assert_eq!(names.len(), ALL.len());
        let page = include_str!("../../../docs/bench.md");
        for name in [
            NONE,
            EMPTY,
            EMPTY_HOOKS,
            SCAN,
            NETFLIX,
            KEPLER,
            RUNQLAT,
            OURS,
            NO_EVENTS,
            STREAM,
        ] {
            assert!(names.contains(name), "{name}");
        }
        let ours = |c: &&Contender| c.is_noctule() || matches!(c.kind, Kind::Own(..));
        for name in ALL.iter().filter(ours).map(|c| c.name) {
            assert!(page.contains(&format!("`{name}`")), "docs/bench.md: {name}");
        }
        // Every contender is relevant for some load.
        for contender in ALL {
            let loads = Load::ALL.into_iter();
            let beside = loads.filter(|&load| contender.takes_part(load));
            assert!(beside.count() > 0, "{}", contender.name);
        }
        for load in Load::ALL {
            let name = load.name();
            assert!(page.contains(&format!("`{name}`")), "docs/bench.md: {name}");
        }
    }

    #[test]
    fn agent_variant_gets_its_configuration() {
        let folder = std::env::temp_dir().join(format!("noctule-bench-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let bed = Bed {
            noctule: "noctule".into(),
            folder: folder.clone(),
            objects: BTreeMap::new(),
        };
        for contender in ALL {
            let Kind::Noctule(config) = contender.kind else {
                continue;
            };
            let launches = contender.launches(&bed).expect("a command");
            let arguments: Vec<_> = launches[0].command.get_args().collect();
            // The arguments start with `tied -- PROGRAM`.
            let arguments = &arguments[3..];
            let file = folder.join(format!("{}.toml", contender.name));
            assert_eq!(arguments[0], "--config");
            assert_eq!(arguments[1], file);
            assert_eq!(fs::read_to_string(&file).expect("the file"), config);
            toml::from_str::<toml::Table>(config).expect("TOML");
        }
        fs::remove_dir_all(folder).expect("the folder goes");
    }

    #[test]
    fn missing_tool_is_named() {
        let tool = Tool {
            program: "no-such-tool",
            arguments: &[],
            package: "tools",
            needs_tracefs: true,
            format: None,
        };
        let error = tool.launch().err().expect("not there").to_string();
        assert_eq!(error, "no-such-tool is not installed (Debian: tools)");
    }
}
