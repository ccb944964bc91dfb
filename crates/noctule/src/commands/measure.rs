//! Commands that measure a window: CPU time, energy, run-queue latency and its causes.

mod blocked_table;
mod disk_lines;
pub(crate) mod energy;
pub(crate) mod energy_table;
mod released;
mod settings;
pub(crate) mod stat;
mod subject;
pub(crate) mod wait_answers;
pub(crate) mod wait_table;
pub(crate) mod waits;
pub(crate) mod why;
pub(crate) mod why_text;
