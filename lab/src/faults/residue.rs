//! Detects programs and links that a run left in the kernel.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

/// How often to check. The kernel frees programs some time after their process has exited.
const RETRIES: u32 = 50;
const PAUSE: Duration = Duration::from_millis(100);

const KINDS: [&str; 2] = ["prog", "link"];

/// Ids of the programs and links that no process held open before the run.
pub(super) struct Residue(BTreeSet<(&'static str, u64)>);

impl Residue {
    pub(super) fn now() -> Result<Self> {
        let mut found = BTreeSet::new();
        for kind in KINDS {
            let output = Command::new("bpftool")
                .args(["-j", kind, "show"])
                .output()
                .context("starting bpftool")?;
            ensure!(output.status.success(), "bpftool {kind} show failed");
            let list: Value =
                serde_json::from_slice(&output.stdout).context("parsing the JSON of bpftool")?;
            let list = list.as_array().context("bpftool printed no list")?.iter();
            found.extend(list.filter_map(|it| Some((kind, it["id"].as_u64()?))));
        }
        // Processes are listed after the programs, so that concurrently created programs are not
        // counted as residue.
        let held = held();
        found.retain(|it| !held.contains(it));
        Ok(Self(found))
    }

    /// Returns the programs and links that have appeared since and that no process holds open, even
    /// after a while.
    pub(super) fn left(&self) -> Result<Vec<String>> {
        let mut left = self.new_items()?;
        for _ in 0..RETRIES {
            if left.is_empty() {
                break;
            }
            thread::sleep(PAUSE);
            // This check excludes programs of another process that started and ended during the
            // test.
            let still = self.new_items()?;
            left.retain(|it| still.contains(it));
        }
        Ok(left
            .iter()
            .map(|(kind, id)| format!("{kind} {id}"))
            .collect())
    }

    fn new_items(&self) -> Result<Vec<(&'static str, u64)>> {
        Ok(Self::now()?.0.difference(&self.0).copied().collect())
    }
}

/// Returns the programs and links that processes hold open. A link also holds its program.
fn held() -> BTreeSet<(&'static str, u64)> {
    let mut held = BTreeSet::new();
    for process in entries(Path::new("/proc")) {
        for descriptor in entries(&process.join("fd")) {
            let target = fs::read_link(&descriptor).unwrap_or_default();
            let name = descriptor.file_name().unwrap_or_default();
            if target.to_string_lossy().contains("bpf") {
                let info = fs::read_to_string(process.join("fdinfo").join(name));
                held.extend(ids(&info.unwrap_or_default()));
            }
        }
    }
    held
}

/// Lists a directory. Returns nothing if the process has already exited.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// Parses lines such as `prog_id: 12`.
fn ids(text: &str) -> impl Iterator<Item = (&'static str, u64)> {
    text.lines().filter_map(|line| {
        let (key, value) = line.split_once(':')?;
        let kind = KINDS
            .into_iter()
            .find(|kind| key.strip_suffix("_id") == Some(kind))?;
        Some((kind, value.trim().parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_holds_its_program() {
        let text =
            "pos:\t0\nlink_type:\traw_tracepoint\nlink_id:\t7\nprog_tag:\tab\nprog_id:\t12\n";
        let ids: Vec<_> = ids(text).collect();
        assert_eq!(ids, [("link", 7), ("prog", 12)]);
    }
}
