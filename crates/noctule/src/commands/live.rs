//! Commands that run until they are stopped: the agent and `top`, live or from a recording.

pub(crate) mod run;
mod run_recorded;
mod scrapers;
mod serving;
pub(crate) mod top;
mod top_recorded;
