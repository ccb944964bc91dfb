//! Events, as programs read them (one JSON object each) and as people do (the parts of a line).
//!
//! Both keep the bytes of strangers without loss: what is not UTF-8 becomes `\xHH`, and a backslash
//! is doubled, so that the two cannot be taken for each other.

mod json;
mod line;
mod redact;

pub(crate) use json::event_value;
pub use json::{event_json, events_json};
pub use line::{EventLine, Tone, event_line};
pub use redact::redact;
