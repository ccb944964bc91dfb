//! `noctule top`: the live view of one node on a terminal.
//!
//! [`run`] takes batches from a channel and shows the difference between each two of them; [`replay`]
//! shows those of a recording, at any place. The rooms,
//! each of which uses only those before it:
//!
//! - `data`: the last minute of batches, and what is derived from them;
//! - `table`: which rows and columns there are, and their order;
//! - `state`: what the user chose; it depends on no terminal;
//! - `draw`: the state as lines of text;
//! - `terminal`: the screen, the keyboard and the loop.

mod data;
mod draw;
mod state;
mod table;
mod terminal;
mod text;

pub use state::{About, Moment, Options, View};
pub use terminal::{End, Recorded, Run, replay, run};

#[cfg(test)]
mod tests;
