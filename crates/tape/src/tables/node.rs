//! The machine as a whole, the agent's cost, and processor packages. The node has one row per
//! batch, so this table lists the batches.

use noctule_model::{AgentCost, Batch, Node, PackageRow, Sockets};

use super::Owners;
use super::group::EventFigures;
use super::kept::{Writing, record_of};
use super::process::{Figures, UseRecord};
use super::status::in_order;
use crate::column::{Counted, List, Moment, record};

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
        cpus: u32,
        elapsed_ns: u64,
        idle_ns: u64,
        interrupt_ns: Option<u64>,
        steal_ns: Option<u64>,
        steal_included_ns: Option<u64>,
        idle_switches: u64,
        counters: Figures,
        events: EventFigures,
        connections: u64,
        listeners: u64,
        nominal_hertz: Option<u64>,
        /// Whether processes outside the agent's pid namespace are missing.
        outside_unseen: bool,
        agent_cpu_ns: u64,
        agent_resident_bytes: u64,
        agent_collect_ns: u64,
        /// Whether the run time of BPF programs is measured.
        programs_measured: bool,
        programs_window_ns: u64,
    }
}

impl NodeRecord {
    pub(crate) fn new(batch: &Batch, _: &mut Writing<'_>) -> Self {
        let Node {
            cpus,
            elapsed_ns,
            idle_ns,
            interrupt_ns,
            steal_ns,
            steal_included_ns,
            idle_switches,
            total,
            events,
            sockets,
            nominal_hertz,
            outside_unseen,
        } = batch.node;
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
            cpus,
            elapsed_ns,
            idle_ns,
            interrupt_ns,
            steal_ns,
            steal_included_ns,
            idle_switches,
            counters: Counted {
                counts: total,
                measured: batch.measured,
            },
            events: Counted {
                counts: events,
                measured: batch.measured,
            },
            connections: sockets.connections,
            listeners: sockets.listeners,
            nominal_hertz,
            outside_unseen,
            agent_cpu_ns: *cpu_ns,
            agent_resident_bytes: *resident_bytes,
            agent_collect_ns: *collect_ns,
            programs_measured: programs.is_some(),
            programs_window_ns: *programs_window_ns,
        }
    }

    /// Returns a batch with these values and no rows.
    pub(crate) fn batch(&self, sequence: u64, _: &Owners) -> Batch {
        Batch {
            sequence,
            time_unix_ns: self.time.0,
            taken_ns: self.taken_ns,
            boot_unix_ns: self.boot_time.0,
            node: Node {
                cpus: self.cpus,
                elapsed_ns: self.elapsed_ns,
                idle_ns: self.idle_ns,
                interrupt_ns: self.interrupt_ns,
                steal_ns: self.steal_ns,
                steal_included_ns: self.steal_included_ns,
                idle_switches: self.idle_switches,
                total: self.counters.counts,
                events: self.events.counts,
                sockets: Sockets {
                    connections: self.connections,
                    listeners: self.listeners,
                },
                nominal_hertz: self.nominal_hertz,
                outside_unseen: self.outside_unseen,
            },
            measured: self.counters.measured.or(self.events.measured),
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
    /// The row of a package.
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
