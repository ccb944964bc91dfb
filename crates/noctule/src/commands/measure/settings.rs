//! Reads the limits and scheduling settings of hurt groups from the kernel's files at the end of
//! the window.

use std::path::Path;

use noctule_analysis::{Party, Report, WaitReport, WaitReportRow, busiest};
use noctule_collect::{CpuNumbers, CpuTimes, SettingFiles, ThreadTimes};
use noctule_model::{
    Affinity, Asleep, AsleepThreads, IdleGroup, Level, RealTime, Settings, VerdictKind,
};

/// Maximum number of groups whose settings are read. Further groups get no sentence about settings.
const ROWS: usize = 100;

/// State captured at the start of a window, for comparison with its end.
pub(super) struct Observed {
    files: SettingFiles,
    begin: CpuTimes,
    threads: ThreadTimes,
}

impl Observed {
    /// Captures the state at the start of the window.
    pub(super) fn begin(files: SettingFiles) -> Self {
        Self {
            threads: files.thread_times(),
            begin: files.cpu_times(),
            files,
        }
    }

    pub(super) const fn files(&self) -> &SettingFiles {
        &self.files
    }

    /// Returns the fraction of the window in which each CPU was idle.
    fn idle(&self) -> Vec<(u32, f64)> {
        self.files.cpu_times().idle_since(&self.begin)
    }

    /// At the end of the window, reads the settings of the rows whose verdict is not quiet.
    /// `processes` contains the CPU time of all processes of the machine in the window.
    pub(super) fn settle(&self, report: &mut WaitReport, level: Level, processes: &Report) {
        report.name_commands(processes);
        let meanwhile = Meanwhile {
            idle: self.idle(),
            online: self.files.online(),
            processes,
            level,
        };
        let hurt = |row: &&mut WaitReportRow| row.verdict.kind != VerdictKind::Quiet;
        for row in report.rows.iter_mut().filter(hurt).take(ROWS) {
            row.settings = self.of(row, &meanwhile);
        }
    }

    /// Reads the settings of a row.
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
        Settings {
            rivals: row
                .rival()
                .and_then(|rival| self.files.rivals(&owner.path, rival)),
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
            stopped: match kind {
                VerdictKind::Stopped => self.stopped(&owner.path),
                _ => None,
            },
            real_time: row
                .main_culprit()
                .and_then(|culprit| self.real_time(culprit, meanwhile)),
            ..row.settings.clone()
        }
    }

    /// Returns the threads of a group that are stopped or frozen now.
    fn stopped(&self, path: &str) -> Option<AsleepThreads> {
        let mut threads = self.files.asleep(path).into_iter();
        threads.find(|it| matches!(it.kind, Asleep::Stopped | Asleep::Traced | Asleep::Frozen))
    }

    /// Returns the busiest process of the culprit with its real-time policy, if it has one.
    fn real_time(&self, culprit: &Party, meanwhile: &Meanwhile<'_>) -> Option<(u32, RealTime)> {
        if !matches!(culprit, Party::Group(_)) {
            return None;
        }
        let processes = busiest(meanwhile.processes, culprit, meanwhile.level);
        let pid = processes.iter().find(|it| !it.exited)?.id.pid;
        Some((pid, self.policy(pid)?))
    }

    /// Returns the real-time policy of the busiest thread of a process in the window.
    pub(super) fn policy(&self, pid: u32) -> Option<RealTime> {
        self.files.real_time(pid, &self.threads)
    }

    /// Returns the idle cgroup that makes the group yield to its rival. Common ancestors of the two
    /// are not considered.
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
}

/// Activity of the whole machine in the window.
struct Meanwhile<'a> {
    /// Fraction of the window in which each CPU was idle.
    idle: Vec<(u32, f64)>,
    online: CpuNumbers,
    processes: &'a Report,
    level: Level,
}

/// Returns the CPU outside the set that had the most idle time in the window.
fn idlest(idle: &[(u32, f64)], cpus: &CpuNumbers) -> Option<(u32, f64)> {
    let others = idle.iter().filter(|(cpu, _)| !cpus.contains(cpu));
    others.copied().max_by(|a, b| a.1.total_cmp(&b.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_group_setting_must_not_include_the_rival() {
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
}
