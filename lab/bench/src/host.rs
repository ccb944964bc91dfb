//! Facts about the machine and its processes, from /proc and /sys.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use libbpf_rs::query::{ProgInfoIter, ProgInfoQueryOptions};

/// The machine and the source tree, for the record.
pub(super) struct Machine {
    pub(super) kernel: String,
    pub(super) processor: String,
    pub(super) cpus: usize,
    /// Load average of the last minute, before and after the run.
    pub(super) load_before: String,
    pub(super) load_after: String,
    /// The commit, followed by `+` if the tree differs from it.
    pub(super) commit: String,
}

/// Describes this machine and the source tree at `root`.
pub(super) fn describe(root: &Path, load_before: &str) -> Machine {
    let uname = rustix::system::uname();
    let text = |bytes: &std::ffi::CStr| bytes.to_string_lossy().into_owned();
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|l| l.strip_prefix("model name"));
    let processor = model.map_or("?", |m| m.trim_start_matches(['\t', ' ', ':']));
    Machine {
        kernel: format!("{} {}", text(uname.release()), text(uname.machine())),
        processor: processor.to_owned(),
        cpus: std::thread::available_parallelism().map_or(1, usize::from),
        load_before: load_before.to_owned(),
        load_after: load_average(),
        commit: commit(root).unwrap_or_else(|| "?".into()),
    }
}

fn commit(root: &Path) -> Option<String> {
    let git = |args: &[&str]| {
        let mut command = Command::new("git");
        command
            .args(["-c", "safe.directory=*"])
            .args(args)
            .current_dir(root);
        let output = command.output().ok().filter(|o| o.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let head = git(&["rev-parse", "--short", "HEAD"])?;
    let clean = git(&["status", "--porcelain", "--untracked-files=no"])?.is_empty();
    Some(if clean { head } else { format!("{head}+") })
}

/// Returns the number of runnable tasks, averaged over the last minute.
pub(super) fn load_average() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or("?").to_owned()
}

/// Returns the context switches of all CPUs since boot.
pub(super) fn switches() -> Result<u64> {
    let text = fs::read_to_string("/proc/stat").context("/proc/stat")?;
    let count = text.lines().find_map(|l| l.strip_prefix("ctxt "));
    let count = count.and_then(|n| n.trim().parse().ok());
    count.context("/proc/stat has no ctxt")
}

/// Returns the CPU time of all live threads of a process, in nanoseconds.
pub(super) fn cpu_ns(pid: u32) -> Result<u64> {
    let folder = format!("/proc/{pid}/task");
    let mut sum = 0;
    for task in fs::read_dir(&folder).with_context(|| folder.clone())? {
        // A thread may end after it was listed.
        let Ok(text) = fs::read_to_string(task?.path().join("schedstat")) else {
            continue;
        };
        let first = text.split(' ').next().and_then(|n| n.parse::<u64>().ok());
        sum += first.unwrap_or(0);
    }
    Ok(sum)
}

/// Returns a number from `/proc/PID/status`.
pub(super) fn status(pid: u32, field: &str) -> Result<u64> {
    let path = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&path).with_context(|| path.clone())?;
    let line = text
        .lines()
        .find_map(|l| l.strip_prefix(field)?.strip_prefix(':'));
    let number = line.and_then(|l| l.split_whitespace().next()?.parse().ok());
    number.with_context(|| format!("{path} has no {field}"))
}

/// Returns the voluntary and involuntary switches of a process's main thread.
pub(super) fn switches_of(pid: u32) -> Result<u64> {
    Ok(status(pid, "voluntary_ctxt_switches")? + status(pid, "nonvoluntary_ctxt_switches")?)
}

/// Cost of a BPF program so far. The cost only grows while [`Statistics`] are enabled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) ns: u64,
    pub(super) count: u64,
}

/// Returns the BPF programs to which a process holds descriptors, by program id.
pub(super) fn programs(pid: u32) -> Result<BTreeMap<u32, Run>> {
    let folder = format!("/proc/{pid}/fdinfo");
    let mut programs = BTreeMap::new();
    for file in fs::read_dir(&folder).with_context(|| folder.clone())? {
        let text = fs::read_to_string(file?.path()).unwrap_or_default();
        programs.extend(program(&text));
    }
    Ok(programs)
}

/// Parses the fdinfo of a program. The fdinfo of a link also contains a program's id, but no times,
/// so the result is `None`.
fn program(fdinfo: &str) -> Option<(u32, Run)> {
    let field = |name: &str| {
        let line = fdinfo
            .lines()
            .find_map(|l| l.strip_prefix(name)?.strip_prefix(':'));
        line?.trim().parse::<u64>().ok()
    };
    let run = Run {
        ns: field("run_time_ns")?,
        count: field("run_cnt")?,
    };
    Some((field("prog_id")?.try_into().ok()?, run))
}

/// Returns the names of all loaded programs, by id. The kernel keeps 15 characters.
pub(super) fn program_names() -> BTreeMap<u32, String> {
    let all = ProgInfoIter::with_query_opts(ProgInfoQueryOptions::default());
    all.map(|p| (p.id, p.name.to_string_lossy().into_owned()))
        .collect()
}

/// Returns the number of descriptors with which a process attaches to the kernel: BPF objects and
/// perf events.
pub(super) fn hooks(pid: u32) -> usize {
    let files = fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten();
    let links = files.flatten().filter_map(|f| fs::read_link(f.path()).ok());
    links
        .filter(|l| {
            let name = l.to_string_lossy();
            name.starts_with("anon_inode:") && (name.contains("bpf") || name.contains("perf"))
        })
        .count()
}

const STATISTICS: &str = "/proc/sys/kernel/bpf_stats_enabled";

/// Enables the kernel's BPF statistics until dropped. The statistics cost about 20 ns per run.
pub(super) struct Statistics {
    before: String,
}

impl Statistics {
    pub(super) fn on() -> Result<Self> {
        let before = fs::read_to_string(STATISTICS).context(STATISTICS)?;
        fs::write(STATISTICS, "1").context(STATISTICS)?;
        Ok(Self { before })
    }

    /// Returns whether the statistics are enabled, which makes every program appear slower.
    pub(super) fn are_on() -> bool {
        fs::read_to_string(STATISTICS).is_ok_and(|text| text.trim() != "0")
    }
}

impl Drop for Statistics {
    fn drop(&mut self) {
        if let Err(error) = fs::write(STATISTICS, &self.before) {
            super::say(&format!("{STATISTICS} stays on: {error}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_is_read_from_fdinfo_and_a_link_is_ignored() {
        let prog = "pos:\t0\nprog_type:\t26\nprog_id:\t433\nrun_time_ns:\t900\nrun_cnt:\t3\n";
        assert_eq!(program(prog), Some((433, Run { ns: 900, count: 3 })));
        assert_eq!(program("link_type:\ttracing\nprog_id:\t433\n"), None);
    }

    #[test]
    fn kernel_figures_are_readable() {
        let me = std::process::id();
        assert!(switches().expect("/proc/stat") > 0);
        assert!(cpu_ns(me).expect("schedstat") > 0);
        assert!(status(me, "VmRSS").expect("VmRSS") > 0);
        assert!(status(me, "VmNothing").is_err());
    }
}
