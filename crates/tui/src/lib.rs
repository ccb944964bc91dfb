//! `noctule top`: the interactive view of one node on a terminal.
//!
//! [`run`] takes batches from a channel and shows the difference between consecutive batches.
//! [`replay`] shows any moment of a recording. Each module below uses only the modules before it:
//!
//! - `data`: the last minute of batches, and data derived from them;
//! - `table`: rows, columns and their order;
//! - `state`: the user's choices, independent of a terminal;
//! - `draw`: the state as lines of text;
//! - `terminal`: the screen, the keyboard and the loop.

mod data;
mod draw;
mod state;
mod table;
mod terminal;
mod text;

pub use state::{About, Files, Moment, NoFiles, Options, View};
pub use terminal::{End, Recorded, Run, replay, run};

#[cfg(test)]
mod tests;
