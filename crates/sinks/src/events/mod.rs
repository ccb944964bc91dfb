//! Events as JSON objects for programs, and as the parts of a line for people.
//!
//! Both forms escape bytes without loss. A byte that is not UTF-8 becomes `\xHH`, and a backslash
//! in the original is doubled, so the two cannot be confused.

mod json;
mod line;
mod redact;

pub(crate) use json::event_value;
pub use json::{event_json, events_json};
pub use line::{EventLine, Tone, event_line};
pub use redact::redact;
