//! The event counters of a `stat` row or of the node.

use noctule_model::{Events, Measured};
use noctule_schema::events::EVENTS;
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use super::value::ValueJson;

/// The fields of [`noctule_schema::events`]. Fields that are not measured are absent.
#[derive(Default)]
pub(super) struct EventsJson {
    events: Events,
    measured: Measured,
}

impl EventsJson {
    pub(super) fn new(events: &Events, measured: Measured) -> Self {
        let events = *events;
        Self { events, measured }
    }
}

impl Serialize for EventsJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for field in EVENTS {
            if let Some(value) = field.get(&self.events, self.measured) {
                map.serialize_entry(field.key, &ValueJson(&value))?;
            }
        }
        map.end()
    }
}
