//! A tape that is being written.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use noctule_model::{Batch, Event};
use noctule_tape::{Limits, Meta, Options, Recorder};

use crate::config::Host;
use crate::rights;

/// How long the end waits for the disk.
const LAST_WRITES: Duration = Duration::from_secs(30);

/// Length of a segment where none is given.
pub(crate) const SEGMENT: Duration = Duration::from_secs(300);

/// The recorder with the words for what goes wrong.
pub(crate) struct Recording {
    recorder: Recorder,
    folder: PathBuf,
}

impl Recording {
    /// Takes the folder, which is made, and which no other recording may use meanwhile.
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
        })
    }

    /// Hands over a batch, with what was lost on the way to the tape so far.
    pub(crate) fn batch(&self, batch: &mut Batch) {
        batch.losses.extend(self.recorder.losses());
        self.recorder.batch(batch);
        self.warn();
    }

    /// Hands over a batch as it is: an answer is made from it.
    pub(crate) fn exact(&self, batch: &Batch) {
        self.recorder.batch(batch);
    }

    /// Hands over events.
    pub(crate) fn events(&self, events: &[Event]) {
        self.recorder.events(events);
    }

    fn warn(&self) {
        if let Some(trouble) = self.recorder.trouble() {
            let folder = self.folder.display();
            tracing::warn!("the tape in {folder} has a gap: {trouble}");
        }
    }

    /// Waits until everything is written.
    pub(crate) fn close(&self) -> Result<()> {
        let folder = self.folder.display();
        if !self.recorder.close(LAST_WRITES) {
            bail!("{folder}: the last batches were not written within {LAST_WRITES:?}");
        }
        match self.recorder.trouble() {
            None => Ok(()),
            Some(trouble) => bail!("recording in {folder}: {trouble}"),
        }
    }
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
        // The clock since boot and the pid: no other start of the program has both.
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

    #[test]
    fn the_name_of_the_host_is_that_of_the_configuration() {
        let host = Host {
            name: "node-7".into(),
            ..Host::default()
        };
        assert_eq!(meta(&host, &[]).host, "node-7");
        assert_eq!(meta(&Host::default(), &[]).host, Host::default().name());
    }
}
