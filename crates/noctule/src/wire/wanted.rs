//! Options of the pipeline's components, derived from the configuration.

use std::time::Duration;

use noctule_analysis::Rollup;
use noctule_collect::Grace;
use noctule_identity::Registry;
use noctule_kernel::{CounterSpec, EventsWanted, Facts, Wanted};

use super::REMOVED_NS;
use super::groups::mount;
use crate::config::{Config, RingSize};
use crate::rights;
use crate::scope::Scope;

pub(super) fn wanted(config: &Config, scope: &Scope, facts: &Facts) -> Wanted {
    let collect = &config.collect;
    Wanted {
        counters: if collect.hardware_counters {
            CounterSpec::HARDWARE.to_vec()
        } else {
            vec![]
        },
        page_cache: collect.page_cache,
        softirqs: collect.softirqs,
        waits: collect.waits,
        releasers: scope.releasers,
        blames: collect.blame_rows,
        cgroups: collect.cgroup_rows,
        processes: collect.process_rows,
        ring_bytes: RingSize::ENDED.bytes(collect.ring_bytes, facts.topology.cpus().count()),
    }
}

pub(super) fn subject_grace(config: &Config) -> Duration {
    Duration::from_secs_f64(config.metrics.grace_seconds)
}

/// Creates the rollup of groups to subjects. After its last group is no longer listed, a subject is
/// kept for the rest of its own grace period.
pub(crate) fn rollup(config: &Config) -> Rollup {
    let stays = subject_grace(config).saturating_sub(grace(config).cgroup);
    Rollup::new(stays.as_nanos() as u64)
}

pub(super) fn registry(config: &Config, facts: &Facts) -> Registry {
    Registry::new(noctule_identity::Config {
        root: "/".into(),
        cgroup_mount: mount(&facts.hierarchy),
        remember: remembered(config),
        on_thread: rights::read_only,
        ..noctule_identity::Config::default()
    })
}

pub(super) fn grace(config: &Config) -> Grace {
    Grace::at_most(subject_grace(config))
}

/// Returns how long owners of removed groups are remembered, so that every listed group keeps its
/// name.
pub(super) fn remembered(config: &Config) -> Duration {
    let wanted = Duration::from_secs_f64(config.collect.dead_cgroup_memory_seconds);
    let listed = Duration::from_nanos(REMOVED_NS) + grace(config).cgroup;
    // Adds a margin of some ticks.
    wanted.max(listed + 3 * config.longest_interval())
}

pub(super) fn counts_events(config: &Config) -> bool {
    config.events.processes || config.events.tcp
}

pub(super) fn events_wanted(config: &Config, scope: &Scope, facts: &Facts) -> EventsWanted {
    let events = &config.events;
    EventsWanted {
        tcp: events.tcp,
        exec_failures: events.exec_failures,
        stream: scope.kinds,
        filter_processes: scope.filters_processes(),
        filter_cgroups: scope.filters_cgroups(),
        ring_bytes: RingSize::EVENTS.bytes(events.ring_bytes, facts.topology.cpus().count()),
        cgroups: config.collect.cgroup_rows,
        destinations: events.destinations,
    }
}
