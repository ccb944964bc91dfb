//! Allocates memory in a cgroup with a limit, until the OOM killer kills the process.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

const STEP: usize = 1 << 20;
/// Upper limit in steps. If the process is not killed by then, there is no memory limit, and the
/// process must not fill the machine.
const MOST: usize = 128;

pub(super) fn run(cgroup: &Path) -> Result<()> {
    fs::write(cgroup.join("cgroup.procs"), "0").context("entering the cgroup")?;
    let mut eaten = Vec::new();
    for _ in 0..MOST {
        eaten.push(std::hint::black_box(vec![1_u8; STEP]));
    }
    bail!("nobody killed it for {MOST} MiB");
}
