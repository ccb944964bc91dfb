//! Shell completions and manual pages, generated from the definition of the command line.

use std::io::{Write as _, stdout};

use anyhow::{Context as _, Result};
use clap::CommandFactory as _;

use crate::args::{Args, CompletionsArgs, ManArgs};
use crate::exit;

pub(crate) fn completions(args: &CompletionsArgs) -> Result<u8> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), "noctule", &mut script);
    stdout().write_all(&script)?;
    Ok(exit::DONE)
}

pub(crate) fn man(args: &ManArgs) -> Result<u8> {
    // The subcommand `help` has no manual page, so no page should refer to one.
    let command = Args::command().disable_help_subcommand(true);
    match &args.folder {
        Some(folder) => clap_mangen::generate_to(command, folder)
            .with_context(|| format!("writing manual pages to {}", folder.display()))?,
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(command).render(&mut page)?;
            stdout().write_all(&page)?;
        }
    }
    Ok(exit::DONE)
}
