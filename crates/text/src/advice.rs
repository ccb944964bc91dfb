//! Evidence for a verdict, and advice.

use noctule_model::{Affinity, IdleGroup, ROOT, Reason, Rivals, VerdictKind};

use crate::asleep::release;
use crate::reason::{hardly_throttled, is_mostly_stalled, part};
use crate::{bytes, cpus, sentence};

/// Minimum idle share of a CPU that advice mentions.
const IDLE: f64 = 0.2;

/// Returns the complete text for a hurt group: sentence, evidence and advice. The text is not
/// escaped.
pub fn answer(name: &str, reason: &Reason) -> String {
    let mut words = format!("{name}: {}", sentence(reason));
    for fact in facts(reason) {
        words.push_str("; ");
        words.push_str(&fact);
    }
    if let Some(advice) = advice(reason) {
        words.push_str(&format!(". Try: {advice}"));
    }
    words
}

/// Returns evidence for the verdict, in addition to the sentence. The texts are not escaped.
pub fn facts(reason: &Reason) -> Vec<String> {
    let mut facts = Vec::new();
    if let Some(quota) = reason.quota.as_ref().filter(|q| q.periods > 0)
        && reason.kind.is_held()
    {
        let (used, all) = (quota.throttled_periods, quota.periods);
        facts.push(format!("the limit was used up in {used} of {all} periods"));
    }
    if reason.kind.is_held() && reason.threads >= 1.5 {
        let threads = reason.threads;
        facts.push(format!("{threads:.1} runnable threads on average"));
    }
    if let Some(affinity) = &reason.settings.affinity {
        facts.push(confined(affinity));
    }
    if let Some(idle) = &reason.settings.idle {
        facts.push(gives_way(idle));
    }
    facts
}

fn gives_way(idle: &IdleGroup) -> String {
    let whose = match &idle.above {
        Some(group) => format!("the setting of {group}"),
        None => "its own setting".to_owned(),
    };
    format!("cpu.idle is 1 ({whose}): the group runs only when nothing else wants the CPU")
}

fn confined(affinity: &Affinity) -> String {
    let words = format!("may run on {} only", cpu_numbers(&affinity.cpus));
    match affinity.idle {
        Some((cpu, idle)) if idle >= IDLE => {
            format!("{words}; CPU {cpu} was {} idle", part(idle))
        }
        Some(_) => format!("{words}; no other CPU was idle"),
        None => words,
    }
}

/// Formats CPU numbers: `CPU 1`, `CPUs 0-3,8`.
pub fn cpu_numbers(cpus: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for &cpu in cpus {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => parts.push((cpu, cpu)),
        }
    }
    let range = |(first, last): &(u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    let parts: Vec<String> = parts.iter().map(range).collect();
    let s = if cpus.len() > 1 { "s" } else { "" };
    format!("CPU{s} {}", parts.join(","))
}

/// Returns the first action to try, if some action usually helps. The text is not escaped.
pub fn advice(reason: &Reason) -> Option<String> {
    match reason.kind {
        VerdictKind::HeldByMemoryLimit => return raise_memory_limit(reason),
        VerdictKind::HeldByDisk => return limit_disk(reason),
        // More CPU or memory for a holder may only make it take its locks more often.
        VerdictKind::HeldByLock => {
            let (name, holder) = reason.holder.as_ref()?;
            let is_held_by_disk = holder.kind == VerdictKind::HeldByDisk;
            let advice = limit_disk(holder).filter(|_| is_held_by_disk)?;
            return Some(format!("for {name}: {advice}"));
        }
        VerdictKind::Stopped => return reason.settings.stopped.as_ref().and_then(release),
        _ => {}
    }
    // Threads that mostly wait for something other than a CPU would gain little from more CPU time.
    if is_mostly_stalled(reason) {
        return None;
    }
    let idle = reason.settings.affinity.as_ref().and_then(|a| a.idle);
    if let Some((cpu, _)) = idle.filter(|(_, part)| *part >= IDLE)
        && reason.kind.is_contended()
        && reason.kind != VerdictKind::QuotaAndNeighbours
    {
        return Some(format!("let it run on CPU {cpu} too"));
    }
    Some(match reason.kind {
        // The group itself can do nothing about these causes.
        VerdictKind::Quiet
        | VerdictKind::HeldByDisk
        | VerdictKind::HeldByFilesystem
        | VerdictKind::HeldByMemoryLimit
        | VerdictKind::HeldByReclaim
        | VerdictKind::HeldByLock
        | VerdictKind::Stopped => return None,
        VerdictKind::HurtByNeighbour => share(reason),
        VerdictKind::HurtByNeighbours => format!("{}, or more CPUs", share(reason)),
        VerdictKind::HeldByQuota if hardly_throttled(reason) => format!(
            "{} and its CPU weight: raising only one of them gains little",
            raise_limit(reason)
        ),
        VerdictKind::HeldByQuota => quota(reason),
        // The groups that use up this limit are inside the limited group, so a weight cannot
        // separate them.
        VerdictKind::QuotaAndNeighbours
            if reason.quota_binds && reason.quota.as_ref().is_some_and(|q| q.group.is_none()) =>
        {
            quota(reason)
        }
        VerdictKind::QuotaAndNeighbours => format!("{}; then {}", quota(reason), share(reason)),
        VerdictKind::TooManyThreads => {
            // It is unknown which CPUs the group may use. Other groups may use the remaining CPUs.
            let is_more = reason.threads.round() > reason.cpus.ceil().max(1.0);
            match reason.room {
                Some(room) => format!(
                    "fewer threads (as many as CPUs: {}), or more CPUs",
                    room.cpus
                ),
                None if is_more => "fewer threads, or more CPUs".to_owned(),
                None => "more CPUs".to_owned(),
            }
        }
        VerdictKind::HurtByKernel => {
            "find the cause of the busy kernel threads (noctule stat --by process, /proc/softirqs)"
                .to_owned()
        }
        VerdictKind::HurtByHost => {
            "more CPU for this virtual machine, or a host with less load".to_owned()
        }
        VerdictKind::HurtByInterrupts => {
            "spread the interrupts over other CPUs (/proc/interrupts shows which)".to_owned()
        }
    })
}

/// Suggests less use of the disk by the main culprit. The root group has no limits.
fn limit_disk(reason: &Reason) -> Option<String> {
    let culprit = reason.culprits.first().filter(|it| it.name != ROOT)?;
    Some(format!("limit the disk bandwidth of {}", culprit.name))
}

fn raise_memory_limit(reason: &Reason) -> Option<String> {
    let memory = reason.memory.as_ref()?;
    let limit = memory.limit.as_ref()?;
    let size = bytes(limit.bytes);
    let raise = match &limit.group {
        Some(group) => format!("raise the memory limit of {group} (now {size})"),
        None => format!("raise its memory limit (now {size})"),
    };
    Some(match limit.under_oom {
        true => format!("{raise}, end one of its processes, or set memory.oom_control to 0"),
        // If a group reads its pages in a cycle, each page is evicted before it is read again,
        // unless all pages fit.
        false if memory.reread_part.is_some_and(|part| part > 0.0) => {
            format!("{raise} until the pages that it rereads fit; a smaller increase helps little")
        }
        false => raise,
    })
}

fn raise_limit(reason: &Reason) -> String {
    match &reason.quota {
        Some(quota) => match &quota.group {
            Some(group) => format!("raise the limit of {group} (now {})", cpus(quota.cpus)),
            None => format!("raise its limit (now {})", cpus(quota.cpus)),
        },
        None => "raise its CPU limit".to_owned(),
    }
}

fn quota(reason: &Reason) -> String {
    let limit = raise_limit(reason);
    let quota = reason.quota.as_ref().map_or(1.0, |quota| quota.cpus);
    match reason.threads > 2.0 * quota.max(1.0) {
        true => format!("{limit}, or run fewer threads"),
        false => limit,
    }
}

/// Suggests another way to share the CPU.
fn share(reason: &Reason) -> String {
    // The kernel refuses a weight for a `cpu.idle` group, and the other group's weight has no
    // effect on it.
    if let Some(idle) = &reason.settings.idle {
        let whose = match &idle.above {
            Some(group) => format!("cpu.idle of {group}"),
            None => "its cpu.idle".to_owned(),
        };
        return format!("set {whose} to 0, unless the low priority is intended");
    }
    // A weight does not affect a process whose policy precedes all ordinary processes.
    if let Some((pid, policy)) = &reason.settings.real_time {
        return format!(
            "lower the real-time priority of process {pid} ({policy}; chrt -a -o -p 0 {pid}), or give \
             it a CPU of its own"
        );
    }
    if reason.is_root {
        return match reason.culprits.first() {
            Some(culprit) => format!("give {} a CPU limit, or move it", culprit.name),
            None => "give the groups that it waits for a CPU limit".to_owned(),
        };
    }
    match &reason.settings.rivals {
        Some(Rivals { own, culprit }) => {
            let (step, first, second) = match culprit.1.value() > own.1.value() {
                true => ("lower", culprit, own),
                false => ("raise", own, culprit),
            };
            let (name, weight, other) = (first.1.name(), first.1.value(), second.1.value());
            format!(
                "{step} the CPU {name} of {} ({weight}; {}: {other}), or move one of them{}",
                first.0,
                second.0,
                place(reason)
            )
        }
        None => format!("raise its CPU weight, or move it{}", place(reason)),
    }
}

/// Returns the destination of a move: another node if all CPUs of this node are busy.
fn place(reason: &Reason) -> &'static str {
    let idle = reason.settings.affinity.as_ref().and_then(|a| a.idle);
    match idle {
        Some((_, part)) if part < IDLE => " to another node",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use noctule_model::{
        Asleep, AsleepThreads, CpuWeight, MemoryLimit, MemoryUse, QuotaUse, RealTime,
        ReasonCulprit, Settings, ThreadRoom,
    };

    use super::*;

    fn reason(kind: VerdictKind) -> Reason {
        Reason {
            kind,
            contended: 0.5,
            throttled: 0.8,
            threads: 1.0,
            cpus: 0.5,
            culprits: vec![ReasonCulprit {
                name: "b".into(),
                share: 0.5,
            }],
            ..Reason::default()
        }
    }

    #[test]
    fn pinned_group_is_advised_to_use_an_idle_cpu() {
        let mut reason = reason(VerdictKind::HurtByNeighbour);
        reason.settings.affinity = Some(Affinity {
            cpus: vec![1],
            idle: Some((0, 1.0)),
        });
        assert_eq!(
            answer("a", &reason),
            "a: hurt by b: runnable but not running 50.0% of its CPU demand; may run on CPU 1 only; CPU 0 was 100.0% idle. Try: let it run on CPU 0 too"
        );
        reason.settings.affinity = Some(Affinity {
            cpus: vec![0, 1, 2, 5],
            idle: Some((3, 0.1)),
        });
        assert_eq!(
            facts(&reason),
            ["may run on CPUs 0-2,5 only; no other CPU was idle"]
        );
    }

    #[test]
    fn heavier_rival_is_advised_a_lower_weight() {
        let rivals = |own, culprit| Settings {
            rivals: Some(Rivals {
                own: ("/a".into(), own),
                culprit: ("/b".into(), culprit),
            }),
            ..Settings::default()
        };
        let mut reason = reason(VerdictKind::HurtByNeighbour);
        let cases = [
            (
                CpuWeight::Weight(100),
                CpuWeight::Weight(800),
                "lower the CPU weight of /b (800; /a: 100), or move one of them",
            ),
            (
                CpuWeight::Shares(1024),
                CpuWeight::Shares(1024),
                "raise the CPU shares of /a (1024; /b: 1024), or move one of them",
            ),
        ];
        for (own, culprit, words) in cases {
            reason.settings = rivals(own, culprit);
            assert_eq!(advice(&reason).as_deref(), Some(words));
        }
        // No CPU of this node is free for either group.
        reason.settings.affinity = Some(Affinity {
            cpus: vec![1],
            idle: Some((0, 0.0)),
        });
        let words = advice(&reason).expect("something");
        assert!(
            words.ends_with(", or move one of them to another node"),
            "{words}"
        );
    }

    #[test]
    fn the_root_group_has_no_weight_to_raise() {
        let mut reason = reason(VerdictKind::HurtByNeighbour);
        reason.is_root = true;
        let words = "give b a CPU limit, or move it";
        assert_eq!(advice(&reason).as_deref(), Some(words));
    }

    #[test]
    fn an_idle_group_has_no_advice_about_weights() {
        let mut reason = reason(VerdictKind::HurtByNeighbour);
        reason.settings.rivals = Some(Rivals {
            own: ("/a".into(), CpuWeight::Weight(0)),
            culprit: ("/b".into(), CpuWeight::Weight(800)),
        });
        reason.settings.idle = Some(IdleGroup { above: None });
        assert_eq!(
            answer("a", &reason),
            "a: hurt by b: runnable but not running 50.0% of its CPU demand; cpu.idle is 1 (its \
             own setting): the group runs only when nothing else wants the CPU. Try: set its \
             cpu.idle to 0, unless the low priority is intended"
        );
        reason.settings.idle = Some(IdleGroup {
            above: Some("/batch".into()),
        });
        let fact = "cpu.idle is 1 (the setting of /batch): the group runs only when nothing else \
                    wants the CPU";
        assert_eq!(facts(&reason), [fact]);
        let words = "set cpu.idle of /batch to 0, unless the low priority is intended";
        assert_eq!(advice(&reason).as_deref(), Some(words));
    }

    #[test]
    fn weights_are_not_advised_against_real_time() {
        let mut reason = reason(VerdictKind::HurtByNeighbour);
        reason.settings.real_time = Some((4711, RealTime::Fifo(10)));
        let words = "lower the real-time priority of process 4711 (FIFO 10; chrt -a -o -p 0 4711), or \
                     give it a CPU of its own";
        assert_eq!(advice(&reason).as_deref(), Some(words));
        reason.kind = VerdictKind::HurtByNeighbours;
        let more = format!("{words}, or more CPUs");
        assert_eq!(advice(&reason), Some(more));
    }

    #[test]
    fn as_many_threads_as_usable_cpus_are_advised() {
        let mut reason = reason(VerdictKind::TooManyThreads);
        (reason.threads, reason.cpus) = (2.1, 1.1);
        assert_eq!(advice(&reason).as_deref(), Some("more CPUs"));
        reason.threads = 7.9;
        let words = "fewer threads, or more CPUs";
        assert_eq!(advice(&reason).as_deref(), Some(words));
        reason.room = Some(ThreadRoom {
            threads: 8,
            cpus: 2,
        });
        let words = "fewer threads (as many as CPUs: 2), or more CPUs";
        assert_eq!(advice(&reason).as_deref(), Some(words));
    }

    #[test]
    fn limit_is_named_with_its_use() {
        let mut reason = reason(VerdictKind::HeldByQuota);
        reason.threads = 8.0;
        reason.quota = Some(QuotaUse {
            cpus: 0.2,
            group: None,
            periods: 50,
            throttled_periods: 49,
            part: 1.0,
            used: 1.0,
            gain: 0.0,
        });
        assert_eq!(
            answer("a", &reason),
            "a: held back 80.0% of its CPU demand by its own limit of 0.2 CPU; the limit was used \
             up in 49 of 50 periods; 8.0 runnable threads on average. Try: raise its limit (now \
             0.2 CPU), or run fewer threads"
        );
        // Other groups had the CPU until nearly the end of each period, so fixing only one of the
        // two causes helps little.
        (reason.throttled, reason.quota_binds) = (0.02, true);
        let words = "raise its limit (now 0.2 CPU) and its CPU weight: raising only one of them \
            gains little";
        assert_eq!(advice(&reason).as_deref(), Some(words));
        // In this case, the accused groups are inside the limited group.
        reason.kind = VerdictKind::QuotaAndNeighbours;
        reason.quota_binds = true;
        let words = "raise its limit (now 0.2 CPU), or run fewer threads";
        assert_eq!(advice(&reason).as_deref(), Some(words));
    }

    #[test]
    fn a_memory_limit_is_advised_to_be_raised() {
        let mut reason = reason(VerdictKind::HeldByMemoryLimit);
        assert_eq!(advice(&reason), None);
        let mut limit = MemoryLimit {
            bytes: 64 << 20,
            ..MemoryLimit::default()
        };
        reason.memory = Some(MemoryUse {
            limit: Some(limit.clone()),
            ..MemoryUse::default()
        });
        let words = "raise its memory limit (now 64.0MiB)";
        assert_eq!(advice(&reason).as_deref(), Some(words));
        let memory = reason.memory.as_mut().expect("it has one");
        memory.reread_part = Some(0.5);
        let words = "raise its memory limit (now 64.0MiB) until the pages that it rereads fit; a \
                     smaller increase helps little";
        assert_eq!(advice(&reason).as_deref(), Some(words));
        limit.group = Some("/above".into());
        limit.under_oom = true;
        reason.memory = Some(MemoryUse {
            limit: Some(limit),
            ..MemoryUse::default()
        });
        let words = "raise the memory limit of /above (now 64.0MiB), end one of its processes, or set \
                     memory.oom_control to 0";
        assert_eq!(advice(&reason).as_deref(), Some(words));
    }

    #[test]
    fn the_end_of_a_chain_of_holders_is_advised() {
        let mut disk = reason(VerdictKind::HeldByDisk);
        let words = "limit the disk bandwidth of b";
        assert_eq!(advice(&disk).as_deref(), Some(words));
        let mut lock = reason(VerdictKind::HeldByLock);
        assert_eq!(advice(&lock), None);
        lock.holder = Some(("a".into(), Box::new(disk.clone())));
        let words = "for a: limit the disk bandwidth of b";
        assert_eq!(advice(&lock).as_deref(), Some(words));
        lock.holder = Some(("a".into(), Box::new(reason(VerdictKind::HeldByQuota))));
        assert_eq!(advice(&lock), None);
        disk.culprits[0].name = ROOT.into();
        assert_eq!(advice(&disk), None);
        disk.culprits.clear();
        lock.holder = Some(("a".into(), Box::new(disk)));
        assert_eq!(advice(&lock), None);
    }

    #[test]
    fn a_stopped_group_is_advised_to_be_continued() {
        let mut reason = reason(VerdictKind::Stopped);
        reason.settings.stopped = Some(AsleepThreads {
            kind: Asleep::Stopped,
            threads: 1,
            pid: 4711,
            wchan: None,
            since_run_ns: None,
        });
        let words = "kill -CONT 4711, unless the stop is intended";
        assert_eq!(advice(&reason).as_deref(), Some(words));
    }

    #[test]
    fn every_verdict_about_the_cpu_or_with_a_culprit_has_advice() {
        for kind in VerdictKind::ALL {
            let some = advice(&reason(kind)).is_some();
            let is_about_cpu = kind != VerdictKind::Quiet && !kind.is_stall();
            let is_expected = is_about_cpu || kind == VerdictKind::HeldByDisk;
            assert_eq!(some, is_expected, "{kind:?}");
        }
    }
}
