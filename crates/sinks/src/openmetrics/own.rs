//! Writes the metrics of the node as a whole, and of the agent itself.

use noctule_model::{
    Counter, FeatureState, Metric, ProgramCost, SELF_METRICS, SelfSource, Sending,
};

use super::levels::connects_measured;
use super::snapshot::{Served, Snapshot};
use super::text::Value;
use super::view::Born;
use super::writer::Writer;

/// Writes all families that have samples.
pub(super) fn write(text: &mut Writer, snapshot: &Snapshot, now_ns: u64) {
    for metric in SELF_METRICS {
        let mut family = Family {
            text,
            metric,
            born: snapshot.born(),
            begun: false,
        };
        family.fill(snapshot, now_ns);
    }
}

/// A family whose header is written with its first sample.
struct Family<'a> {
    text: &'a mut Writer,
    metric: &'static Metric<SelfSource>,
    born: Born,
    begun: bool,
}

impl Family<'_> {
    fn fill(&mut self, snapshot: &Snapshot, now_ns: u64) {
        let agent = &snapshot.agent;
        let node = &snapshot.node;
        let measured = snapshot.measured.has(Counter::CpuTime);
        match self.metric.source {
            SelfSource::NodeIdle
            | SelfSource::NodeIdleSwitches
            | SelfSource::NodeRemainder
            | SelfSource::NodeInterrupt
            | SelfSource::NodeSteal
            | SelfSource::NodeStealIncluded
                if !measured => {}
            SelfSource::NodeIdleSwitches => self.put(Value::Count(node.idle_switches)),
            SelfSource::NodeIdle => self.put(Value::Nanoseconds(node.idle_ns)),
            SelfSource::NodeRemainder => self.put(Value::Nanoseconds(node.remainder_ns())),
            SelfSource::NodeInterrupt => self.put_known(node.interrupt_ns),
            SelfSource::NodeSteal => self.put_known(node.steal_ns),
            SelfSource::NodeStealIncluded => self.put_known(node.steal_included_ns),
            SelfSource::NodeEnergy | SelfSource::EnergyError => self.energy(snapshot),
            SelfSource::NodeCpus => self.put(Value::Count(node.cpus.into())),
            SelfSource::AgentCpu => self.put(Value::Nanoseconds(agent.cpu_ns)),
            SelfSource::AgentResident => self.put(Value::Count(agent.resident_bytes)),
            SelfSource::TickAge if snapshot.recorded => {}
            SelfSource::TickAge => {
                self.put(Value::Nanoseconds(now_ns.saturating_sub(snapshot.taken_ns)));
            }
            SelfSource::TickDuration => self.put(Value::Nanoseconds(agent.collect_ns)),
            SelfSource::ProgramTime => self.programs(snapshot, |p| Value::Nanoseconds(p.run_ns)),
            SelfSource::ProgramRuns => self.programs(snapshot, |p| Value::Count(p.runs)),
            SelfSource::ProgramMisses => {
                self.programs(snapshot, |p| Value::Count(p.recursion_misses));
            }
            SelfSource::ProgramWindow if agent.programs.is_some() => {
                self.put(Value::Nanoseconds(agent.programs_window_ns));
            }
            SelfSource::ProgramWindow => {}
            SelfSource::MapEntries => {
                for map in &agent.maps {
                    self.put_with(&[map.name], Value::Count(map.entries));
                }
            }
            SelfSource::MapCapacity => {
                for map in &agent.maps {
                    self.put_with(&[map.name], Value::Count(map.capacity));
                }
            }
            SelfSource::Losses => {
                for loss in &snapshot.losses {
                    self.put_with(&[loss.kind, loss.place], Value::Count(loss.count));
                }
            }
            SelfSource::Feature => self.features(snapshot),
            SelfSource::OverflowSubjects => self.overflowed(snapshot),
            SelfSource::OverflowPairs if snapshot.measured.has_waits() => {
                self.put(Value::Count(snapshot.overflow_blames as u64));
            }
            SelfSource::OverflowPairs => {}
            SelfSource::OverflowDestinations | SelfSource::BoundedGroups => {
                self.full_tables(snapshot);
            }
            SelfSource::WebRefused | SelfSource::WebConfigValid | SelfSource::UntrackedScrapes => {
                self.served(&snapshot.served);
            }
            SelfSource::Sent
            | SelfSource::SendingLost
            | SelfSource::SendingRetries
            | SelfSource::SendingWaits
            | SelfSource::SendingBytes => agent.sendings.iter().for_each(|it| self.sending(it)),
            SelfSource::BuildInfo => self.put_with(&[snapshot.version], Value::Count(1)),
        }
    }

    fn energy(&mut self, snapshot: &Snapshot) {
        for zone in &snapshot.energy.zones {
            let [kind, socket, source] = &zone.labels;
            if self.metric.source == SelfSource::EnergyError {
                if let Some(ratio) = zone.error_ratio.filter(|ratio| ratio.is_finite()) {
                    self.put_with(&[kind, socket, source], Value::Float(ratio));
                }
                continue;
            }
            for (part, uj) in zone.parts {
                self.put_with(&[kind, socket, source, part], Value::Microjoules(uj));
            }
        }
    }

    fn served(&mut self, served: &Served) {
        let value = match self.metric.source {
            SelfSource::WebRefused => {
                for (reason, count) in &served.refused {
                    self.put_with(&[reason], Value::Count(*count));
                }
                return;
            }
            SelfSource::WebConfigValid => served.config_valid.map(u64::from),
            _ => served.untracked_scrapes,
        };
        if let Some(value) = value {
            self.put(Value::Count(value));
        }
    }

    fn programs(&mut self, snapshot: &Snapshot, value: impl Fn(&ProgramCost) -> Value) {
        for program in snapshot.agent.programs.iter().flatten() {
            self.put_with(&[&program.name], value(program));
        }
    }

    fn sending(&mut self, sending: &Sending) {
        let count = match self.metric.source {
            SelfSource::SendingLost => {
                for (reason, count) in &sending.lost {
                    self.put_with(&[sending.signal, reason], Value::Count(*count));
                }
                return;
            }
            SelfSource::SendingRetries => sending.retries,
            SelfSource::SendingWaits => sending.waiting,
            SelfSource::SendingBytes => sending.waiting_bytes,
            _ => sending.sent,
        };
        self.put_with(&[sending.signal], Value::Count(count));
    }

    fn features(&mut self, snapshot: &Snapshot) {
        for feature in &*snapshot.features {
            let state = FeatureState::name(feature.state);
            self.put_with(
                &[feature.id.name(), state, &feature.reason],
                Value::Count(1),
            );
        }
    }

    fn overflowed(&mut self, snapshot: &Snapshot) {
        for level in &snapshot.levels {
            if let Some(overflowed) = level.overflowed {
                self.put_with(&[level.name], Value::Count(overflowed as u64));
            }
        }
    }

    /// Writes how many destinations have no series of their own, or how many groups get no more
    /// rows for destinations. Writes nothing if TCP is not measured.
    fn full_tables(&mut self, snapshot: &Snapshot) {
        if !connects_measured(snapshot.measured) {
            return;
        }
        if self.metric.source == SelfSource::OverflowDestinations {
            self.put(Value::Count(snapshot.overflow_destinations as u64));
        } else if let Some(bounded) = snapshot.agent.bounded_groups {
            self.put_with(&["events.destinations"], Value::Count(bounded));
        }
    }

    fn put(&mut self, value: Value) {
        self.put_with(&[], value);
    }

    /// Writes the value, if it is known.
    fn put_known(&mut self, ns: Option<u64>) {
        if let Some(ns) = ns {
            self.put(Value::Nanoseconds(ns));
        }
    }

    /// Writes a sample. `values` belong to the metric's own labels, in their order.
    fn put_with(&mut self, values: &[&str], value: Value) {
        if !self.begun {
            self.text.family("", self.metric);
            self.begun = true;
        }
        let own = (self.metric.labels, values);
        self.text.sample(self.born, "", own, value);
    }
}
