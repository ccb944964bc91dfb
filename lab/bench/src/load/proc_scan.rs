//! The baseline for agents: reads /proc/PID/stat of every process once per period, and discards it.
//! Any tool without BPF must do at least this work to know the CPU time of each process. Even so,
//! it misses processes that live for less than a period.

use std::fs::{self, File};
use std::io::Read as _;
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::population::wait_for_end;

pub(super) fn run(period: Duration) -> Result<()> {
    let mut buffer = [0; 1024];
    while !wait_for_end(period)? {
        for entry in fs::read_dir("/proc").context("/proc")? {
            let entry = entry?;
            let name = entry.file_name();
            if !name
                .to_string_lossy()
                .starts_with(|c: char| c.is_ascii_digit())
            {
                continue;
            }
            // A process may end after it was listed.
            if let Ok(mut file) = File::open(entry.path().join("stat")) {
                let _ = file.read(&mut buffer);
            }
        }
    }
    Ok(())
}
