//! Recordings: all that batches and events hold, written as tables of Arrow, kept within bounds, and
//! read again as the same batches and events.
//!
//! A tape is a folder of segments (docs/tape.md). A segment has a file for each table, begins with
//! every row, and goes on with those that changed. What is damaged ends what can be read of its segment;
//! it is reported with its place, and nothing before it is lost.

mod age;
mod changes;
mod column;
mod error;
mod events;
mod export;
mod folder;
mod index;
mod message;
mod names;
mod parts;
mod pending;
mod private;
mod recorder;
mod rows;
mod segment;
mod stretch;
mod tables;
mod tally;
mod tape;
#[cfg(test)]
mod tests;
mod unnamed;
mod writer;

pub use error::{Damage, Error};
pub use events::Events;
pub use export::{Exported, Partition, TableFormat, export};
pub use folder::Limits;
pub use recorder::Recorder;
pub use segment::{Meta, Segment};
pub use stretch::Stretch;
pub use tape::{Batches, Span, Tape};
pub use writer::Options;
