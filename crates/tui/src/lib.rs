//! `noctule top`: the live view of one node on a terminal.
//!
//! [`run`] takes batches from a channel and shows the difference between each two of them. Inside,
//! `app` is the state and knows no terminal; `view` and the modules that it calls draw it; only
//! `term` touches the terminal.

mod app;
mod arrange;
mod columns;
mod data;
mod detail;
mod figures;
mod fit;
mod header;
mod help;
mod history;
mod keyboard;
mod keys;
mod layout;
mod level;
mod lines;
mod palette;
mod pane;
mod rows;
mod screen;
mod spark;
mod table;
mod term;
mod text;
mod tree;
mod view;
mod wait_cells;
mod wait_detail;
mod waits;

pub use term::{End, Options, run};

#[cfg(test)]
mod tests;
