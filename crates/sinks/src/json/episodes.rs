//! The JSON of the verdicts over time.

use std::collections::HashMap;
use std::sync::Arc;

use noctule_analysis::{Episode, HurtGroup, OwnerId, Party, TimePoint, TimelineView};
use noctule_model::Level;
use serde::Serialize;

use super::history::{PartyJson, name};
use super::{seconds, to_string};

/// An OOM kill in a known group.
#[derive(Clone, Debug)]
pub struct OomKill {
    /// Time in nanoseconds since 1970.
    pub time_unix_ns: u64,
    pub party: Party,
}

/// Returns the response to `episodes`: at most `most` hurt groups in descending order of lost time,
/// with their episodes in the part of a range that the points and the judged windows cover.
/// Includes the kills and restarts that the points cover. `kills` is `None` if events are not kept.
pub fn episodes_json(
    view: &TimelineView,
    (from_unix_ns, to_unix_ns): (u64, u64),
    most: usize,
    kills: Option<&[OomKill]>,
) -> String {
    // Windows and events are kept for longer than points, but an id is dropped with its last point.
    let begin = |point: &Arc<TimePoint>| point.time_unix_ns.saturating_sub(point.length_ns);
    let from_unix_ns = from_unix_ns.max(view.points.first().map_or(0, begin));
    let to_unix_ns = to_unix_ns.min(view.points.last().map_or(0, |it| it.time_unix_ns));
    let (from, to) = view.judged_part(from_unix_ns, to_unix_ns);
    let mut groups = view.episodes(from, to);
    let more = groups.len().saturating_sub(most);
    groups.truncate(most);
    let inside = |ns: u64| (from_unix_ns..=to_unix_ns).contains(&ns);
    let known = view.parties.iter().filter(|_| kills.is_some());
    let known = known.map(|(id, party)| (party.key(Level::Container), *id));
    let ids: HashMap<_, _> = known.collect();
    let id = |party: &Party| ids.get(&party.key(Level::Container)).copied();
    let kill = |kill: &OomKill| MarkJson {
        time_unix_nano: kill.time_unix_ns,
        id: id(&kill.party),
        name: name(&kill.party),
    };
    let restarts = view.restarts.iter().filter(|it| inside(it.time_unix_ns));
    let restarts = restarts.filter_map(|restart| {
        Some(MarkJson {
            time_unix_nano: restart.time_unix_ns,
            id: Some(restart.id),
            name: name(view.parties.get(&restart.id)?),
        })
    });
    let kills = kills.map(|all| all.iter().filter(|it| inside(it.time_unix_ns)));
    to_string(&Answer {
        from,
        to: to.max(from),
        rows: groups.iter().map(GroupJson::new).collect(),
        more,
        oom_kills: kills.map(|kills| kills.map(kill).collect()),
        restarts: restarts.collect(),
    })
}

#[derive(Serialize)]
struct Answer<'a> {
    #[serde(rename = "from_unix_nano")]
    from: u64,
    #[serde(rename = "to_unix_nano")]
    to: u64,
    rows: Vec<GroupJson<'a>>,
    more: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    oom_kills: Option<Vec<MarkJson>>,
    restarts: Vec<MarkJson>,
}

#[derive(Serialize)]
struct GroupJson<'a> {
    #[serde(flatten)]
    party: PartyJson<'a>,
    #[serde(rename = "hurt.seconds")]
    hurt: f64,
    episodes: Vec<EpisodeJson>,
}

#[derive(Serialize)]
struct EpisodeJson {
    from_unix_nano: u64,
    to_unix_nano: u64,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    culprit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    culprit_id: Option<OwnerId>,
    #[serde(rename = "wait.seconds")]
    wait: f64,
    #[serde(rename = "hurt.seconds")]
    hurt: f64,
    judged_seconds: f64,
    worst_unix_nano: u64,
    reason: String,
}

#[derive(Serialize)]
struct MarkJson {
    time_unix_nano: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<OwnerId>,
    name: String,
}

impl<'a> GroupJson<'a> {
    fn new(group: &'a HurtGroup) -> Self {
        Self {
            party: PartyJson::new(group.id, &group.party, group.wait_ns),
            hurt: seconds(group.hurt_ns),
            episodes: group.episodes.iter().map(EpisodeJson::new).collect(),
        }
    }
}

impl EpisodeJson {
    fn new(episode: &Episode) -> Self {
        Self {
            from_unix_nano: episode.from_unix_ns,
            to_unix_nano: episode.to_unix_ns,
            kind: episode.kind.name(),
            culprit: episode.culprit.as_ref().map(name),
            culprit_id: episode.culprit_id,
            wait: seconds(episode.wait_ns),
            hurt: seconds(episode.hurt_ns),
            judged_seconds: seconds(episode.judged_ns),
            worst_unix_nano: episode.worst_unix_ns,
            reason: noctule_text::sentence(&episode.reason),
        }
    }
}
