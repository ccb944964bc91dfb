//! What runs beside the loads: the agent, its peers, and the references.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::TryRecvError;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

use super::child::Child;
use super::load::Part;
use super::population::lines;
use super::stop::Stop;
use super::{host, load};

/// The agent as it comes: the bars are for this one.
pub(super) const OURS: &str = "noctule";
/// Runs nothing: the reference of slowdowns.
pub(super) const NONE: &str = "none";
/// An attached program without content: the reference of costs.
pub(super) const EMPTY: &str = "empty";
/// Reads /proc once a second: the reference of agents.
pub(super) const SCAN: &str = "proc-scan";
/// The structure of Netflix's article, kept by us.
pub(super) const NETFLIX: &str = "netflix";
/// What Kepler v0.7.12 does at a switch, kept by us.
pub(super) const KEPLER: &str = "kepler";
/// Of libbpf-tools.
pub(super) const RUNQLAT: &str = "runqlat";

/// How long a contender may take until everything of it is attached.
const START: Duration = Duration::from_secs(30);
/// Attached when the number of its hooks has not changed for this long.
const STABLE: Duration = Duration::from_millis(300);
/// In its second second the agent has BPF statistics on for its own figures, later in one of
/// thirty: a load that starts at once would see only the exception.
const OWN_WINDOW: Duration = Duration::from_millis(2300);
/// Between two samples of /proc.
const PERIOD: Duration = Duration::from_secs(1);

/// Mounts tracefs where bpftrace expects it, for bpftrace alone: the machine stays as it is.
const WITH_TRACEFS: &str = "mount -t debugfs none /sys/kernel/debug 2>/dev/null; \
    mount -t tracefs none /sys/kernel/tracing 2>/dev/null; exec \"$0\" \"$@\"";

/// The agent with nothing but CPU time and switches.
const MINIMAL: &str =
    "[collect]\nhardware_counters = false\npage_cache = false\nsoftirqs = false\nwaits = \"off\"\n";
/// The agent without waits: CPU accounting only.
const CPU_ONLY: &str = "[collect]\nwaits = \"off\"\n";
/// The agent with waits as the scheduler itself keeps them.
const LOW_COST: &str = "[collect]\nwaits = \"low_cost\"\n";

/// One of the things to compare.
#[derive(Clone, Copy)]
pub(super) struct Contender {
    pub(super) name: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    Nothing,
    /// `bench/NAME.bpf.c`, held by this part of the bench.
    Own(Part, &'static str),
    ProcScan,
    /// The agent with this configuration.
    Noctule(&'static str),
    Tool(Tool),
}

/// A program of somebody else.
#[derive(Clone, Copy)]
struct Tool {
    program: &'static str,
    arguments: &'static [&'static str],
    /// Debian's package.
    package: &'static str,
    needs_tracefs: bool,
}

impl Tool {
    fn command(&self) -> Result<Command> {
        let Self {
            program, package, ..
        } = self;
        ensure!(
            is_installed(program),
            "{program} is not installed (Debian: {package})"
        );
        let mut command = if self.needs_tracefs {
            let mut command = Command::new("unshare");
            command.args(["--mount", "--propagation", "private", "sh", "-c"]);
            command.args([WITH_TRACEFS, program]);
            command
        } else {
            Command::new(program)
        };
        command.args(self.arguments);
        Ok(command)
    }
}

/// In the order of their turns.
pub(super) const ALL: [Contender; 13] = [
    Contender {
        name: NONE,
        kind: Kind::Nothing,
    },
    Contender {
        name: OURS,
        kind: Kind::Noctule(""),
    },
    Contender {
        name: "noctule_low_cost",
        kind: Kind::Noctule(LOW_COST),
    },
    Contender {
        name: "noctule_cpu",
        kind: Kind::Noctule(CPU_ONLY),
    },
    Contender {
        name: "noctule-minimal",
        kind: Kind::Noctule(MINIMAL),
    },
    Contender {
        name: EMPTY,
        kind: Kind::Own(Part::Object, "nothing, on sched_switch"),
    },
    Contender {
        name: NETFLIX,
        kind: Kind::Own(Part::Netflix, "stamps in a hash, events through a ring"),
    },
    Contender {
        name: KEPLER,
        kind: Kind::Own(Part::Kepler, "rows in a hash, counters in arrays"),
    },
    Contender {
        name: RUNQLAT,
        kind: Kind::Tool(Tool {
            program: "runqlat",
            arguments: &["1"],
            package: "libbpf-tools",
            needs_tracefs: false,
        }),
    },
    Contender {
        name: "cpudist",
        kind: Kind::Tool(Tool {
            program: "cpudist",
            arguments: &["1"],
            package: "libbpf-tools",
            needs_tracefs: false,
        }),
    },
    Contender {
        name: "bpftrace",
        kind: Kind::Tool(Tool {
            program: "bpftrace",
            arguments: &["-e", "tracepoint:sched:sched_switch { @[pid] = count(); }"],
            package: "bpftrace",
            needs_tracefs: true,
        }),
    },
    Contender {
        name: "perf-stat",
        kind: Kind::Tool(Tool {
            program: "perf",
            arguments: &[
                "stat",
                "-a",
                "-I",
                "1000",
                "-e",
                "context-switches,cpu-clock",
            ],
            package: "linux-perf",
            needs_tracefs: false,
        }),
    },
    Contender {
        name: SCAN,
        kind: Kind::ProcScan,
    },
];

/// What the contenders need.
pub(super) struct Bed {
    pub(super) noctule: PathBuf,
    folder: PathBuf,
    /// By contender: the object, or why there is none.
    objects: BTreeMap<&'static str, Result<PathBuf, String>>,
}

impl Bed {
    /// Compiles what is to be compiled; what cannot be makes one contender absent.
    pub(super) fn prepare(root: &Path, folder: &Path, noctule: PathBuf) -> Result<Self> {
        let headers = write_headers(folder)?;
        let own = |contender: &Contender| matches!(contender.kind, Kind::Own(..));
        let object = |contender: Contender| {
            let source = root.join(format!("bench/{}.bpf.c", contender.name));
            let object = folder.join(format!("{}.bpf.o", contender.name));
            let compiled = compile(&source, &headers, &object);
            let reason = |error| format!("{error:#}");
            (contender.name, compiled.map(|()| object).map_err(reason))
        };
        Ok(Self {
            noctule,
            folder: folder.to_owned(),
            objects: ALL.into_iter().filter(own).map(object).collect(),
        })
    }
}

/// The headers of the libbpf that is linked; answers with the folder for `-I`.
fn write_headers(folder: &Path) -> Result<PathBuf> {
    let include = folder.join("include");
    let headers = include.join("bpf");
    fs::create_dir_all(&headers).with_context(|| headers.display().to_string())?;
    for (name, text) in libbpf_rs::libbpf_sys::API_HEADERS {
        let file = headers.join(name);
        fs::write(&file, text).with_context(|| file.display().to_string())?;
    }
    Ok(include)
}

/// With the options of the agent's own programs.
fn compile(source: &Path, headers: &Path, object: &Path) -> Result<()> {
    let clang = std::env::var_os("CLANG").unwrap_or_else(|| "clang".into());
    let output = Command::new(clang)
        .args(["-g", "-O2", "-target", "bpf", "-mcpu=v3"])
        .args(["-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror"])
        .arg("-I")
        .arg(headers)
        .arg("-c")
        .arg(source)
        .arg("-o")
        .arg(object)
        .output()
        .context("starting clang")?;
    let words = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "clang: {}", words.trim());
    Ok(())
}

impl Contender {
    /// What is run, for the reader.
    pub(super) fn command_line(&self, bed: &Bed) -> String {
        match self.kind {
            Kind::Nothing => "the load alone".into(),
            Kind::Own(_, words) => format!("bench/{}.bpf.c: {words}", self.name),
            Kind::ProcScan => "/proc/PID/stat of every process, read once a second".into(),
            Kind::Noctule(config) => {
                let config = config.replace('\n', " ");
                let line = format!("{} run {config}", bed.noctule.display());
                line.trim_end().to_owned()
            }
            Kind::Tool(tool) => format!("{} {}", tool.program, tool.arguments.join(" ")),
        }
    }

    /// Whether it is the agent, to which the targets apply.
    pub(super) fn is_noctule(&self) -> bool {
        matches!(self.kind, Kind::Noctule(_))
    }

    /// Whether it takes part in the loads: what attaches nothing slows nothing down.
    pub(super) fn attaches(&self) -> bool {
        !matches!(self.kind, Kind::ProcScan)
    }

    /// Whether it is a process that collects something, as its makers wrote it.
    pub(super) fn is_agent(&self) -> bool {
        !matches!(self.kind, Kind::Nothing | Kind::Own(..))
    }

    /// Whether it is nothing at all.
    pub(super) fn is_nothing(&self) -> bool {
        matches!(self.kind, Kind::Nothing)
    }

    /// First line of what the tool says about its version.
    pub(super) fn version(&self, bed: &Bed) -> Option<String> {
        let program = match self.kind {
            Kind::Tool(tool) => Path::new(tool.program),
            Kind::Noctule(_) => &bed.noctule,
            _ => return None,
        };
        let mut command = Command::new(program);
        let output = with_sbin(&mut command).arg("--version").output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout);
        text.lines().next().map(|line| line.trim().to_owned())
    }

    fn command(&self, bed: &Bed) -> Result<Option<Command>> {
        let mut command = match self.kind {
            Kind::Nothing => return Ok(None),
            Kind::Own(part, _) => match bed.objects.get(self.name) {
                Some(Ok(object)) => load::holder(part, object),
                Some(Err(reason)) => bail!("{reason}"),
                None => bail!("its object was not compiled"),
            },
            Kind::ProcScan => load::proc_scan(PERIOD),
            Kind::Noctule(config) => {
                let file = bed.folder.join(format!("{}.toml", self.name));
                fs::write(&file, config).with_context(|| file.display().to_string())?;
                let mut command = Command::new(&bed.noctule);
                command.arg("--config").arg(file);
                command.args(["run", "--listen", "127.0.0.1:0"]);
                command
            }
            Kind::Tool(tool) => tool.command()?,
        };
        // The parts of this program end with their input; the others take none.
        let own = matches!(self.kind, Kind::Own(..) | Kind::ProcScan);
        command.stdin(if own { Stdio::piped() } else { Stdio::null() });
        let listens = self.is_noctule();
        command.stdout(if listens {
            Stdio::piped()
        } else {
            Stdio::null()
        });
        with_sbin(&mut command);
        Ok(Some(command))
    }

    /// Starts it and waits until it is attached; `None` for the contender that is nothing.
    pub(super) fn start(&self, bed: &Bed, stop: &Stop) -> Result<Option<Running>> {
        let Some(mut command) = self.command(bed)? else {
            return Ok(None);
        };
        let errors = bed.folder.join(format!("{}.stderr", self.name));
        let file = File::create(&errors).with_context(|| errors.display().to_string())?;
        let mut child = Child::start(command.stderr(file))?;
        let mut running = Running {
            address: None,
            hooks: 0,
            child: {
                let lines = child.pipes().stdout.take().map(lines);
                Attaching { child, lines }
            },
        };
        let started = running.wait(self, stop);
        if let Err(error) = started {
            let text = fs::read_to_string(&errors).unwrap_or_default();
            let words: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
            return match words.last() {
                Some(last) => Err(error.context((*last).to_owned())),
                None => Err(error),
            };
        }
        Ok(Some(running))
    }
}

/// Tools for administrators are in folders that a user's PATH may lack.
fn with_sbin(command: &mut Command) -> &mut Command {
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin"))
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut folders = path.split(':').chain(["/usr/sbin", "/sbin"]);
    folders.any(|folder| Path::new(folder).join(program).is_file())
}

/// A contender at work; ends with this.
pub(super) struct Running {
    child: Attaching,
    hooks: usize,
    /// Where it serves /metrics.
    pub(super) address: Option<String>,
}

struct Attaching {
    child: Child,
    lines: Option<std::sync::mpsc::Receiver<String>>,
}

impl Running {
    pub(super) fn pid(&self) -> u32 {
        self.child.child.pid()
    }

    /// Fails when it has ended.
    pub(super) fn check(&mut self) -> Result<()> {
        match self.child.child.ended()? {
            Some(status) => bail!("it has ended: {status}"),
            None => Ok(()),
        }
    }

    fn wait(&mut self, contender: &Contender, stop: &Stop) -> Result<()> {
        if !contender.attaches() {
            stop.sleep(STABLE)?;
            return self.check();
        }
        let mut since = std::time::Instant::now();
        let ready = stop.until(START, || {
            self.check()?;
            self.read_lines()?;
            let hooks = host::hooks(self.pid());
            let listens = self.address.is_some() || !contender.is_noctule();
            if hooks != self.hooks || hooks == 0 || !listens {
                self.hooks = hooks;
                since = std::time::Instant::now();
            }
            Ok((since.elapsed() >= STABLE).then_some(()))
        })?;
        ready.with_context(|| format!("not attached after {} s", START.as_secs()))?;
        if contender.is_noctule() {
            stop.sleep(OWN_WINDOW)?;
        }
        Ok(())
    }

    /// Looks for the line in which the agent tells its address.
    fn read_lines(&mut self) -> Result<()> {
        let Some(lines) = &self.child.lines else {
            return Ok(());
        };
        loop {
            match lines.try_recv() {
                Ok(line) => {
                    let after = line.split_once(" on http://").map(|(_, rest)| rest);
                    let address = after.and_then(|rest| rest.strip_suffix("/metrics"));
                    self.address = address.map(str::to_owned).or(self.address.take());
                }
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return Ok(()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_references_exist_and_the_page_lists_what_is_ours() {
        let names: BTreeSet<&str> = ALL.iter().map(|c| c.name).collect();
        assert_eq!(names.len(), ALL.len());
        let page = include_str!("../../../docs/bench.md");
        for name in [NONE, EMPTY, SCAN, NETFLIX, KEPLER, RUNQLAT, OURS] {
            assert!(names.contains(name), "{name}");
        }
        let ours = |c: &&Contender| c.is_noctule() || matches!(c.kind, Kind::Own(..));
        for name in ALL.iter().filter(ours).map(|c| c.name) {
            assert!(page.contains(&format!("`{name}`")), "docs/bench.md: {name}");
        }
        for load in load::Load::ALL {
            let name = load.name();
            assert!(page.contains(&format!("`{name}`")), "docs/bench.md: {name}");
        }
    }

    #[test]
    fn a_variant_of_the_agent_gets_its_configuration() {
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
            let command = contender.command(&bed).expect("a command").expect("runs");
            let arguments: Vec<_> = command.get_args().collect();
            let file = folder.join(format!("{}.toml", contender.name));
            assert_eq!(arguments[0], "--config");
            assert_eq!(arguments[1], file);
            assert_eq!(fs::read_to_string(&file).expect("the file"), config);
            toml::from_str::<toml::Table>(config).expect("TOML");
        }
        fs::remove_dir_all(folder).expect("the folder goes");
    }

    #[test]
    fn what_is_not_installed_is_named() {
        let tool = Tool {
            program: "no-such-tool",
            arguments: &[],
            package: "tools",
            needs_tracefs: true,
        };
        let error = tool.command().expect_err("not there").to_string();
        assert_eq!(error, "no-such-tool is not installed (Debian: tools)");
    }
}
