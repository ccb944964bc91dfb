//! Filters in the language of tcpdump.
//!
//! tcpdump itself compiles them: its library cannot be loaded by a program that is linked statically, as
//! noctule is for nodes, and the compilers in Rust that there are know a part of the language. It prints
//! instructions and sees no packet.

use std::io::ErrorKind;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use noctule_trace::classic::Classic;
use noctule_trace::raw::is_classic;

use crate::commands::trace::attach_point::Target;
use crate::exit::Usage;

/// The instructions of a filter: its expression, or what `tcpdump -ddd` has printed for it. `event`:
/// what the user calls the target.
pub(super) fn compile(text: &str, event: &str, target: &Target) -> Result<Classic> {
    let interface = event.strip_prefix("socket:").unwrap_or_default();
    let Some(has_ethernet) = target.has_ethernet() else {
        bail!(Usage(
            "--filter is for packets: socket:INTERFACE".to_owned()
        ));
    };
    if is_classic(text) {
        return Classic::parse(text).map_err(|error| Usage(format!("--filter: {error}")).into());
    }
    let printed = tcpdump(text, has_ethernet.then_some(interface))?;
    Classic::parse(&printed).with_context(|| format!("what tcpdump makes of {text:?}"))
}

/// What tcpdump prints. `ethernet`: the interface, if it has Ethernet headers.
fn tcpdump(text: &str, ethernet: Option<&str>) -> Result<String> {
    let mut command = Command::new("tcpdump");
    command.args(["-ddd", "-y"]);
    match ethernet {
        // With the interface it makes use of what the kernel keeps beside the packet: VLAN tags.
        Some(interface) => command.args(["EN10MB", "-i", interface]),
        None => command.arg("RAW"),
    };
    let output = command.args(["--", text]).stdin(Stdio::null()).output();
    let output = match output {
        Err(error) if error.kind() == ErrorKind::NotFound => bail!(
            "tcpdump is not there, which compiles such filters: install it (apt-get install tcpdump), \
             or give what `tcpdump -ddd EXPRESSION` prints elsewhere instead of the expression"
        ),
        output => output.context("running tcpdump")?,
    };
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        let last = words.lines().last().unwrap_or("it fails without a word");
        bail!(Usage(format!("--filter: {}", noctule_text::escape(last))));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
