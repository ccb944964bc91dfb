//! Responses about hurt groups: their verdicts over time, and the details of one group.

use std::sync::Arc;

use noctule_analysis::{OwnerId, Party, Report, TimeSpanQuery, TimelineView, busiest};
use noctule_model::{FeatureId, Level, What, Zone};
use noctule_sinks::json::{self, GroupFacts, GroupProcess, OomKill};
use noctule_web::{Query, Refusal};

use super::query::{HistoryQuery, episodes_query, owner_query};
use super::{Feed, Window, zones};

/// Maximum number of OOM kills in a response; the latest ones are kept.
const KILLS: usize = 200;

impl Feed {
    pub(super) fn episodes(&self, query: &Query) -> Result<String, Refusal> {
        let (from_ns, to_ns, most) = episodes_query(query)?;
        self.need(FeatureId::CpuWaits)?;
        let view = self.state().timeline.view();
        let kills = self.events.then(|| self.oom_kills(from_ns, to_ns));
        let span = (from_ns, to_ns);
        Ok(json::episodes_json(&view, span, most, kills.as_deref()))
    }

    fn oom_kills(&self, from_ns: u64, to_ns: u64) -> Vec<OomKill> {
        let events = self.state().log.within(from_ns, to_ns);
        let kills = events.iter().filter_map(|event| {
            let owner = event.process.as_ref()?.owner.clone()?;
            matches!(event.what, What::OomKill { .. }).then_some(OomKill {
                time_unix_ns: event.time_unix_ns,
                party: Party::Group(owner),
            })
        });
        let mut kills: Vec<OomKill> = kills.collect();
        kills.drain(..kills.len().saturating_sub(KILLS));
        kills
    }

    pub(super) fn group(&self, query: &Query) -> Result<String, Refusal> {
        let id = owner_query(query, "id")?;
        let Window { last, .. } = self.window()?;
        let wanted = HistoryQuery::parse(query, last.time_unix_ns)?;
        let view = self.state().timeline.view();
        let span = TimeSpanQuery {
            from_unix_ns: wanted.from_ns,
            to_unix_ns: wanted.to_ns,
            steps: wanted.steps,
            waits_of: None,
            pair: None,
            strips: 0,
        };
        let Some(id) = id.or_else(|| default_owner(&view, &span)) else {
            return Err(Refusal::NotYet("no group has values yet".into()));
        };
        let path = match view.parties.get(&id) {
            Some(Party::Group(owner)) => Some(owner.path.clone()),
            _ => None,
        };
        let settings = path.filter(|_| self.reader.is_some());
        let settings = settings.and_then(|path| self.state().groups.ask(path, last.sequence));
        let is_present = wanted.to_ns >= last.time_unix_ns;
        let report = match self.processes && is_present {
            true => Some(self.report(Level::Process)?),
            false => None,
        };
        let facts = GroupFacts {
            settings: settings.map(Arc::unwrap_or_clone),
            is_model: !zones(&last).iter().any(Zone::is_measured),
            has_processes: report.is_some(),
            judged_unix_ns: wanted.rows.judged_unix_ns,
        };
        let processes = |party: &Party| match &report {
            Some(report) => self.busiest_processes(report, party, last.sequence),
            None => Vec::new(),
        };
        json::group_json(&view, id, &span, &facts, processes)
            .ok_or_else(|| Refusal::Query(format!("id: no owner has the id {id}")))
    }

    /// Returns the processes of a party with the highest CPU use, and their command lines as far as
    /// they were read.
    fn busiest_processes(
        &self,
        report: &Report,
        party: &Party,
        sequence: u64,
    ) -> Vec<GroupProcess> {
        let window_ns = report.window_ns.max(1) as f64;
        let found = busiest(report, party, Level::Container).into_iter();
        let process = found.map(|process| GroupProcess {
            pid: process.id.pid,
            cpus: (process.cpu_ns as f64 / window_ns * 1e4).round() / 1e4,
            command_line: match self.recorded {
                None => {
                    self.state()
                        .looked_at
                        .ask(process.id, sequence)
                        .command_line
                }
                Some(_) => None,
            },
            name: process.comm,
        });
        process.collect()
    }
}

/// Returns the owner with the most CPU time in the span.
fn default_owner(view: &TimelineView, span: &TimeSpanQuery) -> Option<OwnerId> {
    let owners = view.range(span).owners.into_iter();
    owners
        .map(|owner| owner.id)
        .find(|id| view.parties.contains_key(id))
}
