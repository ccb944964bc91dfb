//! The kernel's own counters.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::path::Path;

use anyhow::{Context as _, Result};
use rustix::time::{ClockId, clock_gettime};

use crate::events::{Change, Event, Reported, address_of};

/// A counter of the kernel, and the events that should equal it.
pub(super) struct Counter {
    pub(super) name: &'static str,
    /// The events that are compared with the counter.
    pub(super) of: &'static str,
    pub(super) kernel: u64,
    /// Minimum and maximum, because other processes change a counter of the whole machine while the
    /// bench reads it.
    pub(super) reported: (u64, u64),
}

impl Counter {
    pub(super) fn is_equal(&self) -> bool {
        (self.reported.0..=self.reported.1).contains(&self.kernel)
    }
}

/// The kernel's number of forks, read between the moments `before` and `after`.
pub(super) struct Forks {
    count: u64,
    before: Moment,
    after: Moment,
}

/// A moment on two clocks, in nanoseconds.
#[derive(Clone, Copy)]
struct Moment {
    real: u64,
    monotonic: u64,
}

fn now() -> Moment {
    let read = |clock| {
        let time = clock_gettime(clock);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    };
    Moment {
        real: read(ClockId::Realtime),
        monotonic: read(ClockId::Monotonic),
    }
}

/// Returns the number of processes and threads created since boot.
pub(super) fn forks() -> Result<Forks> {
    let before = now();
    let text = fs::read_to_string("/proc/stat").context("/proc/stat")?;
    let count = text.lines().find_map(|l| l.strip_prefix("processes "));
    let count = count.and_then(|n| n.trim().parse().ok());
    Ok(Forks {
        count: count.context("/proc/stat has no processes")?,
        before,
        after: now(),
    })
}

/// Limits the memory of a group and disables swap for it.
pub(super) fn limit(cgroup: &Path, bytes: u64) -> Result<()> {
    let v1 = cgroup.join("memory.limit_in_bytes").exists();
    let (file, swap) = match v1 {
        true => ("memory.limit_in_bytes", "memory.swappiness"),
        false => ("memory.max", "memory.swap.max"),
    };
    fs::write(cgroup.join(file), bytes.to_string()).context("limiting the memory of a group")?;
    // The file is missing on machines without swap.
    let _ = fs::write(cgroup.join(swap), "0");
    Ok(())
}

/// Returns the number of OOM kills in the group.
pub(super) fn oom_kills(cgroup: &Path) -> Result<u64> {
    let read = |file| fs::read_to_string(cgroup.join(file));
    let text = read("memory.oom_control").or_else(|_| read("memory.events"));
    let text = text.context("the count of OOM kills")?;
    let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
    let count = count.and_then(|n| n.trim().parse().ok());
    count.context("the count of OOM kills")
}

/// The readings before and after the load.
pub(super) struct Readings {
    /// Process of the load.
    pub(super) pid: u32,
    pub(super) began: Forks,
    pub(super) ended: Forks,
    pub(super) oom_kills: u64,
    /// TCP counters in the network namespace of the load.
    pub(super) tcp: BTreeMap<String, u64>,
}

impl Readings {
    /// Returns the start and end of the load, in nanoseconds since 1970.
    pub(super) fn during(&self) -> (u64, u64) {
        (self.began.after.real, self.ended.before.real)
    }

    /// Compares each counter with the agent's events. `tasks` are the events of the peer that sees
    /// every fork.
    pub(super) fn compare(&self, ours: &[Reported], tasks: Option<&[Reported]>) -> Vec<Counter> {
        let exactly = |name, of, kernel, reported| Counter {
            name,
            of,
            kernel,
            reported: (reported, reported),
        };
        let mut counters: Vec<Counter> = tasks.map(|t| self.forks(ours, t)).into_iter().collect();
        let kills = |reported: &&Reported| matches!(reported.event, Event::Oom { .. });
        counters.push(exactly(
            "oom_kill of the cgroup",
            "oom.kill",
            self.oom_kills,
            ours.iter().filter(kills).count() as u64,
        ));
        let own = self.of_namespace(ours);
        let changes = |wanted: &[Change]| {
            let is = |t: &&&Reported| matches!(&t.event, Event::Tcp(c, _) if wanted.contains(c));
            own.iter().filter(is).count() as u64
        };
        let sent_again = own.iter().map(|reported| match reported.event {
            Event::Retransmit(segments) => segments,
            _ => 0,
        });
        let tcp = [
            (
                "ActiveOpens",
                "tcp.connect + tcp.connect_failed",
                changes(&[Change::Connect, Change::ConnectFailed]),
            ),
            ("PassiveOpens", "tcp.accept", changes(&[Change::Accept])),
            ("RetransSegs", "tcp.retransmit", sent_again.sum()),
        ];
        for (name, of, reported) in tcp {
            let kernel = self.tcp.get(name).copied().unwrap_or(0);
            counters.push(exactly(name, of, kernel, reported));
        }
        counters
    }

    fn forks(&self, ours: &[Reported], tasks: &[Reported]) -> Counter {
        let (began, ended) = (&self.began, &self.ended);
        let count = |from: Moment, to: Moment| {
            let own = |reported: &&Reported| {
                let at = reported.at.unwrap_or(0);
                let is_start = matches!(reported.event, Event::Start { .. });
                is_start && (from.real..=to.real).contains(&at)
            };
            let thread = |reported: &&Reported| {
                let at = reported.at.unwrap_or(0);
                let is_thread = matches!(reported.event, Event::ThreadStart);
                is_thread && (from.monotonic..=to.monotonic).contains(&at)
            };
            (ours.iter().filter(own).count() + tasks.iter().filter(thread).count()) as u64
        };
        Counter {
            name: "processes of /proc/stat",
            of: "process.start + threads of task_newtask",
            kernel: ended.count - began.count,
            reported: (
                count(began.after, ended.before),
                count(began.before, ended.after),
            ),
        }
    }

    /// Returns the events in the namespace of the load, where no other process runs.
    fn of_namespace<'a>(&self, ours: &'a [Reported]) -> Vec<&'a Reported> {
        let address = IpAddr::from(address_of(self.pid));
        let is_its = |reported: &&Reported| match &reported.event {
            Event::Tcp(_, ends) => ends.local.ip() == address || ends.peer.ip() == address,
            _ => false,
        };
        let cookie = ours.iter().find(is_its).and_then(|reported| reported.netns);
        let inside = |reported: &&Reported| cookie.is_some() && reported.netns == cookie;
        ours.iter().filter(inside).collect()
    }
}
