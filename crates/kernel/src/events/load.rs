//! Loads and attaches the object lifecycle.

use std::os::fd::AsFd as _;

use libbpf_rs::Link;
use libbpf_rs::skel::OpenSkel;
use noctule_model::{EventKind, EventKinds, Feature, FeatureId};

use super::EventsWanted;
use crate::cpu_slots::CpuSlots;
use crate::error::{Context, Error, ErrorKind, not_loaded};
use crate::facts::{self, Facts};
use crate::kernel_types;
use crate::settings::configure;
use crate::skel::lifecycle::{LifecycleSkel, LifecycleSkelBuilder, types::event_kind};
use crate::tracefs::{self, Tracefs};

/// Maximum number of followed processes, and of wanted cgroups.
const FOLLOWED: u32 = 65_536;
pub(super) const WANTED_CGROUPS: u32 = 1024;

/// Returns the bit mask of the kinds that are sent to the ring buffer.
pub(super) fn kinds(stream: EventKinds) -> u32 {
    use event_kind as kind;
    const BITS: [(EventKind, &[kind]); 5] = [
        (
            EventKind::Process,
            &[
                kind::EVENT_PROCESS_START,
                kind::EVENT_PROCESS_EXEC,
                kind::EVENT_PROCESS_EXIT,
            ],
        ),
        (EventKind::ExecFailure, &[kind::EVENT_PROCESS_EXEC_FAILED]),
        (EventKind::Signal, &[kind::EVENT_PROCESS_SIGNAL]),
        (EventKind::Oom, &[kind::EVENT_OOM_KILL]),
        (
            EventKind::Tcp,
            &[
                kind::EVENT_TCP_LISTEN,
                kind::EVENT_TCP_LISTEN_CLOSE,
                kind::EVENT_TCP_CONNECT,
                kind::EVENT_TCP_CONNECT_FAILED,
                kind::EVENT_TCP_ACCEPT,
                kind::EVENT_TCP_RETRANSMIT,
                kind::EVENT_TCP_CLOSE,
            ],
        ),
    ];
    let wanted = BITS.iter().filter(|(wanted, _)| stream.has(*wanted));
    let bits = wanted.flat_map(|(_, bits)| *bits);
    bits.fold(0, |all, bit| all | 1 << bit.0)
}

/// The object after the kernel verified it; not attached yet.
pub(super) struct LoadedLifecycle {
    pub(super) skel: LifecycleSkel<'static>,
    /// Why the requested programs for failed execs could not be loaded.
    pub(super) exec_failures: Result<(), Error>,
}

/// Loads the object. If the kernel rejects the programs for failed execs, loads the object without
/// them. Before Linux 5.15, programs cannot read the registers of a system call.
pub(super) fn lifecycle(
    facts: &Facts,
    wanted: &EventsWanted,
    cpus: &CpuSlots,
) -> Result<LoadedLifecycle, Error> {
    let mut exec_failures = Ok(());
    if wanted.exec_failures {
        match load(facts, wanted, cpus, true) {
            Ok(skel) => {
                return Ok(LoadedLifecycle {
                    skel,
                    exec_failures,
                });
            }
            Err(error) => exec_failures = Err(error),
        }
    }
    Ok(LoadedLifecycle {
        skel: load(facts, wanted, cpus, false)?,
        exec_failures,
    })
}

fn load(
    facts: &Facts,
    wanted: &EventsWanted,
    cpus: &CpuSlots,
    exec_failures: bool,
) -> Result<LifecycleSkel<'static>, Error> {
    let mut open = kernel_types::open::<LifecycleSkelBuilder>(&facts.kernel_types)
        .context("opening the BPF object `lifecycle`")?;
    if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
        rodata.stream_kinds = kinds(wanted.stream);
        rodata.filter_processes = wanted.filter_processes;
        rodata.filter_cgroups = wanted.filter_cgroups;
    }
    configure!(open, facts).context("setting up the BPF object `lifecycle`")?;
    open.progs
        .mark_victim
        .set_autoload(facts.hooks.contains("mark_victim"));
    open.progs
        .signal_generate
        .set_autoload(wanted.stream.has(EventKind::Signal));
    open.progs.execve_exit.set_autoload(exec_failures);
    open.progs.execveat_exit.set_autoload(exec_failures);
    let filters = |on: bool, entries| if on { entries } else { 1 };
    let streamed = kinds(wanted.stream) != 0;
    let ring = if streamed { wanted.ring_bytes } else { 4096 };
    // This object does not use the accounts of threads.
    open.maps
        .tasks
        .set_autocreate(false)
        .and_then(|()| open.maps.accounts.set_autocreate(false))
        .context("disabling the unused map of thread accounts")?;
    let sizes = [
        open.maps.cpus.reuse_fd(cpus.as_fd()),
        open.maps.process_rows.set_max_entries(wanted.cgroups),
        open.maps
            .followed
            .set_max_entries(filters(wanted.filter_processes, FOLLOWED)),
        open.maps
            .wanted_cgroups
            .set_max_entries(filters(wanted.filter_cgroups, WANTED_CGROUPS)),
        open.maps
            .facts
            .set_max_entries(ring.max(4096).next_power_of_two()),
    ];
    sizes
        .into_iter()
        .collect::<Result<(), _>>()
        .context("sizing the maps")?;
    open.load().map_err(not_loaded("lifecycle", facts))
}

pub(super) fn attach_lifecycle(
    skel: &LifecycleSkel<'static>,
    facts: &Facts,
    features: &mut Vec<Feature>,
) -> Result<Vec<Link>, Error> {
    let progs = &skel.progs;
    // The exit program is attached first, so that every process whose start is seen also has an
    // exit.
    let mut links = vec![
        progs
            .process_exit
            .attach()
            .context("attaching to sched_process_exit")?,
        progs
            .process_exec
            .attach()
            .context("attaching to sched_process_exec")?,
        progs
            .process_fork
            .attach()
            .context("attaching to sched_process_fork")?,
    ];
    features.push(Feature::on(
        FeatureId::ProcessEvents,
        "sched_process_fork, _exec and _exit",
    ));
    if !facts.hooks.contains("mark_victim") {
        features.push(Feature::off(
            FeatureId::OomEvents,
            "this kernel has no tracepoint mark_victim",
        ));
        return Ok(links);
    }
    match progs.mark_victim.attach() {
        Ok(link) => {
            links.push(link);
            features.push(oom_events(facts));
        }
        Err(error) => features.push(Feature::off(
            FeatureId::OomEvents,
            format!("mark_victim: {error}"),
        )),
    }
    Ok(links)
}

/// Attaches the programs at failed execs. `loaded` is the result of loading these programs.
pub(super) fn attach_exec_failures(
    skel: &LifecycleSkel<'static>,
    facts: &Facts,
    loaded: Result<(), Error>,
) -> (Vec<Link>, Feature) {
    let id = FeatureId::ExecFailures;
    match loaded.and_then(|()| exec_failures(skel, facts)) {
        Ok(links) => {
            let reason = "sys_exit_execve, sys_exit_execveat";
            (links, Feature::on(id, reason))
        }
        Err(error) => {
            let source = std::error::Error::source(&error);
            let source = source.map_or_else(String::new, |source| format!(": {source:#}"));
            (Vec::new(), Feature::off(id, format!("{error}{source}")))
        }
    }
}

fn exec_failures(skel: &LifecycleSkel<'static>, facts: &Facts) -> Result<Vec<Link>, Error> {
    let tracefs = Tracefs::open(facts.tracefs.as_deref())?;
    let online = facts::online_cpus(&facts.roots.sys);
    let online = online.first().copied().unwrap_or(0);
    let programs = [
        ("sys_exit_execve", &skel.progs.execve_exit),
        ("sys_exit_execveat", &skel.progs.execveat_exit),
    ];
    let attached = programs.into_iter().map(|(name, program)| {
        let id = tracefs.id("syscalls", name)?.ok_or_else(|| {
            let words = "this kernel has no system call tracepoints (CONFIG_FTRACE_SYSCALLS)";
            Error::new(ErrorKind::Kernel, words)
        })?;
        tracefs::attach(program, id, online)
    });
    attached.collect()
}

fn oom_events(facts: &Facts) -> Feature {
    if facts.tracepoints.victim_task {
        return Feature::on(FeatureId::OomEvents, "mark_victim");
    }
    Feature::degraded(
        FeatureId::OomEvents,
        "mark_victim: before Linux 6.9 it reports only the thread, so the memory size of the \
        victim is unknown",
    )
}
