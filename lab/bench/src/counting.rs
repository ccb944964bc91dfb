//! Measures the cost of counting one event with the agent's histograms and with bpftrace, for the
//! same questions. Also measures how long each tool takes to attach.
//!
//! The load is a system call that does nothing else. Each question is measured between two runs of
//! the load alone, in turn. The result is the minimum over all rounds, because other load on the
//! machine only makes a round slower.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::child::Child;
use super::say;
use super::stop::{Interrupted, Stop};

/// Calls per round.
const CALLS: u32 = 1_000_000;
const ROUNDS: usize = 7;
/// How long a tool may take to attach. A tool that needs longer counts as failed.
const PATIENCE: Duration = Duration::from_secs(20);
/// Time between the creation of a probe's descriptor and the first event.
const SETTLE: Duration = Duration::from_millis(300);
/// Mounts tracefs for bpftrace alone, which reads event formats from it.
const WITH_TRACEFS: &str =
    "mount -t tracefs nodev /sys/kernel/tracing 2>/dev/null; exec bpftrace -e \"$0\"";
const EVENT: &str = "syscalls:sys_enter_getppid";

/// A question in the language of each tool.
struct Question {
    name: &'static str,
    trigger: &'static str,
    script: &'static str,
}

const QUESTIONS: [Question; 3] = [
    Question {
        name: "count by key",
        trigger: "keys=common_pid",
        script: "{ @[tid] = count(); }",
    },
    Question {
        name: "log2 by key",
        trigger: "keys=common_pid,common_timestamp.log2",
        script: "{ @[tid] = hist(nsecs); }",
    },
    Question {
        name: "filter, no match",
        trigger: "keys=common_pid if common_pid == 1",
        script: "/ tid == 1 / { @[tid] = count(); }",
    },
];

/// The cost for a tool to answer a question.
#[derive(Clone, Copy)]
struct Cost {
    ns: f64,
    start: Duration,
}

/// Measures the cost of each question and prints a table.
pub(super) fn run(noctule: &Path, stop: &Stop, out: &mut impl Write) -> Result<()> {
    let has_peer = Command::new("bpftrace").arg("--version").output().is_ok();
    if !has_peer {
        say("bpftrace is not installed: only the agent is measured");
    }
    writeln!(
        out,
        "\nns per event that is counted, over {:.0} ns of the call alone; start: to attached\n",
        nanoseconds_per_call()
    )?;
    writeln!(
        out,
        "{:<18}{:>9}{:>9}{:>10}{:>13}{:>13}",
        "question", "noctule", "start", "bpftrace", "start", "ratio"
    )?;
    for question in &QUESTIONS {
        let ours = || {
            let mut command = Command::new(noctule);
            command.args(["hist", EVENT, question.trigger]);
            command
        };
        let theirs = || {
            let script = format!("tracepoint:{EVENT} {}", question.script);
            let mut command = Command::new("unshare");
            command.args(["--mount", "sh", "-c", WITH_TRACEFS, &script]);
            command
        };
        let (mut least, mut peer) = (None, None);
        for _ in 0..ROUNDS {
            stop.check()?;
            keep_least(&mut least, cost(ours(), stop)?);
            if has_peer {
                match cost(theirs(), stop) {
                    Ok(cost) => keep_least(&mut peer, cost),
                    Err(error) if error.is::<Interrupted>() => return Err(error),
                    Err(error) => say(&format!("bpftrace: {error:#}")),
                }
            }
        }
        let cells = |cost: &Option<Cost>| match cost {
            None => ("-".to_owned(), "-".to_owned()),
            Some(cost) => (
                format!("{:.0}", cost.ns),
                format!("{:.1}ms", cost.start.as_secs_f64() * 1e3),
            ),
        };
        let ratio = least.as_ref().zip(peer.as_ref());
        let ratio = ratio.map_or("-".to_owned(), |(a, b)| format!("{:.2}", a.ns / b.ns));
        let ((a, b), (c, d)) = (cells(&least), cells(&peer));
        writeln!(
            out,
            "{:<18}{a:>9}{b:>9}{c:>10}{d:>13}{ratio:>13}",
            question.name
        )?;
    }
    Ok(())
}

fn keep_least(least: &mut Option<Cost>, cost: Cost) {
    let least = least.get_or_insert(Cost {
        ns: f64::INFINITY,
        start: Duration::MAX,
    });
    least.ns = least.ns.min(cost.ns);
    least.start = least.start.min(cost.start);
}

/// Returns the minimum time per call of three runs.
fn nanoseconds_per_call() -> f64 {
    let one = || {
        let began = Instant::now();
        for _ in 0..CALLS {
            let _ = rustix::process::getppid();
        }
        began.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
    };
    (0..3).map(|_| one()).fold(f64::INFINITY, f64::min)
}

/// Returns the tool's cost per call, and how long it took to attach.
fn cost(mut command: Command, stop: &Stop) -> Result<Cost> {
    let alone = nanoseconds_per_call();
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let began = Instant::now();
    let mut child = Child::start(&mut command)?;
    while !is_attached(child.pid()) {
        if child.ended()?.is_some() || began.elapsed() > PATIENCE {
            bail!("{} does not attach", command.get_program().display());
        }
        std::thread::sleep(Duration::from_micros(100));
    }
    let start = began.elapsed();
    stop.sleep(SETTLE)?;
    let beside = nanoseconds_per_call();
    drop(child);
    Ok(Cost {
        ns: beside - alone,
        start,
    })
}

/// Returns whether the process holds a perf event or a BPF link, which shows that a probe is
/// attached.
fn is_attached(pid: u32) -> bool {
    let is_probe = |name: &OsString| {
        let name = name.to_string_lossy();
        name.contains("perf_event") || name.contains("bpf_link") || name.contains("bpf-link")
    };
    let Ok(all) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return false;
    };
    all.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
        .any(|target| is_probe(&target.into_os_string()))
}
