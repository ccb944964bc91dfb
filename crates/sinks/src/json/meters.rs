//! The power meters, as `noctule doctor` lists them.

use noctule_model::{Unread, UnreadZone, Zone};
use serde::Serialize;

/// A zone, whether or not it can be read.
#[derive(Serialize)]
pub(super) struct MeterJson<'a> {
    zone: &'static str,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    socket: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    die: Option<u32>,
    source: &'static str,
    path: &'a str,
    resolution_microjoules: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    part_of: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    covered_by: Option<&'a str>,
}

impl<'a> MeterJson<'a> {
    pub(super) fn read(zone: &'a Zone) -> Self {
        Self {
            zone: zone.kind.name(),
            name: &zone.name,
            socket: zone.socket,
            die: zone.die,
            source: zone.source.name(),
            path: &zone.path,
            resolution_microjoules: zone.resolution_uj,
            part_of: zone.parent,
            refused: None,
            covered_by: None,
        }
    }

    pub(super) fn unread(unread: &'a UnreadZone) -> Self {
        let (refused, covered_by) = match &unread.why {
            Unread::Refused(why) => (Some(why.as_str()), None),
            Unread::Covered(by) => (None, Some(by.as_str())),
        };
        Self {
            refused,
            covered_by,
            ..Self::read(&unread.zone)
        }
    }
}
