//! Reads processes that are in /proc but hidden from tracing programs. The CPU time of hidden
//! processes is read from their CPU clocks, so that it is not counted as interrupts and steal.

use std::collections::{HashMap, HashSet};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use noctule_kernel::{
    Facts, Hierarchy, Snapshot, TaskSample, Topology, process_cpu_ns, sample_flag,
};
use noctule_model::{Counter, FeatureId};
use procfs::process::{ProcState, Process};

/// The feature that reports which processes tracing programs cannot see.
pub(super) const FEATURE: FeatureId = FeatureId::AllProcesses;

/// Interval between searches for hidden processes.
const LOOK_NS: u64 = 60_000_000_000;

/// Maximum number of hidden processes to read in each batch; each takes about 20 µs.
const MOST: usize = 64;

/// Maximum number of hidden processes to name in the reason.
const NAMED: usize = 4;

pub(super) struct Hidden {
    /// Mount point of procfs.
    proc: PathBuf,
    /// The hierarchy of the cgroups to charge. `None` if PIDs in /proc differ from PIDs of the
    /// kernel side.
    hierarchy: Option<Hierarchy>,
    due_ns: u64,
    /// Processes that were missing in the last search. A process that is just starting or exiting
    /// is missing only once.
    suspects: HashMap<u32, Used>,
    hidden: HashMap<u32, Used>,
    changed: bool,
}

/// A hidden process, and how much of its CPU time was already reported.
struct Used {
    /// Start of the process in clock ticks since boot. Together with the PID it identifies a
    /// process.
    start: u64,
    name: String,
    cpu_ns: u64,
}

impl Hidden {
    pub(super) fn new(facts: &Facts) -> Self {
        Self {
            proc: facts.roots.proc.clone(),
            hierarchy: (!facts.pid_namespace).then(|| facts.hierarchy.clone()),
            due_ns: 0,
            suspects: HashMap::new(),
            hidden: HashMap::new(),
            changed: false,
        }
    }

    /// Returns whether PIDs in /proc differ from PIDs of the kernel side. If they differ, /proc
    /// only shows the processes of a PID namespace.
    pub(super) fn is_in_namespace(&self) -> bool {
        self.hierarchy.is_none()
    }

    /// Searches for hidden processes, if a search is due and the snapshot lists live processes.
    /// Returns whether the next snapshot must also list live processes.
    pub(super) fn search(&mut self, snapshot: &Snapshot) -> bool {
        let (Some(living), Some(_)) = (&snapshot.living, &self.hierarchy) else {
            return false;
        };
        if snapshot.taken_ns < self.due_ns {
            return false;
        }
        let seen: HashSet<u32> = living.iter().map(|(pid, _)| *pid).collect();
        let known = self.hidden.len();
        self.hidden.retain(|pid, _| !seen.contains(pid));
        self.changed |= self.hidden.len() != known;
        let mut before = std::mem::take(&mut self.suspects);
        for pid in pids(&self.proc).filter(|pid| !seen.contains(pid)) {
            if self.hidden.contains_key(&pid) {
                continue;
            }
            let Some(used) = Used::of(&self.proc, pid) else {
                continue;
            };
            match before
                .remove(&pid)
                .filter(|first| first.start == used.start)
            {
                Some(first) if self.hidden.len() < MOST => {
                    self.hidden.insert(pid, first);
                    self.changed = true;
                }
                Some(_) => {}
                None => _ = self.suspects.insert(pid, used),
            }
        }
        if self.suspects.is_empty() {
            self.due_ns = snapshot.taken_ns + LOOK_NS;
        }
        !self.suspects.is_empty()
    }

    /// Returns the CPU time of each hidden process since it was last read. All of that time is
    /// charged to the package on which the process last ran.
    pub(super) fn read(&mut self, topology: &Topology) -> Vec<TaskSample> {
        let Some(hierarchy) = &self.hierarchy else {
            return Vec::new();
        };
        let mut read = Vec::with_capacity(self.hidden.len());
        self.hidden.retain(|pid, used| {
            let sample = used.sample(&self.proc, *pid, hierarchy, topology);
            self.changed |= sample.is_none();
            read.extend(sample);
            sample.is_some()
        });
        read
    }

    /// Returns a description of the hidden processes if they have changed; an empty string if there
    /// are none.
    pub(super) fn changed(&mut self) -> Option<String> {
        if !std::mem::take(&mut self.changed) {
            return None;
        }
        if self.hidden.is_empty() {
            return Some(String::new());
        }
        let mut all: Vec<_> = self.hidden.iter().collect();
        all.sort_by_key(|(pid, _)| **pid);
        let named = all.iter().take(NAMED);
        let mut names: Vec<_> = named
            .map(|(pid, used)| format!("{} ({pid})", used.name))
            .collect();
        if all.len() > NAMED {
            names.push(format!("{} more", all.len() - NAMED));
        }
        Some(format!(
            "the kernel hides processes from tracing programs: {}; their CPU time comes from their \
            CPU clocks, and their other counters, waits and events are missing",
            names.join(", ")
        ))
    }
}

impl Used {
    /// Returns `None` if the process has ended or cannot be read.
    fn of(proc: &Path, pid: u32) -> Option<Self> {
        let process = process(proc, pid)?;
        let stat = process.stat().ok()?;
        // The exit of a zombie was already reported.
        if matches!(stat.state(), Ok(ProcState::Zombie | ProcState::Dead)) {
            return None;
        }
        Some(Self {
            start: stat.starttime,
            name: stat.comm,
            cpu_ns: process_cpu_ns(pid)?,
        })
    }

    /// Returns the CPU time since the last reading in the format of the kernel side; `None` if the
    /// process has ended.
    fn sample(
        &mut self,
        proc: &Path,
        pid: u32,
        hierarchy: &Hierarchy,
        topology: &Topology,
    ) -> Option<TaskSample> {
        let process = process(proc, pid)?;
        let stat = process.stat().ok()?;
        if stat.starttime != self.start {
            return None;
        }
        let cpu_ns = process_cpu_ns(pid)?;
        let mut sample = TaskSample {
            pid,
            tgid: pid,
            process_start: self.start * (1_000_000_000 / procfs::ticks_per_second()),
            cgroup: cgroup(&process, hierarchy).unwrap_or(0),
            parent: stat.ppid as u32,
            package: topology.package_of(stat.processor.unwrap_or(0) as u32) as u32,
            flags: sample_flag::LEADER,
            ..TaskSample::default()
        };
        sample.counters.v[Counter::CpuTime.index()] = cpu_ns.saturating_sub(self.cpu_ns);
        // The kernel writes the name unescaped, followed by a line feed.
        let comm = fs::read(proc.join(format!("{pid}/comm"))).ok()?;
        let comm = comm.strip_suffix(b"\n").unwrap_or(&comm);
        let kept = sample.comm.len() - 1;
        for (to, from) in sample.comm.iter_mut().take(kept).zip(comm) {
            *to = *from as _;
        }
        self.cpu_ns = cpu_ns;
        self.name = stat.comm;
        Some(sample)
    }
}

/// Returns the id of the process's cgroup.
fn cgroup(process: &Process, hierarchy: &Hierarchy) -> Option<u64> {
    let mount = hierarchy.mount.as_ref()?;
    let groups = process.cgroups().ok()?;
    let own = groups
        .0
        .into_iter()
        .find(|it| it.hierarchy == hierarchy.id as u32)?;
    let path = mount.join(own.pathname.trim_start_matches('/'));
    Some(fs::metadata(path).ok()?.ino())
}

fn process(proc: &Path, pid: u32) -> Option<Process> {
    Process::new_with_root(proc.join(pid.to_string())).ok()
}

fn pids(proc: &Path) -> impl Iterator<Item = u32> + use<> {
    let entries = fs::read_dir(proc).into_iter().flatten();
    let names =
        entries.filter_map(|entry: io::Result<_>| entry.ok()?.file_name().into_string().ok());
    names.filter_map(|name| name.parse().ok())
}

#[cfg(test)]
mod tests {
    use noctule_kernel::{CgroupVersion, Hierarchy};

    use super::*;

    const PROC: &str = "/proc";

    fn looking() -> Hidden {
        Hidden {
            proc: PROC.into(),
            hierarchy: Some(Hierarchy {
                version: CgroupVersion::V2,
                id: 0,
                mount: None,
            }),
            due_ns: 0,
            suspects: HashMap::new(),
            hidden: HashMap::new(),
            changed: false,
        }
    }

    /// Returns a snapshot that lists every process except this one.
    fn without_self(taken_ns: u64) -> Snapshot {
        let own = std::process::id();
        Snapshot {
            taken_ns,
            living: Some(
                pids(Path::new(PROC))
                    .filter(|pid| *pid != own)
                    .map(|pid| (pid, 0))
                    .collect(),
            ),
            ..Snapshot::default()
        }
    }

    fn burn() {
        let now = || rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime).tv_nsec;
        let began = now();
        while (now() - began).rem_euclid(1_000_000_000) < 20_000_000 {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn a_process_missing_twice_is_read_from_proc() {
        let mut hidden = looking();
        assert!(hidden.search(&without_self(1)), "it is to be looked again");
        assert!(hidden.read(&Topology::default()).is_empty());
        assert_eq!(hidden.changed(), None);
        burn();
        hidden.search(&without_self(2));
        let own = std::process::id();
        let read = hidden.read(&Topology::default());
        let sample = read
            .iter()
            .find(|sample| sample.tgid == own)
            .expect("it is hidden");
        let used = sample.values()[Counter::CpuTime];
        assert!(
            used >= 15_000_000,
            "{used}: what it used since the first look"
        );
        let comm = fs::read("/proc/self/comm").expect("its name");
        assert!(sample.comm_bytes().starts_with(comm.trim_ascii_end()));
        let whom = hidden.changed().expect("it is reported");
        assert!(whom.contains(&format!("({own})")), "{whom}");
        assert_eq!(hidden.changed(), None, "and named once");
    }

    #[test]
    fn a_process_that_is_listed_again_is_not_read_from_proc() {
        let mut hidden = looking();
        hidden.search(&without_self(1));
        hidden.search(&without_self(2));
        hidden.changed();
        let all = Snapshot {
            taken_ns: 3 * LOOK_NS,
            living: Some(pids(Path::new(PROC)).map(|pid| (pid, 0)).collect()),
            ..Snapshot::default()
        };
        hidden.search(&all);
        let read = hidden.read(&Topology::default());
        assert!(read.iter().all(|it| it.tgid != std::process::id()));
        assert!(hidden.changed().is_some());
    }
}
