//! A recording in progress.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use noctule_model::{Batch, Event, Loss};
use noctule_tape::{Limits, Meta, Options, Recorder};
use noctule_text::count;

use crate::config::Host;
use crate::rights;

/// Maximum time to wait for the disk at the end.
const LAST_WRITES: Duration = Duration::from_secs(30);

/// Default length of a segment.
pub(crate) const SEGMENT: Duration = Duration::from_secs(300);

/// The recorder, with messages for its errors.
pub(crate) struct Recording {
    recorder: Recorder,
    folder: PathBuf,
    /// Whether a loss was logged.
    warned: AtomicBool,
}

impl Recording {
    /// Creates the directory and locks it against other recorders.
    pub(crate) fn open(
        folder: &Path,
        segment: Duration,
        limits: Limits,
        (host, command): (&Host, &[OsString]),
    ) -> Result<Self> {
        let options = Options {
            folder: folder.to_owned(),
            segment_ns: segment.as_nanos() as u64,
            limits,
            meta: meta(host, command),
            on_thread: rights::write_only,
        };
        Ok(Self {
            recorder: Recorder::open(options).context("recording")?,
            folder: folder.to_owned(),
            warned: AtomicBool::new(false),
        })
    }

    /// Records a batch, and adds the recorder's losses to the batch.
    pub(crate) fn batch(&self, batch: &mut Batch) {
        batch.losses.extend(self.recorder.losses());
        self.recorder.batch(batch);
        self.warn();
    }

    /// Records a batch unchanged, because the output is computed from the same batch.
    pub(crate) fn exact(&self, batch: &Batch) {
        self.recorder.batch(batch);
    }

    pub(crate) fn events(&self, events: &[Event]) {
        self.recorder.events(events);
    }

    fn warn(&self) {
        if let Some(trouble) = self.recorder.trouble() {
            let folder = self.folder.display();
            self.warned.store(true, Ordering::Relaxed);
            tracing::warn!("the tape in {folder} has a gap: {trouble}");
        }
    }

    /// Waits until everything is written. Returns an error if data were lost, now or before.
    pub(crate) fn close(&self) -> Result<()> {
        let folder = self.folder.display();
        if !self.recorder.close(LAST_WRITES) {
            bail!("{folder}: the last batches were not written within {LAST_WRITES:?}");
        }
        let trouble = self.recorder.trouble();
        let lost = lost(&self.recorder.losses());
        let warned = self.warned.load(Ordering::Relaxed);
        if trouble.is_none() && lost.is_empty() && !warned {
            return Ok(());
        }
        let what = match lost.as_slice() {
            [] => "some data was not written".to_owned(),
            lost => format!("it lacks {}", lost.join(", ")),
        };
        let trouble = trouble.map(|trouble| format!(": {trouble}"));
        bail!(
            "recording in {folder}: {what}{}",
            trouble.unwrap_or_default()
        )
    }
}

/// Describes the data that was not recorded.
fn lost(losses: &[Loss]) -> Vec<String> {
    let words = |loss: &Loss| {
        let (one, many) = match loss.kind {
            "tape_batch" => ("batch", "batches"),
            "tape_event" => ("event", "events"),
            _ => ("process that ended", "processes that ended"),
        };
        let name = if loss.count == 1 { one } else { many };
        format!("{} {name}", count(loss.count))
    };
    let some = losses.iter().filter(|loss| loss.count > 0);
    some.map(words).collect()
}

fn meta(host: &Host, command: &[OsString]) -> Meta {
    let name = rustix::system::uname();
    let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
    let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let boot_id = boot_id.trim().to_owned();
    let words = command
        .iter()
        .map(|word| word.to_string_lossy().into_owned());
    Meta {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        // The combination of boot id, time and pid is unique to this run.
        run: format!("{boot_id}-{}-{}", crate::wire::now_ns(), std::process::id()),
        host: host.name(),
        kernel: text(name.release()),
        machine: text(name.machine()),
        boot_id,
        command: words.collect(),
        ..Meta::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(second: u64) -> Batch {
        Batch {
            sequence: second,
            taken_ns: second * 1_000_000_000,
            time_unix_ns: second * 1_000_000_000,
            ..Batch::default()
        }
    }

    #[test]
    fn recording_with_losses_fails_when_closed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("tape");
        let host = Host::default();
        let open = || {
            let limits = Limits::default();
            Recording::open(&path, SEGMENT, limits, (&host, &[])).expect("a folder")
        };
        let whole = open();
        whole.batch(&mut batch(1));
        whole.close().expect("room");
        let part = open();
        fs::remove_dir_all(&path).expect("our folder");
        let mut second = 0;
        while !part.warned.load(Ordering::Relaxed) {
            second += 1;
            part.batch(&mut batch(second));
            std::thread::sleep(Duration::from_millis(1));
        }
        fs::create_dir(&path).expect("our folder");
        let error = part.close().expect_err("not all of it is there");
        let said = error.to_string();
        assert!(said.contains("it lacks "), "{said}");
    }

    #[test]
    fn configured_host_name_is_recorded() {
        let host = Host {
            name: "node-7".into(),
            ..Host::default()
        };
        assert_eq!(meta(&host, &[]).host, "node-7");
        assert_eq!(meta(&Host::default(), &[]).host, Host::default().name());
    }
}
