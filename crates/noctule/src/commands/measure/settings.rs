//! What hurt groups are allowed: read from the files of the kernel when the answer is written.

use std::path::Path;

use noctule_analysis::{Party, Report, WaitReport, WaitReportRow, busiest};
use noctule_collect::{CpuNumbers, CpuTimes, SettingFiles, ThreadTimes};
use noctule_model::{Affinity, Counter, IdleGroup, Level, RealTime, Rivals, Settings, VerdictKind};

/// Groups whose settings are read, at most: more are not shown with a sentence.
const ROWS: usize = 100;

/// Threads of the kernel that are named, at most, and how much of a CPU they must have used.
const KERNEL_THREADS: usize = 3;
const BUSY: f64 = 0.01;

/// What is to be known at both ends of a window.
pub(super) struct Observed {
    files: SettingFiles,
    begin: CpuTimes,
    threads: ThreadTimes,
}

impl Observed {
    /// The window begins.
    pub(super) fn begin(files: SettingFiles) -> Self {
        Self {
            threads: files.thread_times(),
            begin: files.cpu_times(),
            files,
        }
    }

    /// The files of the kernel.
    pub(super) const fn files(&self) -> &SettingFiles {
        &self.files
    }

    /// Part of the window for which each CPU was idle.
    fn idle(&self) -> Vec<(u32, f64)> {
        self.files.cpu_times().idle_since(&self.begin)
    }

    /// The window has ended: reads what the rows with a verdict are allowed. `processes`: what each of the machine
    /// used in it.
    pub(super) fn settle(&self, report: &mut WaitReport, level: Level, processes: &Report) {
        let meanwhile = Meanwhile {
            idle: self.idle(),
            online: self.files.online(),
            kernel_threads: kernel_threads(processes),
            processes,
            level,
        };
        let hurt = |row: &&mut WaitReportRow| row.verdict.kind != VerdictKind::Quiet;
        for row in report.rows.iter_mut().filter(hurt).take(ROWS) {
            row.settings = self.of(row, &meanwhile);
        }
    }

    /// What a row is allowed.
    fn of(&self, row: &WaitReportRow, meanwhile: &Meanwhile<'_>) -> Settings {
        let Party::Group(owner) = &row.party else {
            return Settings::default();
        };
        let kind = row.verdict.kind;
        let allowed = self.files.allowed(&self.files.processes(&owner.path));
        let affinity =
            allowed.filter(|cpus| kind.is_contended() && !meanwhile.online.is_subset(cpus));
        let by_neighbours = matches!(
            kind,
            VerdictKind::HurtByNeighbour
                | VerdictKind::HurtByNeighbours
                | VerdictKind::QuotaAndNeighbours
        );
        let by_kernel = kind == VerdictKind::HurtByKernel;
        Settings {
            rivals: row
                .rival()
                .and_then(|rival| self.rivals(&owner.path, rival)),
            affinity: affinity.map(|cpus| Affinity {
                idle: idlest(&meanwhile.idle, &cpus),
                cpus: cpus
                    .into_iter()
                    .filter(|cpu| meanwhile.online.contains(cpu))
                    .collect(),
            }),
            idle: match by_neighbours {
                true => self.idle_group(&owner.path, row.rival()),
                false => None,
            },
            kernel_threads: match by_kernel {
                true => meanwhile.kernel_threads.clone(),
                false => Vec::new(),
            },
            real_time: row
                .main_culprit()
                .and_then(|culprit| self.real_time(culprit, meanwhile)),
        }
    }

    /// The busiest process of a group, if it goes before all ordinary ones.
    fn real_time(&self, culprit: &Party, meanwhile: &Meanwhile<'_>) -> Option<(u32, RealTime)> {
        if !matches!(culprit, Party::Group(_)) {
            return None;
        }
        let processes = busiest(meanwhile.processes, culprit, meanwhile.level);
        let pid = processes.iter().find(|it| !it.exited)?.id.pid;
        Some((pid, self.policy(pid)?))
    }

    /// By which policy a process goes before all ordinary ones: that of its busiest thread in the window.
    pub(super) fn policy(&self, pid: u32) -> Option<RealTime> {
        self.files.real_time(pid, &self.threads)
    }

    /// By whose setting the group gives way to the rival: that of one that holds both does not count.
    fn idle_group(&self, own: &str, rival: Option<&str>) -> Option<IdleGroup> {
        let rival = rival.map(Path::new);
        let mut apart = Path::new(own)
            .ancestors()
            .filter(|group| rival.is_none_or(|rival| !rival.starts_with(group)))
            .filter_map(Path::to_str);
        let idle = apart.find(|group| self.files.idle(group) == Some(true))?;
        Some(IdleGroup {
            above: (idle != own).then(|| idle.to_owned()),
        })
    }

    fn rivals(&self, own: &str, culprit: &str) -> Option<Rivals> {
        let (own, culprit) = siblings(own, culprit)?;
        let with_weight = |path: &str| Some((path.to_owned(), self.files.weight(path)?));
        Some(Rivals {
            own: with_weight(own)?,
            culprit: with_weight(culprit)?,
        })
    }
}

/// What the rest of the machine did in the window.
struct Meanwhile<'a> {
    /// Part of the window for which each CPU was idle.
    idle: Vec<(u32, f64)>,
    online: CpuNumbers,
    /// The busiest of them.
    kernel_threads: Vec<String>,
    processes: &'a Report,
    level: Level,
}

/// The busiest threads of the kernel in the window.
fn kernel_threads(processes: &Report) -> Vec<String> {
    let least = (processes.window_ns as f64 * BUSY) as u64;
    let threads = processes.rows.iter().filter_map(|row| {
        let process = row.process.as_ref().filter(|p| p.kernel_thread)?;
        (row.counters[Counter::CpuTime] >= least).then(|| process.comm.text())
    });
    threads.take(KERNEL_THREADS).collect()
}

/// The CPU that was idle for longest among those that are not in the set.
fn idlest(idle: &[(u32, f64)], cpus: &CpuNumbers) -> Option<(u32, f64)> {
    let others = idle.iter().filter(|(cpu, _)| !cpus.contains(cpu));
    others.copied().max_by(|a, b| a.1.total_cmp(&b.1))
}

/// The paths at which two groups part: siblings. `None` where one is above the other.
fn siblings<'a>(a: &'a str, b: &'a str) -> Option<(&'a str, &'a str)> {
    let same = a.split('/').zip(b.split('/'));
    let common: usize = same
        .take_while(|(a, b)| a == b)
        .map(|(a, _)| a.len() + 1)
        .sum();
    let until = |path: &'a str| {
        let rest = path.get(common..).filter(|rest| !rest.is_empty())?;
        let end = rest.find('/').map_or(path.len(), |at| common + at);
        Some(&path[..end])
    };
    Some((until(a)?, until(b)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_gives_way_by_its_own_setting_or_one_above_that_does_not_hold_the_rival() {
        let root = tempfile::tempdir().expect("a folder of our own");
        for (group, idle) in [("a", "1"), ("a/b", "0"), ("a/c", "1"), ("d", "0")] {
            let folder = root.path().join(group);
            std::fs::create_dir_all(&folder).expect("it can be made");
            std::fs::write(folder.join("cpu.idle"), idle).expect("it can be written");
        }
        let observed = Observed::begin(SettingFiles::new(root.path(), root.path()));
        let above = |path: &str| IdleGroup {
            above: Some(path.to_owned()),
        };
        let cases = [
            ("/a/b", Some("/d"), Some(above("/a"))),
            ("/a/b", Some("/a/c"), None),
            ("/a/c", Some("/a/b"), Some(IdleGroup { above: None })),
            ("/a/c", None, Some(IdleGroup { above: None })),
            ("/d", Some("/a/b"), None),
            ("/", Some("/a"), None),
        ];
        for (own, rival, expected) in cases {
            let idle = observed.idle_group(own, rival);
            assert_eq!(idle, expected, "{own} {rival:?}");
        }
    }

    #[test]
    fn groups_share_where_their_paths_part() {
        let cases = [
            ("/a/b", "/a/c/d", Some(("/a/b", "/a/c"))),
            ("/web", "/batch/job", Some(("/web", "/batch"))),
            ("/a", "/ab", Some(("/a", "/ab"))),
            ("/a/b", "/a", None),
            ("/", "/a", None),
        ];
        for (a, b, expected) in cases {
            assert_eq!(siblings(a, b), expected, "{a} {b}");
        }
    }
}
