//! Reads the output of programs (`bpf_trace_printk`) through a separate tracefs instance. Every
//! reader of the machine's `trace_pipe` consumes its lines, and other tools may be reading it.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, BorrowedFd};

use super::folder::{TraceFolder, names_of_dead_processes};
use crate::error::{Context as _, Error};

const PREFIX: &str = "noctule_";
/// The tracepoint of this output, since Linux 5.9.
const EVENT: &str = "events/bpf_trace/bpf_trace_printk/enable";

/// Reads the lines that BPF programs print after this value was created. The output of all programs
/// on the machine is included.
#[derive(Debug)]
pub struct Printed {
    // The pipe is closed before the instance is removed.
    pipe: Option<File>,
    folder: TraceFolder,
    name: String,
    rest: Vec<u8>,
}

impl Printed {
    /// Creates an instance and follows its output. First removes the instances of killed processes.
    ///
    /// # Errors
    ///
    /// Fails if tracefs is not writable.
    pub fn follow() -> Result<Self, Error> {
        let folder = TraceFolder::open()?;
        let names = folder
            .names("instances")
            .context("listing tracefs instances")?;
        for left in names_of_dead_processes(&names, PREFIX) {
            // Another process may already have removed the instance.
            let _ = folder.remove_folder(&format!("instances/{left}"));
        }
        let name = format!("instances/{PREFIX}{}", std::process::id());
        folder
            .make_folder(&name)
            .context("creating a tracefs instance")?;
        let mut printed = Self {
            pipe: None,
            folder,
            name,
            rest: Vec::new(),
        };
        let path = format!("{}/{EVENT}", printed.name);
        printed
            .folder
            .append(&path, "1")
            .context(format!("enabling {path}"))?;
        let path = format!("{}/trace_pipe", printed.name);
        printed.pipe = Some(printed.folder.open_pipe(&path).context(path)?);
        Ok(printed)
    }

    /// Returns the complete lines since the last call, without blocking.
    ///
    /// # Errors
    ///
    /// Fails if the lines cannot be read.
    pub fn lines(&mut self) -> Result<Vec<String>, Error> {
        let mut bytes = [0; 8192];
        while let Some(pipe) = &mut self.pipe {
            match pipe.read(&mut bytes) {
                Ok(0) => break,
                Ok(length) => self.rest.extend_from_slice(&bytes[..length]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("reading trace_pipe"),
            }
            if self.rest.len() > 1 << 20 {
                break;
            }
        }
        let end = self
            .rest
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        let whole: Vec<u8> = self.rest.drain(..end).collect();
        let text = String::from_utf8_lossy(&whole);
        Ok(text
            .lines()
            .filter(|line| !line.is_empty())
            .map(str::to_owned)
            .collect())
    }

    /// Returns a descriptor that becomes readable when there is output.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }
}

impl Drop for Printed {
    fn drop(&mut self) {
        self.pipe = None;
        let _ = self.folder.append(&format!("{}/{EVENT}", self.name), "0");
        if let Err(error) = self.folder.remove_folder(&self.name) {
            tracing::warn!("cannot remove {} from tracefs: {error}", self.name);
        }
    }
}
