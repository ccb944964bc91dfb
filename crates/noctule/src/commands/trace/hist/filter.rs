//! Filters in the language of tcpdump.
//!
//! tcpdump compiles these filters. A statically linked binary, such as noctule's builds for nodes,
//! cannot load libpcap, and the existing Rust compilers cover only a subset of the language.
//! tcpdump only prints instructions; it does not capture packets.

use std::io::ErrorKind;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use noctule_trace::classic::Classic;
use noctule_trace::raw::is_classic;

use crate::commands::trace::attach_point::Target;
use crate::exit::Usage;

/// Compiles a filter. If the text is the output of `tcpdump -ddd`, parses it instead. `event` is
/// the user's name for the target.
pub(super) fn compile(text: &str, event: &str, target: &Target) -> Result<Classic> {
    let interface = event.strip_prefix("socket:").unwrap_or_default();
    let Some(has_ethernet) = target.has_ethernet() else {
        bail!(Usage(
            "--filter applies only to packets: use socket:INTERFACE".to_owned()
        ));
    };
    if is_classic(text) {
        return Classic::parse(text).map_err(|error| Usage(format!("--filter: {error}")).into());
    }
    let printed = tcpdump(text, has_ethernet.then_some(interface))?;
    Classic::parse(&printed).with_context(|| format!("parsing tcpdump's output for {text:?}"))
}

/// Runs tcpdump and returns its output. `ethernet` is the interface, if it has Ethernet headers.
fn tcpdump(text: &str, ethernet: Option<&str>) -> Result<String> {
    let mut command = Command::new("tcpdump");
    command.args(["-ddd", "-y"]);
    match ethernet {
        // With the interface, tcpdump also uses metadata that the kernel keeps outside the packet,
        // such as VLAN tags.
        Some(interface) => command.args(["EN10MB", "-i", interface]),
        None => command.arg("RAW"),
    };
    let output = command.args(["--", text]).stdin(Stdio::null()).output();
    let output = match output {
        Err(error) if error.kind() == ErrorKind::NotFound => bail!(
            "tcpdump, which compiles filters, is not installed: install it (apt-get install \
             tcpdump), or pass the output of `tcpdump -ddd EXPRESSION` from another machine \
             instead of the expression"
        ),
        output => output.context("running tcpdump")?,
    };
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        let last = words
            .lines()
            .last()
            .unwrap_or("tcpdump failed without a message");
        bail!(Usage(format!("--filter: {}", noctule_text::escape(last))));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
