//! The events and measurements that a command needs.

use std::path::PathBuf;

use noctule_model::{EventKind, EventKinds, FeatureId};

use crate::args::Names;

/// Selects events, and the measurements that only some commands show.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope {
    pub(crate) kinds: EventKinds,
    pub(crate) names: Names,
    pub(crate) path: Option<PathBuf>,
    pub(crate) reads: bool,
    pub(crate) failures: bool,
    pub(crate) existing: bool,
    /// Whether only events of a command that will be started are selected.
    pub(crate) command: bool,
    /// Whether the user specified the kinds. Otherwise they are the default kinds.
    pub(crate) named: bool,
    /// Whether to measure which processes end the blocks of threads.
    pub(crate) releasers: bool,
    /// Whether the use of block devices is measured.
    pub(crate) disks: bool,
    /// Whether verdicts are shown, or recorded for later.
    pub(crate) verdicts: bool,
}

impl Scope {
    pub(crate) fn filters_processes(&self) -> bool {
        !self.names.pid.is_empty() || self.command
    }

    pub(crate) fn filters_cgroups(&self) -> bool {
        self.names.has_names()
    }

    /// Returns the features that provide the selected events.
    pub(crate) fn features(&self) -> Vec<FeatureId> {
        const FEATURES: [(&[EventKind], FeatureId); 7] = [
            (
                &[EventKind::Process, EventKind::Signal],
                FeatureId::ProcessEvents,
            ),
            (&[EventKind::ExecFailure], FeatureId::ExecFailures),
            (&[EventKind::Oom], FeatureId::OomEvents),
            (&[EventKind::Tcp], FeatureId::TcpEvents),
            (&[EventKind::File], FeatureId::FileOpens),
            (&[EventKind::File], FeatureId::FileChanges),
            (&[EventKind::Dns, EventKind::Udp], FeatureId::UdpEvents),
        ];
        let wanted = FEATURES
            .iter()
            .filter(|(kinds, _)| self.kinds.has_any(kinds));
        wanted.map(|(_, feature)| *feature).collect()
    }
}
