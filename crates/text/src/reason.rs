//! Describes a verdict: the effect on the group, the group that caused it, and its extent.

use noctule_model::{BlockClass, MemoryUse, ROOT, Reason, VerdictKind, Waiting};

use crate::{bytes, duration, percent};

/// Returns a sentence that describes a verdict from the point of view of the group. The sentence is
/// not escaped.
pub fn sentence(reason: &Reason) -> String {
    let reason = &with_commands_of_root(reason);
    let mut words = match reason.kind {
        VerdictKind::Quiet => quiet(reason),
        VerdictKind::HurtByNeighbour => neighbour(reason),
        VerdictKind::HurtByNeighbours => neighbours(reason),
        VerdictKind::HeldByQuota => held(reason),
        VerdictKind::QuotaAndNeighbours => {
            let (throttled, limit) = (part(reason.throttled), limit(reason));
            format!("held back {throttled} by {limit}, then {}", behind(reason))
        }
        VerdictKind::TooManyThreads => threads(reason),
        VerdictKind::HurtByKernel => {
            let kernel = part(reason.kernel);
            let names = reason.settings.kernel_threads.join(", ");
            let names = match names.as_str() {
                "" => String::new(),
                names => format!(" ({names})"),
            };
            format!("kernel threads{names} had its CPU for {kernel} of the time it needed the CPU")
        }
        VerdictKind::HurtByHost => {
            let host = part(reason.host);
            format!("the hypervisor took the CPU (steal {host} of the time it needed the CPU)")
        }
        VerdictKind::HurtByInterrupts => {
            let interrupts = part(reason.interrupts);
            format!("interrupts took the CPU for {interrupts} of the time it needed the CPU")
        }
        VerdictKind::Stopped => format!(
            "stopped: its threads were stopped by a signal or a tracer, or frozen, {} of their time",
            part(reason.stopped)
        ),
        kind => stalled(kind, reason),
    };
    if let Some(share) = reason.of_window {
        words.push_str(&format!("; it lost {} of the window", part(share)));
    }
    if let Some(others) = other_stalls(reason) {
        words.push_str(&format!("; {others}"));
    }
    if let Some(waiting) = &reason.waiting {
        words.push_str(&format!("; {}", still_waiting(waiting)));
    }
    if let Some(unusual) = reason.unusual {
        let (p99, times) = (duration(unusual.p99_ns), unusual.times);
        words.push_str(&format!("; p99 {p99} is {times:.0} times the usual value"));
    }
    if reason.provisional {
        words.push_str(" (provisional)");
    }
    words
}

/// Adds the busiest commands to the name of the root group, which is not itself a workload.
fn with_commands_of_root(reason: &Reason) -> Reason {
    let mut reason = reason.clone();
    let commands = reason.settings.root_commands.join(", ");
    let roots = reason.culprits.iter_mut().filter(|it| it.name == ROOT);
    for root in roots.filter(|_| !commands.is_empty()) {
        root.name.push_str(&format!(" ({commands})"));
    }
    reason
}

/// Returns a shorter word for a verdict, for columns too narrow for its name.
pub const fn verdict_word(kind: VerdictKind) -> &'static str {
    match kind {
        VerdictKind::Quiet => "quiet",
        VerdictKind::HurtByNeighbour => "neighbour",
        VerdictKind::HurtByNeighbours => "neighbours",
        VerdictKind::HeldByQuota => "quota",
        VerdictKind::QuotaAndNeighbours => "quota+neigh",
        VerdictKind::TooManyThreads => "threads",
        VerdictKind::HurtByKernel => "kernel",
        VerdictKind::HurtByHost => "host",
        VerdictKind::HurtByInterrupts => "interrupts",
        VerdictKind::HeldByDisk => "disk",
        VerdictKind::HeldByFilesystem => "filesystem",
        VerdictKind::HeldByMemoryLimit => "mem limit",
        VerdictKind::HeldByReclaim => "reclaim",
        VerdictKind::HeldByLock => "lock",
        VerdictKind::Stopped => "stopped",
    }
}

pub(crate) fn part(part: f64) -> String {
    percent(part * 100.0)
}

/// Describes a group without a verdict, and how its threads spent most of their time.
fn quiet(reason: &Reason) -> String {
    let mut words = match reason.sees_stalls {
        true => "not hurt".to_owned(),
        false => "not hurt by the CPU".to_owned(),
    };
    if let Some((class, share)) = reason.mostly {
        let doing = match class {
            BlockClass::Poll => "idle",
            BlockClass::Lock => "blocked on a lock",
            BlockClass::Pipe => "blocked on a pipe",
            BlockClass::Unix => "blocked on a UNIX domain socket",
            BlockClass::Loopback => "blocked on a socket of this host",
            BlockClass::Network => "blocked on a peer in the network",
            BlockClass::Child => "waiting for a child process",
            _ => return words,
        };
        let share = part(share);
        words.push_str(&format!("; {doing} {share} of its threads' time"));
        if class == BlockClass::Lock {
            words.push_str(" (a futex may also be an idle thread pool)");
        }
    }
    words
}

/// Describes a group that is held back, but not by the CPU.
fn stalled(kind: VerdictKind, reason: &Reason) -> String {
    let memory = reason.memory.as_ref();
    let holder = match kind {
        VerdictKind::HeldByDisk => "the disk".to_owned(),
        VerdictKind::HeldByFilesystem => "the file system".to_owned(),
        VerdictKind::HeldByMemoryLimit => memory_limit(memory),
        VerdictKind::HeldByLock => match reason.culprits.as_slice() {
            [] => "locks".to_owned(),
            [culprit] => format!("locks of {}", culprit.name),
            _ => format!(
                "locks of several groups ({})",
                names(reason).unwrap_or_default()
            ),
        },
        // Without the kernel's account of the group's memory, its limits are unknown.
        _ if memory.is_none() => "memory (reclaim, swap or a limit)".to_owned(),
        _ => "the reclaim of memory".to_owned(),
    };
    let mut parts = reason.stalls.iter();
    let share = parts.find(|(it, _)| *it == kind).map_or(0.0, |it| it.1);
    let (awaited, share) = (awaited(kind), part(share));
    let mut words =
        format!("held by {holder}: its threads waited for {awaited} {share} of their active time");
    if let Some(culprit) = reason.culprits.first()
        && kind == VerdictKind::HeldByDisk
    {
        let (name, share) = (&culprit.name, part(culprit.share));
        words.push_str(&format!("; {name} took {share} of the disk's time"));
    }
    let is_memory = matches!(
        kind,
        VerdictKind::HeldByMemoryLimit | VerdictKind::HeldByReclaim
    );
    if let Some(reread) = memory
        .and_then(|it| it.reread_bytes)
        .filter(|it| is_memory && *it > 0)
    {
        words.push_str(&format!(
            ", and read {} of evicted pages again",
            bytes(reread)
        ));
    }
    words
}

/// Returns the memory limit that was reached, as text.
fn memory_limit(memory: Option<&MemoryUse>) -> String {
    let Some(limit) = memory.and_then(|memory| memory.limit.as_ref()) else {
        return "a memory limit".to_owned();
    };
    let size = bytes(limit.bytes);
    let mut words = match &limit.group {
        Some(group) => format!("the memory limit of {size} of {group}"),
        None => format!("its own memory limit of {size}"),
    };
    if limit.under_oom {
        words.push_str(", whose OOM killer is off");
    }
    words
}

/// Returns what a held thread waits for.
const fn awaited(kind: VerdictKind) -> &'static str {
    match kind {
        VerdictKind::HeldByDisk => "block I/O or write-back",
        VerdictKind::HeldByFilesystem => "journal commits or file-system locks",
        VerdictKind::HeldByLock => "locks of other groups",
        _ => "memory or evicted pages",
    }
}

/// Waits below this share of the active time are not mentioned.
const MIN_NOTABLE_SHARE: f64 = 0.05;

/// Describes the waits that the verdict does not mention.
fn other_stalls(reason: &Reason) -> Option<String> {
    // A stopped group is slow because it is stopped, so its waits are not listed.
    if reason.kind == VerdictKind::Stopped {
        return None;
    }
    let others = reason.stalls.iter();
    let others = others.filter(|(kind, share)| *kind != reason.kind && *share >= MIN_NOTABLE_SHARE);
    let mut listed: Vec<String> = others
        .map(|(kind, share)| format!("for {} {}", awaited(*kind), part(*share)))
        .collect();
    let waits_for_cpu = reason.kind.is_stall() && reason.runnable >= MIN_NOTABLE_SHARE;
    if waits_for_cpu {
        listed.push(format!("for a CPU {}", part(reason.runnable)));
    }
    let stopped = (reason.stopped >= MIN_NOTABLE_SHARE).then(|| {
        let share = part(reason.stopped);
        format!("its threads were stopped or frozen {share} of all their time")
    });
    let waited = (!listed.is_empty()).then(|| {
        let also = if reason.kind == VerdictKind::Quiet {
            ""
        } else {
            "also "
        };
        format!(
            "its threads {also}waited {} of their active time",
            listed.join(", ")
        )
    });
    let said: Vec<String> = waited.into_iter().chain(stopped).collect();
    (!said.is_empty()).then(|| said.join("; "))
}

/// Returns whether the group's threads were blocked for longer than they waited for a CPU.
pub(crate) fn is_mostly_stalled(reason: &Reason) -> bool {
    let stalled: f64 = reason.stalls.iter().map(|(_, share)| share).sum();
    stalled > reason.runnable
}

/// Returns how many threads are waiting, and how long the longest wait has lasted.
fn still_waiting(waiting: &Waiting) -> String {
    let longest = duration(waiting.longest_ns);
    match waiting.threads {
        0 | 1 => format!("1 thread has waited for {longest} and still waits"),
        threads => format!("{threads} threads wait now, one of them for {longest}"),
    }
}

/// Formats waits in progress for a table: number of threads, and the longest wait.
pub fn waiting_now(waiting: &Waiting) -> String {
    match waiting.threads {
        0 => "-".to_owned(),
        threads => format!("{threads} {}", duration(waiting.longest_ns)),
    }
}

/// Describes the main culprit, and the waits for other groups.
fn neighbour(reason: &Reason) -> String {
    let contended = part(reason.contended);
    let mut words = "hurt".to_owned();
    if let Some(culprit) = reason.culprits.first() {
        words = format!("hurt by {}", culprit.name);
    }
    if reason.crowded > 0.5 * reason.contended {
        return format!("{words}: {}", crowded(reason));
    }
    words.push_str(&format!(
        ": runnable but not running {contended} of its CPU demand"
    ));
    // The first culprit did not cause the whole wait: name its part.
    if let Some(culprit) = reason.culprits.first()
        && culprit.share < 0.95 * reason.contended
    {
        words.push_str(&format!(", {} behind that one", part(culprit.share)));
    }
    words.push_str(&nameless(reason));
    if let Some(p99_ns) = reason.p99_ns {
        words.push_str(&format!(", p99 {}", duration(p99_ns)));
    }
    words
}

fn neighbours(reason: &Reason) -> String {
    let contended = part(reason.contended);
    let nameless = nameless(reason);
    match names(reason) {
        Some(names) if reason.crowded > 0.5 * reason.contended => {
            format!("hurt by several: {names}; {}", crowded(reason))
        }
        Some(names) => format!(
            "hurt by several: {names}; runnable but not running {contended} of its CPU demand{nameless}"
        ),
        None if !nameless.is_empty() => {
            format!("runnable but not running {contended} of its CPU demand{nameless}")
        }
        None => format!(
            "runnable but not running {contended} of its CPU demand; the culprit is unknown"
        ),
    }
}

/// Describes threads that shared CPUs although each could have had its own.
fn crowded(reason: &Reason) -> String {
    let shared = cpus((reason.cpus * 10.0).round() / 10.0);
    let usable = reason.room.map_or(String::new(), |room| {
        format!(" of the {} that they may use", room.cpus)
    });
    let crowded = part(reason.crowded);
    format!(
        "its own threads shared {shared}{usable} and waited for each other {crowded} of their CPU demand"
    )
}

/// Describes waits for groups without their own row; empty below 1% of the CPU demand.
fn nameless(reason: &Reason) -> String {
    match reason.nameless {
        share if share >= 0.01 => format!(
            ", {} behind unnamed groups (the table of victims and culprits is full)",
            part(share)
        ),
        _ => String::new(),
    }
}

/// Lists the culprits, each with its share of the CPU demand.
fn names(reason: &Reason) -> Option<String> {
    let one = |culprit: &noctule_model::ReasonCulprit| {
        format!("{} {}", culprit.name, part(culprit.share))
    };
    let names: Vec<String> = reason.culprits.iter().map(one).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

fn held(reason: &Reason) -> String {
    let (throttled, limit) = (part(reason.throttled), limit(reason));
    let nearly_used = reason.quota.as_ref().filter(|_| hardly_throttled(reason));
    let mut words = match nearly_used {
        Some(quota) => format!(
            "held by {limit}: it used {} of the limit",
            part(quota.used.min(1.0))
        ),
        None => format!("held back {throttled} of its CPU demand by {limit}"),
    };
    // A neighbour that took nothing from the group is not accused, but it appears in the table, so
    // the text mentions it.
    if let Some(culprit) = reason.culprits.first().filter(|c| c.share >= 0.1)
        && reason.quota_binds
    {
        let (name, share) = (&culprit.name, part(culprit.share));
        let gain = reason.quota.as_ref().map_or(0.0, |quota| quota.gain);
        let cost = match gain {
            gain if gain >= 0.01 => {
                let gain = part(gain);
                format!("and would gain at most {gain} more CPU time without that wait")
            }
            _ => "but lost no CPU time to that wait: the limit was used up".to_owned(),
        };
        words.push_str(&format!("; it also waited {share} behind {name}, {cost}"));
    }
    words
}

/// Returns whether the limit binds the group although the group was seldom throttled. This happens
/// if other groups have the CPU until nearly the end of each period.
pub(crate) fn hardly_throttled(reason: &Reason) -> bool {
    reason.kind == VerdictKind::HeldByQuota && reason.quota_binds && reason.throttled < 0.1
}

fn behind(reason: &Reason) -> String {
    let others = match reason.quota_binds {
        true => reason.costly,
        false => reason.contended,
    };
    match reason.culprits.as_slice() {
        [] => format!("{} by others", part(others)),
        [culprit] => format!("{} by {}", part(culprit.share), culprit.name),
        [culprit, ..] if culprit.share >= 0.5 * others => {
            format!("{} by {}", part(culprit.share), culprit.name)
        }
        _ => format!("by several: {}", names(reason).unwrap_or_default()),
    }
}

/// Describes the limit that holds the group back.
fn limit(reason: &Reason) -> String {
    match &reason.quota {
        None => "a CPU limit".to_owned(),
        Some(quota) => match &quota.group {
            None => format!("its own limit of {}", cpus(quota.cpus)),
            Some(group) => format!("the limit of {} of {group}", cpus(quota.cpus)),
        },
    }
}

fn threads(reason: &Reason) -> String {
    let threads = reason.threads.round();
    let cpus = cpus((reason.cpus * 10.0).round() / 10.0);
    match threads >= 2.0 {
        true => format!("its own {threads:.0} runnable threads share {cpus}"),
        // The threads were runnable only for some of the window.
        false => format!(
            "its own threads wait for each other {} of their CPU demand",
            part(reason.own)
        ),
    }
}

/// Formats a number of CPUs: `0.2 CPU`, `1 CPU`, `1.5 CPUs`.
pub fn cpus(value: f64) -> String {
    let digits = format!("{value:.2}");
    let digits = digits.trim_end_matches('0').trim_end_matches('.');
    let s = if value > 1.0 { "s" } else { "" };
    format!("{digits} CPU{s}")
}

#[cfg(test)]
mod tests {
    use noctule_model::{MemoryLimit, QuotaUse, ReasonCulprit, ThreadRoom, Unusual};

    use super::*;

    fn reason(kind: VerdictKind, culprits: &[(&str, f64)]) -> Reason {
        let culprit = |(name, share): &(&str, f64)| ReasonCulprit {
            name: (*name).to_owned(),
            share: *share,
        };
        Reason {
            kind,
            contended: 0.5,
            throttled: 0.8,
            own: 0.3,
            kernel: 0.4,
            interrupts: 0.11,
            host: 0.22,
            p99_ns: Some(4_000_000),
            threads: 7.9,
            cpus: 0.996,
            culprits: culprits.iter().map(culprit).collect(),
            ..Reason::default()
        }
    }

    fn quota(cpus: f64, group: Option<&str>) -> Option<QuotaUse> {
        Some(QuotaUse {
            cpus,
            group: group.map(str::to_owned),
            ..QuotaUse::default()
        })
    }

    #[test]
    fn the_root_group_is_named_with_its_busiest_commands() {
        let mut reason = reason(VerdictKind::HurtByNeighbour, &[("(root)", 0.5)]);
        assert!(sentence(&reason).starts_with("hurt by (root): runnable"));
        reason.settings.root_commands = vec!["rustc".into(), "cc1plus".into()];
        assert!(sentence(&reason).starts_with("hurt by (root) (rustc, cc1plus): runnable"));
        reason.culprits[0].name = "/batch".into();
        assert!(sentence(&reason).starts_with("hurt by /batch: runnable"));
    }

    #[test]
    fn waits_missing_from_a_full_table_are_mentioned() {
        let cases = [
            (
                &[("a", 0.07), ("b", 0.02)][..],
                "hurt by several: a 7.0%, b 2.0%; runnable but not running 50.0% of its CPU demand, 41.0% \
                 behind unnamed groups (the table of victims and culprits is full)",
            ),
            (
                &[],
                "runnable but not running 50.0% of its CPU demand, 41.0% behind unnamed groups \
                 (the table of victims and culprits is full)",
            ),
        ];
        for (culprits, expected) in cases {
            let reason = Reason {
                nameless: 0.41,
                ..reason(VerdictKind::HurtByNeighbours, culprits)
            };
            assert_eq!(neighbours(&reason), expected);
        }
    }

    #[test]
    fn threads_crowded_onto_one_cpu_are_described() {
        let crowded = |kind, culprits| Reason {
            crowded: 0.49,
            room: Some(ThreadRoom {
                threads: 2,
                cpus: 2,
            }),
            ..reason(kind, culprits)
        };
        assert_eq!(
            sentence(&crowded(VerdictKind::HurtByNeighbour, &[("b", 0.45)])),
            "hurt by b: its own threads shared 1 CPU of the 2 that they may use and waited for each other 49.0% of \
             their CPU demand"
        );
        let several = crowded(VerdictKind::HurtByNeighbours, &[("b", 0.2), ("c", 0.2)]);
        assert_eq!(
            sentence(&several),
            "hurt by several: b 20.0%, c 20.0%; its own threads shared 1 CPU of the 2 that they may use and waited for \
             each other 49.0% of their CPU demand"
        );
    }

    #[test]
    fn every_verdict_has_its_sentence() {
        use VerdictKind::*;
        let cases = [
            (Quiet, &[][..], "not hurt by the CPU"),
            (
                HurtByNeighbour,
                &[("batch/reindex", 0.5)],
                "hurt by batch/reindex: runnable but not running 50.0% of its CPU demand, p99 \
                 4.00ms",
            ),
            (
                HurtByNeighbour,
                &[("a", 0.3)],
                "hurt by a: runnable but not running 50.0% of its CPU demand, 30.0% behind that \
                 one, p99 4.00ms",
            ),
            (
                HurtByNeighbours,
                &[("a", 0.2), ("b", 0.17), ("c", 0.13)],
                "hurt by several: a 20.0%, b 17.0%, c 13.0%; runnable but not running 50.0% of \
                 its CPU demand",
            ),
            (
                HurtByNeighbours,
                &[],
                "runnable but not running 50.0% of its CPU demand; the culprit is unknown",
            ),
            (
                HeldByQuota,
                &[],
                "held back 80.0% of its CPU demand by its own limit of 0.2 CPU",
            ),
            (
                QuotaAndNeighbours,
                &[("backup.service", 0.17)],
                "held back 80.0% by its own limit of 0.2 CPU, then 17.0% by backup.service",
            ),
            (
                TooManyThreads,
                &[],
                "its own 8 runnable threads share 1 CPU",
            ),
            (
                HurtByKernel,
                &[],
                "kernel threads had its CPU for 40.0% of the time it needed the CPU",
            ),
            (
                HurtByHost,
                &[],
                "the hypervisor took the CPU (steal 22.0% of the time it needed the CPU)",
            ),
            (
                HurtByInterrupts,
                &[],
                "interrupts took the CPU for 11.0% of the time it needed the CPU",
            ),
        ];
        for (kind, culprits, words) in cases {
            let mut reason = reason(kind, culprits);
            reason.quota = quota(0.2, None);
            assert_eq!(sentence(&reason), words);
        }
    }

    #[test]
    fn a_stall_is_described_with_its_share_and_the_other_waits() {
        use VerdictKind::*;
        let reason = |kind| Reason {
            kind,
            stalls: vec![
                (HeldByFilesystem, 0.61),
                (HeldByDisk, 0.2),
                (HeldByReclaim, 0.04),
            ],
            runnable: 0.07,
            sees_stalls: true,
            ..Reason::default()
        };
        let behind = Reason {
            stalls: vec![(HeldByDisk, 0.8)],
            runnable: 0.0,
            culprits: vec![ReasonCulprit {
                name: "ci-job".to_owned(),
                share: 0.74,
            }],
            ..reason(HeldByDisk)
        };
        let mut seldom = reason(HeldByDisk);
        (seldom.of_window, seldom.stopped) = (Some(0.057), 0.3);
        let stopped = Reason {
            kind: Stopped,
            stopped: 1.0,
            ..Reason::default()
        };
        let cases = [
            (
                reason(HeldByFilesystem),
                "held by the file system: its threads waited for journal commits or file-system locks 61.0% of \
                 their active time; its threads also waited for block I/O or write-back 20.0%, for a CPU 7.0% of \
                 their active time",
            ),
            (
                behind,
                "held by the disk: its threads waited for block I/O or write-back 80.0% of their active time; ci-job \
                 took 74.0% of the disk's time",
            ),
            (
                seldom,
                "held by the disk: its threads waited for block I/O or write-back 20.0% of their active time; it lost \
                 5.7% of the window; its threads also waited for journal commits or file-system locks 61.0%, for a CPU \
                 7.0% of their active time; its threads were stopped or frozen 30.0% of all their time",
            ),
            (
                stopped,
                "stopped: its threads were stopped by a signal or a tracer, or frozen, 100.0% of their time",
            ),
        ];
        for (reason, words) in cases {
            assert_eq!(sentence(&reason), words);
        }
    }

    #[test]
    fn several_groups_that_held_a_lock_are_listed() {
        let held = |culprits: &[(&str, f64)]| {
            sentence(&Reason {
                stalls: vec![(VerdictKind::HeldByLock, 0.9)],
                ..reason(VerdictKind::HeldByLock, culprits)
            })
        };
        assert_eq!(
            held(&[("web-b", 0.8)]),
            "held by locks of web-b: its threads waited for locks of other groups 90.0% of their active time"
        );
        assert_eq!(
            held(&[("web-b", 0.4), ("web-c", 0.3)]),
            "held by locks of several groups (web-b 40.0%, web-c 30.0%): its threads waited for locks of other \
             groups 90.0% of their active time"
        );
    }

    #[test]
    fn a_memory_limit_is_described_with_its_size_and_the_evicted_pages() {
        let mut reason = Reason {
            kind: VerdictKind::HeldByMemoryLimit,
            stalls: vec![(VerdictKind::HeldByMemoryLimit, 0.75)],
            memory: Some(MemoryUse {
                limit: Some(MemoryLimit {
                    bytes: 64 << 20,
                    ..MemoryLimit::default()
                }),
                reread_bytes: Some(9 << 30),
                reread_part: Some(1.0),
            }),
            ..Reason::default()
        };
        assert_eq!(
            sentence(&reason),
            "held by its own memory limit of 64.0MiB: its threads waited for memory or evicted pages 75.0% of \
             their active time, and read 9.00GiB of evicted pages again"
        );
        reason.memory = Some(MemoryUse {
            limit: Some(MemoryLimit {
                bytes: 1 << 30,
                group: Some("/above".into()),
                under_oom: true,
            }),
            ..MemoryUse::default()
        });
        assert_eq!(
            sentence(&reason),
            "held by the memory limit of 1.00GiB of /above, whose OOM killer is off: its threads waited for memory \
             or evicted pages 75.0% of their active time"
        );
        reason.kind = VerdictKind::HeldByReclaim;
        reason.stalls[0].0 = VerdictKind::HeldByReclaim;
        for (memory, holder) in [
            (None, "memory (reclaim, swap or a limit)"),
            (Some(MemoryUse::default()), "the reclaim of memory"),
        ] {
            reason.memory = memory;
            let begin = format!("held by {holder}: ");
            assert!(
                sentence(&reason).starts_with(&begin),
                "{}",
                sentence(&reason)
            );
        }
    }

    #[test]
    fn quiet_group_is_described_by_its_main_activity() {
        let quiet = |class, sees_stalls| Reason {
            mostly: Some((class, 0.987)),
            sees_stalls,
            ..Reason::default()
        };
        let cases = [
            (
                quiet(BlockClass::Lock, true),
                "not hurt; blocked on a lock 98.7% of its threads' time (a futex may also be an idle thread pool)",
            ),
            (
                quiet(BlockClass::Poll, true),
                "not hurt; idle 98.7% of its threads' time",
            ),
            (
                quiet(BlockClass::Child, false),
                "not hurt by the CPU; waiting for a child process 98.7% of its threads' time",
            ),
        ];
        for (reason, words) in cases {
            assert_eq!(sentence(&reason), words);
        }
    }

    #[test]
    fn used_up_limit_is_blamed_whichever_group_runs() {
        let mut reason = reason(VerdictKind::HeldByQuota, &[("hog", 0.17)]);
        reason.quota = quota(1.5, Some("/above"));
        reason.quota_binds = true;
        assert_eq!(
            sentence(&reason),
            "held back 80.0% of its CPU demand by the limit of 1.5 CPUs of /above; it also waited \
             17.0% behind hog, but lost no CPU time to that wait: the limit was used up"
        );
        // Other groups had the CPU until nearly the end of each period.
        reason.throttled = 0.02;
        let quota = reason.quota.as_mut().expect("it has one");
        (quota.used, quota.gain) = (0.97, 0.031);
        assert_eq!(
            sentence(&reason),
            "held by the limit of 1.5 CPUs of /above: it used 97.0% of the limit; it also waited 17.0% behind hog, \
             and would gain at most 3.1% more CPU time without that wait"
        );
        reason.throttled = 0.8;
        reason.quota = None;
        reason.culprits.clear();
        let words = "held back 80.0% of its CPU demand by a CPU limit";
        assert_eq!(sentence(&reason), words);
    }

    #[test]
    fn wait_in_progress_is_described_with_its_length() {
        let cases = [
            (1, "1 thread has waited for 18.0s and still waits"),
            (3, "3 threads wait now, one of them for 18.0s"),
        ];
        for (threads, words) in cases {
            let reason = Reason {
                waiting: Some(Waiting {
                    threads,
                    longest_ns: 18_000_000_000,
                }),
                ..reason(VerdictKind::HurtByKernel, &[])
            };
            assert_eq!(
                sentence(&reason),
                format!(
                    "kernel threads had its CPU for 40.0% of the time it needed the CPU; {words}"
                )
            );
        }
    }

    #[test]
    fn unusual_and_provisional_are_mentioned_last() {
        let reason = Reason {
            provisional: true,
            threads: 1.2,
            unusual: Some(Unusual {
                p99_ns: 45_600_000,
                times: 12.4,
            }),
            ..reason(VerdictKind::TooManyThreads, &[])
        };
        assert_eq!(
            sentence(&reason),
            "its own threads wait for each other 30.0% of their CPU demand; p99 45.6ms is 12 \
             times the usual value (provisional)"
        );
    }
}
