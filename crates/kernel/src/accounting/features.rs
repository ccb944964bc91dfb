//! Returns the status of each feature of the accounts.

use std::io;

use noctule_model::{Counter, Feature, FeatureId};

use crate::error::{Error, REPORT};
use crate::facts::{Facts, THROTTLE_CLOCKS};
use crate::hardware::CounterSpec;
use crate::plan::SECTION;

/// Returns whether a program can walk over the threads of a process (since Linux 6.7).
pub(super) fn walks_over_threads(facts: &Facts) -> bool {
    facts.hooks.contains("bpf_iter_task_new()")
}

/// The tracepoint at moves between cgroups.
pub(super) const MOVES: &str = "cgroup_attach_task";

/// Returns the status of seeing moves between cgroups immediately. `error` is the reason why the
/// program could not be attached.
pub(super) fn moves(error: Option<&libbpf_rs::Error>, facts: &Facts) -> Feature {
    let id = FeatureId::CgroupMoves;
    let reason = match error {
        None if !facts.hooks.contains(MOVES) => {
            return Feature::off(
                id,
                format!(
                    "this kernel has no tracepoint {MOVES} \
                    (CONFIG_CGROUPS)"
                ),
            );
        }
        Some(error) => format!(
            "cgroup_attach_task: {error:#}; what a process used in the tick of a move is charged \
            to its previous cgroup"
        ),
        None if walks_over_threads(facts) => return Feature::on(id, "cgroup_attach_task"),
        None => "cgroup_attach_task: it reports only the thread group leader, and this kernel \
            cannot iterate over the threads of a process (bpf_iter_task_new, Linux 6.7): what the \
            other threads used in the tick of a move is charged to their previous cgroup"
            .to_owned(),
    };
    Feature::degraded(id, reason)
}

/// Returns the status of CPU time. CPU time is degraded if the scheduler's clock cannot be read, or
/// if the kernel rejects the programs that list threads, which makes each batch more expensive.
pub(super) fn cpu_time(facts: &Facts, unlisted: Option<&Error>) -> Feature {
    let id = FeatureId::CpuTime;
    let how = "task iterator; idle time from sched_switch";
    if !facts.scheduler.clock {
        return Feature::degraded(
            id,
            "the run queue of a thread cannot be read (CONFIG_FAIR_GROUP_SCHED): what a running \
            thread used since the last scheduler tick is missing until the next one",
        );
    }
    match unlisted {
        None => Feature::on(id, how),
        Some(error) => Feature::degraded(
            id,
            format!(
                "{how}; this kernel rejects the programs that list recently run threads, so each \
                batch reads all threads, at about 1 µs per thread: {}",
                error.chain()
            ),
        )
        .with_fix(REPORT),
    }
}

/// Returns the status if the kernel rejects the programs that measure waits.
pub(super) fn waits_refused(error: &Error) -> Feature {
    let reason = format!(
        "this kernel rejects the programs that measure waits: {}",
        error.chain()
    );
    Feature::off(FeatureId::CpuWaits, reason).with_fix(REPORT)
}

/// Returns the status of run-queue latency. `error` is the reason why a program could not be
/// attached.
pub(super) fn waits(wanted: bool, error: Option<&libbpf_rs::Error>, facts: &Facts) -> Feature {
    let id = FeatureId::CpuWaits;
    if !wanted {
        return Feature::switched_off(id, SECTION);
    }
    match error {
        None if !facts.scheduler.clock => Feature::degraded(
            id,
            "the run queue of a thread cannot be read (CONFIG_FAIR_GROUP_SCHED): when a waiting \
            thread moves to another CPU, its wait so far is blamed on the groups that ran on the new \
            CPU",
        ),
        None if !facts.scheduler.notes => Feature::degraded(
            id,
            "this kernel does not record when a thread was queued (CONFIG_SCHED_INFO): noctule \
            records it at each wake-up, and waits that began before noctule started are not \
            counted",
        ),
        None => Feature::on(id, "sched_switch, sched_migrate_task, sched_info"),
        Some(error) if facts.scheduler.records_usable_times() => Feature::degraded(
            id,
            format!(
                "{error:#}: when a waiting thread moves to another CPU, its wait so far is \
                unattributed"
            ),
        ),
        Some(error) => Feature::degraded(
            id,
            format!("{error:#}: waits that begin with a wake-up or a move are not seen"),
        ),
    }
}

/// Returns the status of measuring for how long waits were throttled.
pub(super) fn throttle(waits: bool, facts: &Facts) -> Option<Feature> {
    let id = FeatureId::WaitThrottle;
    if !waits {
        return None;
    }
    const MEND: &str = "compare with throttled_usec in the group's cpu.stat";
    Some(match facts.throttle_clock {
        Some(field) if field == THROTTLE_CLOCKS[0] => Feature::on(id, format!("cfs_rq.{field}")),
        Some(field) => Feature::degraded(
            id,
            format!(
                "cfs_rq.{field}: this clock runs slower than wall time on a slow CPU, or \
                 during interrupts \
                and steal; the rest of the throttled time counts as contention"
            ),
        )
        .with_fix(format!("{MEND}; Linux 6.6 has a better clock")),
        None => Feature::off(
            id,
            "this kernel has no CPU quotas (CONFIG_CFS_BANDWIDTH), or does not record how long a \
            run queue was throttled: waits for a quota count as contention",
        )
        .with_fix(MEND),
    })
}

/// Returns the status of blocked time: whether all its classes are measured.
pub(super) fn blocked(waits: bool, facts: &Facts) -> Option<Feature> {
    let id = FeatureId::BlockedTime;
    waits.then(|| match facts.system_calls {
        true => Feature::on(id, "sched_switch, bpf_task_pt_regs"),
        false => Feature::degraded(
            id,
            "BPF programs cannot read the system call of a thread (bpf_task_pt_regs, Linux 5.15): \
            the classes are disk, filesystem, memory, stopped, and other for everything else",
        ),
    })
}

/// Returns the status of measuring by package, and the status of measuring SMT overlap.
pub(super) fn places(facts: &Facts) -> [Feature; 2] {
    let topology = &facts.topology;
    let (packages, overlap) = (FeatureId::Packages, FeatureId::SmtOverlap);
    let count = topology.packages().len();
    let unplaced_cpus = topology.unplaced_cpus();
    let packages = match (count, unplaced_cpus) {
        (1, []) => Feature::on(packages, "one"),
        (_, []) => Feature::on(packages, format!("{count} (physical_package_id)")),
        (_, [first, ..]) => Feature::degraded(
            packages,
            format!(
                "CPU time is counted separately for at most {count} packages: time on the other \
                packages, such as on CPU {first}, counts towards the first package"
            ),
        ),
    };
    let overlap = match topology.most_threads() {
        1 => Feature::off(
            overlap,
            "each core has one hardware thread, or uses only one (nosmt)",
        ),
        2 => Feature::on(overlap, "sched_switch of both threads of a core"),
        threads => Feature::off(
            overlap,
            format!(
                "cores have {threads} hardware threads: SMT overlap is measured only on cores with \
                two"
            ),
        ),
    };
    [packages, overlap]
}

fn feature(counter: Counter) -> FeatureId {
    match counter {
        Counter::Cycles => FeatureId::Cycles,
        Counter::ReferenceCycles => FeatureId::ReferenceCycles,
        Counter::Instructions => FeatureId::Instructions,
        _ => FeatureId::CacheMisses,
    }
}

/// Returns the status of each hardware counter.
pub(super) fn hardware(
    asked: &[CounterSpec],
    refused: &[(CounterSpec, io::Error)],
    problems: &[(u32, io::Error)],
    facts: &Facts,
) -> Vec<Feature> {
    let status = |spec: &CounterSpec| match refused.iter().find(|(s, _)| s == spec) {
        Some((_, error)) => off(feature(spec.counter), error, facts),
        None => match problems.first() {
            None => Feature::on(feature(spec.counter), "perf event on each CPU"),
            Some((cpu, error)) => Feature::degraded(
                feature(spec.counter),
                format!(
                    "not available on {} CPUs, for example CPU {cpu}: {error}",
                    problems.len()
                ),
            ),
        },
    };
    if asked.is_empty() {
        let all = CounterSpec::HARDWARE.iter();
        return all
            .map(|spec| Feature::switched_off(feature(spec.counter), SECTION))
            .collect();
    }
    asked.iter().map(status).collect()
}

fn off(id: FeatureId, error: &io::Error, facts: &Facts) -> Feature {
    use rustix::io::Errno;
    let (reason, mend) = match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOENT | Errno::OPNOTSUPP | Errno::NODEV) => (
            "this machine has no hardware counter for this event (no PMU, as in most virtual machines)",
            "on a virtual machine, ask the provider for a type with a PMU".to_owned(),
        ),
        Some(Errno::ACCESS | Errno::PERM) => (
            "perf_event_open is not permitted",
            format!(
                "add CAP_PERFMON, or set kernel.perf_event_paranoid to 0 or lower (now {})",
                facts
                    .perf_event_paranoid
                    .map_or("unknown".into(), |level| level.to_string())
            ),
        ),
        Some(Errno::INVAL) => (
            "the PMU cannot count this event together with the others",
            String::new(),
        ),
        Some(Errno::MFILE) => (
            "too many open files",
            "raise the limit of open files (ulimit -n)".to_owned(),
        ),
        _ => ("perf_event_open failed", String::new()),
    };
    Feature::off(id, format!("{reason}: {error}")).with_fix(mend)
}
