//! The machine as a whole, the agent's cost, and processor packages. The node has one row per
//! batch, so this table lists the batches.

use noctule_model::{AgentCost, Batch, Node, PackageRow};

use super::Owners;
use super::group::{EventFigures, SocketsRecord};
use super::kept::{Flat, Keeps, Writing, record_of};
use super::process::{Figures, UseRecord};
use super::status::in_order;
use crate::column::{List, Moment, record};

record_of! {
    /// The machine as a whole.
    pub(crate) struct MachineRecord of Node {
        cpus: u32,
        elapsed_ns: u64,
        idle_ns: u64,
        interrupt_ns: Option<u64>,
        steal_ns: Option<u64>,
        steal_included_ns: Option<u64>,
        idle_switches: u64,
        total: Figures,
        events: EventFigures,
        sockets: Flat<SocketsRecord>,
        nominal_hertz: Option<u64>,
        /// Whether processes outside the agent's pid namespace are missing.
        outside_unseen: bool,
    }
}

record! {
    /// The values that exist once per batch.
    pub(crate) struct NodeRecord {
        time: Moment,
        /// `CLOCK_MONOTONIC`.
        taken_ns: u64,
        boot_time: Moment,
        /// Whether there is an energy meter.
        metered: bool,
        followed_pending: bool,
        node: Flat<MachineRecord>,
        agent_cpu_ns: u64,
        agent_resident_bytes: u64,
        agent_collect_ns: u64,
        /// Whether the run time of BPF programs is measured.
        programs_measured: bool,
        programs_window_ns: u64,
    }
}

impl NodeRecord {
    pub(crate) fn new(batch: &Batch, to: &mut Writing<'_>) -> Self {
        // Programs and maps have their own tables.
        let AgentCost {
            cpu_ns,
            resident_bytes,
            collect_ns,
            programs,
            programs_window_ns,
            maps: _,
            // These values describe the recording agent and are useless to a reader.
            bounded_groups: _,
            sendings: _,
        } = &batch.agent;
        Self {
            time: Moment(batch.time_unix_ns),
            taken_ns: batch.taken_ns,
            boot_time: Moment(batch.boot_unix_ns),
            metered: batch.energy.is_some(),
            followed_pending: batch.followed_pending,
            node: Keeps::keep(&batch.node, to),
            agent_cpu_ns: *cpu_ns,
            agent_resident_bytes: *resident_bytes,
            agent_collect_ns: *collect_ns,
            programs_measured: programs.is_some(),
            programs_window_ns: *programs_window_ns,
        }
    }

    /// Returns a batch with these values and no rows.
    pub(crate) fn batch(&self, sequence: u64, owners: &Owners) -> Batch {
        let MachineRecord { total, events, .. } = &self.node.0;
        Batch {
            sequence,
            time_unix_ns: self.time.0,
            taken_ns: self.taken_ns,
            boot_unix_ns: self.boot_time.0,
            node: self.node.value(owners),
            measured: total.measured.or(events.measured),
            followed_pending: self.followed_pending,
            agent: AgentCost {
                cpu_ns: self.agent_cpu_ns,
                resident_bytes: self.agent_resident_bytes,
                collect_ns: self.agent_collect_ns,
                programs: self.programs_measured.then(Vec::new),
                programs_window_ns: self.programs_window_ns,
                ..AgentCost::default()
            },
            ..Batch::default()
        }
    }
}

record_of! {
    pub(crate) struct PackageUseRecord of PackageRow {
        id: i32,
        cpus: u32,
        elapsed_ns: u64,
        idle_ns: u64,
        /// A list with exactly one item.
        used: List<UseRecord>,
    }
}

in_order! {
    /// A package (socket), and its position in the list of packages.
    PackageRecord: PackageUseRecord of PackageRow
}
