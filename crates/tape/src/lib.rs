//! Recordings: batches and events written as Arrow tables within size limits, and read back
//! unchanged.
//!
//! A recording ("tape") is a directory of segments (docs/tape.md). A segment has one file per
//! table. A segment starts with every row and continues with the changed rows. If a segment is
//! damaged, only the data before the damage can be read. The damage is reported with its position.

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
