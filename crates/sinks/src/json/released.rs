//! The processes that ended the blocks of a row.

use noctule_analysis::{Released, ReleasedBy};
use noctule_model::Level;
use serde::Serialize;

use super::owner::OwnerJson;
use super::seconds;

/// The blocked time of one class. The parts add up to `seconds`.
#[derive(Serialize)]
pub(super) struct ReleasedJson<'a> {
    class: &'static str,
    seconds: f64,
    by: Vec<ReleaserJson<'a>>,
    nobody_seconds: f64,
    open_seconds: f64,
    unknown_seconds: f64,
}

#[derive(Serialize)]
struct ReleaserJson<'a> {
    name: String,
    #[serde(flatten)]
    owner: OwnerJson<'a>,
    kind: &'static str,
    #[serde(rename = "self")]
    is_own: bool,
    seconds: f64,
    share: f64,
    process: ReleasingJson<'a>,
}

/// The process that ended the most blocked time.
#[derive(Serialize)]
struct ReleasingJson<'a> {
    #[serde(rename = "process.pid")]
    pid: u32,
    #[serde(
        rename = "process.executable.name",
        skip_serializing_if = "Option::is_none"
    )]
    name: Option<&'a str>,
    seconds: f64,
}

impl<'a> ReleasedJson<'a> {
    pub(super) fn new(released: &'a Released, level: Level) -> Self {
        let by = released.by.iter();
        Self {
            class: released.class.name(),
            seconds: seconds(released.blocked_ns),
            by: by
                .map(|by| ReleaserJson::new(by, released.blocked_ns, level))
                .collect(),
            nobody_seconds: seconds(released.nobody_ns),
            open_seconds: seconds(released.open_ns),
            unknown_seconds: seconds(released.unknown_ns),
        }
    }
}

impl<'a> ReleaserJson<'a> {
    fn new(by: &'a ReleasedBy, blocked_ns: u64, level: Level) -> Self {
        Self {
            name: by.party.name(level),
            owner: OwnerJson::of_party(&by.party, level),
            kind: by.party.kind(),
            is_own: by.is_own,
            seconds: seconds(by.blocked_ns),
            share: by.blocked_ns as f64 / blocked_ns.max(1) as f64,
            process: ReleasingJson {
                pid: by.process.pid,
                name: by.comm.as_deref(),
                seconds: seconds(by.process_ns),
            },
        }
    }
}
