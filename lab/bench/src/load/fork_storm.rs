//! Short-lived processes: fork, exec, exit, wait. This load shows the cost of the hooks on process
//! start and exit.

use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use super::{Outcome, children_ns, on_each_cpu, own_cpu_ns};

pub(super) fn run(processes: u64) -> Result<Outcome> {
    // The process's own CPU time does not include children that it waited for.
    let cpu = || Ok(own_cpu_ns() + children_ns()?);
    on_each_cpu(processes, cpu, |_| {
        let mut command = Command::new("/bin/true");
        command.stdin(Stdio::null());
        let status = command.status().context("/bin/true")?;
        ensure!(status.success(), "/bin/true: {status}");
        Ok(())
    })
}
