//! What goes on until it is stopped: the agent and the screen, live or of a recording.

pub(crate) mod run;
mod run_recorded;
mod scrapers;
mod serving;
pub(crate) mod top;
mod top_recorded;
