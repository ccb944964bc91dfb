//! Processes that are in /proc and that the kernel keeps from tracing programs. Their CPU
//! clocks have what they used, so that it is not taken for interrupts and steal.

use std::collections::{HashMap, HashSet};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use noctule_kernel::{
    Facts, Hierarchy, Snapshot, TaskSample, Topology, process_cpu_ns, sample_flag,
};
use noctule_model::{Counter, FeatureId};
use procfs::process::{ProcState, Process};

/// The feature that names the processes that tracing programs do not see.
pub(super) const FEATURE: FeatureId = FeatureId::AllProcesses;

/// Between two looks for them.
const LOOK_NS: u64 = 60_000_000_000;

/// As many are read at each batch at most: each costs some 20 us.
const MOST: usize = 64;

/// As many are named in its reason.
const NAMED: usize = 4;

/// The processes that tracing programs do not see.
pub(super) struct Hidden {
    /// Mount of procfs.
    proc: PathBuf,
    /// The hierarchy that is counted; `None` where /proc has other numbers than the kernel side.
    hierarchy: Option<Hierarchy>,
    due_ns: u64,
    /// Who was missing at the last look. Who ends, or begins, is missing once.
    suspects: HashMap<u32, Used>,
    hidden: HashMap<u32, Used>,
    changed: bool,
}

/// What a process used, as far as it was reported.
struct Used {
    /// Clock ticks from boot to its start: with the pid, one process for ever.
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

    /// Whether /proc has other numbers than the kernel side: only the processes of a pid namespace are seen.
    pub(super) fn is_in_namespace(&self) -> bool {
        self.hierarchy.is_none()
    }

    /// Looks for them where that is due and the snapshot lists the living processes. True: the next
    /// snapshot must list them as well.
    pub(super) fn look(&mut self, snapshot: &Snapshot) -> bool {
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

    /// What each used since it was read before, as if all of it on the package where it ran last.
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

    /// Whom it reads, in words, when that has changed; empty words for nobody.
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
            "the kernel does not show tracing programs {}: CPU time is by the CPU clock of the process, \
             other counters, waits and events are missing",
            names.join(", ")
        ))
    }
}

impl Used {
    /// `None` for one that has ended, or that cannot be read.
    fn of(proc: &Path, pid: u32) -> Option<Self> {
        let process = process(proc, pid)?;
        let stat = process.stat().ok()?;
        // A zombie was reported when it ended.
        if matches!(stat.state(), Ok(ProcState::Zombie | ProcState::Dead)) {
            return None;
        }
        Some(Self {
            start: stat.starttime,
            name: stat.comm,
            cpu_ns: process_cpu_ns(pid)?,
        })
    }

    /// What it used since it was last read, as the kernel side reports it for others; `None` when it
    /// has ended.
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
        // The kernel writes the name as it is; its last byte is a line feed.
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

/// The id of the group that it is in.
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

    /// Everybody is there but this process.
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
    fn who_is_missing_twice_is_read_from_proc_from_the_first_look_on() {
        let mut hidden = looking();
        assert!(hidden.look(&without_self(1)), "it is to be looked again");
        assert!(hidden.read(&Topology::default()).is_empty());
        assert_eq!(hidden.changed(), None);
        burn();
        hidden.look(&without_self(2));
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
    fn who_is_seen_again_is_not_read_from_proc_any_more() {
        let mut hidden = looking();
        hidden.look(&without_self(1));
        hidden.look(&without_self(2));
        hidden.changed();
        let all = Snapshot {
            taken_ns: 3 * LOOK_NS,
            living: Some(pids(Path::new(PROC)).map(|pid| (pid, 0)).collect()),
            ..Snapshot::default()
        };
        hidden.look(&all);
        let read = hidden.read(&Topology::default());
        assert!(read.iter().all(|it| it.tgid != std::process::id()));
        assert!(hidden.changed().is_some());
    }
}
