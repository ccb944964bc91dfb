//! Processes that live for a moment: fork, exec, exit, wait. It shows what the hooks on birth and
//! death cost.

use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use super::{Outcome, children_ns, on_each_cpu, own_cpu_ns};

pub(super) fn run(processes: u64) -> Result<Outcome> {
    // Children that were waited for are not in the own time.
    let cpu = || Ok(own_cpu_ns() + children_ns()?);
    on_each_cpu(processes, cpu, |_| {
        let mut command = Command::new("/bin/true");
        command.stdin(Stdio::null());
        let status = command.status().context("/bin/true")?;
        ensure!(status.success(), "/bin/true: {status}");
        Ok(())
    })
}
