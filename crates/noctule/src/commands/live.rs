//! Commands that run until they are stopped: the agent and `top`, live or from a recording.

pub(crate) mod run;
mod run_recorded;
mod scrapers;
mod serving;
mod top;
mod top_recorded;

use anyhow::Result;

use crate::args::TopArgs;
use crate::config::Config;

/// Shows the screen of this machine, or of a recording.
pub(crate) fn top(args: &TopArgs, config: &Config) -> Result<u8> {
    match &args.source.recorded.from {
        Some(folder) => top_recorded::run(folder, args, config),
        None => top::run(args, config),
    }
}
