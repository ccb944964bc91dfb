//! Programs that are loaded only if the user enabled them and their events are kept.

use anyhow::Result;
use noctule_kernel::{Disks, Events, Facts, FileEvents, FileOptions, UdpEvents, UdpOptions};
use noctule_model::{EventKind, Feature, FeatureId};

use super::{Pipeline, Shown, chain, now_ns};
use crate::config::{Config, RingSize};
use crate::features::not_asked_for;
use crate::scope::Scope;

impl Pipeline {
    /// Returns whether so many processes or groups ended that the next batch should not wait. The
    /// batch deletes the rows of these groups.
    pub(crate) fn is_crowded(&self) -> bool {
        self.cpu.is_crowded() || self.released.len() > self.most_released
    }

    /// Returns whether energy is measured. Energy is apportioned batch by batch.
    pub(crate) fn has_meters(&self) -> bool {
        !self.meters.zones().is_empty()
    }

    /// Like [`Self::start`], but also measures which processes end the blocks of threads, and which
    /// groups use the block devices. Loads a program that runs at each wake-up.
    pub(crate) fn start_with_blocks(config: &Config, shown: Shown) -> Result<Self> {
        let scope = Scope {
            releasers: true,
            disks: true,
            verdicts: true,
            ..Scope::default()
        };
        let mut this = Self::load(config, &scope, shown)?;
        this.narrow(&scope)?;
        Ok(this)
    }
}

/// Enables everything, and returns the features that were not enabled before.
pub(super) fn enable_all_features(config: &mut Config) -> Vec<FeatureId> {
    let (events, disks) = (&mut config.events, config.collect.disks);
    let asked = [
        (FeatureId::DiskUse, disks),
        (FeatureId::ExecFailures, events.exec_failures),
        (FeatureId::FileOpens, events.files),
        (FeatureId::UdpEvents, events.dns || events.udp),
    ];
    (events.exec_failures, events.files) = (true, true);
    (events.dns, events.udp) = (true, true);
    let unasked = asked.into_iter().filter(|(_, asked)| !asked);
    unasked.map(|(id, _)| id).collect()
}

/// Loads the programs that trace files. These programs are off by default, because some kernels
/// only offer tracepoints that slow down every system call.
pub(super) fn load_files(
    facts: &Facts,
    config: &Config,
    scope: &Scope,
    events: &Events,
    features: &mut Vec<Feature>,
) -> Option<FileEvents> {
    let id = FeatureId::FileOpens;
    if !config.events.files {
        features.push(not_asked_for(id));
        return None;
    }
    let options = FileOptions {
        reads: scope.reads || config.events.file_reads,
        failures: scope.failures || config.events.file_failures,
        special: config.events.file_special,
        prefix: scope.path.as_deref(),
        stream: scope.kinds.has(EventKind::File),
        filter_processes: scope.filters_processes(),
        filter_cgroups: scope.filters_cgroups(),
        ring_bytes: RingSize::BULK
            .bytes(config.events.bulk_ring_bytes, facts.topology.cpus().count()),
        rows: config.collect.cgroup_rows,
    };
    match FileEvents::load(facts, &options, Some(events.shared())) {
        Ok((files, status)) => {
            features.extend(status);
            files
        }
        Err(error) => {
            features.push(Feature::off(id, chain(&error)));
            None
        }
    }
}

/// Loads the programs that trace block devices. These programs are off by default, because they run
/// for each request.
pub(super) fn load_disks(
    facts: &Facts,
    config: &Config,
    scope: &Scope,
    shown: Shown,
    features: &mut Vec<Feature>,
) -> Option<Disks> {
    let id = FeatureId::DiskUse;
    if !scope.disks {
        let status = match config.collect.disks {
            true => Feature::off(id, "this command does not show it")
                .with_fix("watch with noctule why NAME"),
            false => not_asked_for(id),
        };
        features.extend((shown == Shown::All).then_some(status));
        return None;
    }
    match Disks::load(facts, config.collect.cgroup_rows, now_ns) {
        Ok(disks) => {
            features.push(Feature::on(id, "the tracepoints of block I/O"));
            Some(disks)
        }
        Err(error) => {
            features.push(Feature::off(id, chain(&error)));
            None
        }
    }
}

/// Loads the programs for UDP and DNS. These programs are off by default, because they run for each
/// packet that a process sends or receives.
pub(super) fn load_udp(
    facts: &Facts,
    config: &Config,
    scope: &Scope,
    events: &Events,
    features: &mut Vec<Feature>,
) -> Option<UdpEvents> {
    let id = FeatureId::UdpEvents;
    let wanted = scope.kinds.has_any(&[EventKind::Dns, EventKind::Udp]);
    if !wanted && (config.events.dns || config.events.udp) {
        features.push(Feature::off(id, "nothing stores them").with_fix(
            "write events to a file or a tape, or watch with noctule events --kind dns,udp",
        ));
        return None;
    }
    if !wanted {
        features.push(not_asked_for(id));
        return None;
    }
    let options = UdpOptions {
        dns: scope.kinds.has(EventKind::Dns),
        flows: scope.kinds.has(EventKind::Udp),
        filter_processes: scope.filters_processes(),
        filter_cgroups: scope.filters_cgroups(),
        ring_bytes: RingSize::BULK
            .bytes(config.events.bulk_ring_bytes, facts.topology.cpus().count()),
    };
    let (udp, status) = UdpEvents::load(facts, &options, Some(events.shared()));
    features.push(status);
    udp
}
