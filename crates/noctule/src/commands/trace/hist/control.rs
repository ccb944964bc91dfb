//! Reads commands for running tables from a FIFO or standard input.

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use rustix::fs::{FileType, Mode, OFlags, fstat, open};

use crate::exit::Usage;

/// The source of commands.
pub(super) struct Control {
    /// `None` after the writer has closed it.
    file: Option<File>,
    rest: Vec<u8>,
}

/// A command for a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Pause,
    Continue,
    Clear,
}

impl Control {
    /// Opens a FIFO, or standard input for `-`.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let shown = path.display();
        let file = if path == Path::new("-") {
            let input = rustix::io::dup(std::io::stdin());
            File::from(input.context("reading standard input")?)
        } else {
            // Also opens the FIFO for writing. Otherwise reads would return end of file when the
            // last writer closes it.
            let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let file = open(path, flags, Mode::empty());
            File::from(file.with_context(|| format!("--control {shown}"))?)
        };
        let kind = fstat(&file).map(|stat| FileType::from_raw_mode(stat.st_mode));
        if matches!(kind, Ok(FileType::RegularFile | FileType::Directory)) {
            bail!(Usage(format!(
                "--control {shown}: commands must come from a FIFO (mkfifo {shown}) or from \
                 standard input (-)"
            )));
        }
        Ok(Self {
            file: Some(file),
            rest: Vec::new(),
        })
    }

    /// Returns the descriptor to poll for commands.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().map(File::as_fd)
    }

    /// Returns new commands, each with the name of its table, or `None` for all tables. Logs
    /// invalid lines.
    pub(super) fn orders(&mut self) -> Result<Vec<(Order, Option<String>)>> {
        let mut bytes = [0; 4096];
        let Some(file) = &mut self.file else {
            return Ok(Vec::new());
        };
        match file.read(&mut bytes) {
            Ok(0) => {
                self.file = None;
                // The last line of standard input may lack a line feed.
                self.rest.push(b'\n');
            }
            Ok(length) => self.rest.extend_from_slice(&bytes[..length]),
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error).context("--control"),
        }
        let end = self.rest.iter().rposition(|byte| *byte == b'\n');
        let whole: Vec<u8> = self.rest.drain(..end.map_or(0, |at| at + 1)).collect();
        Ok(read(&String::from_utf8_lossy(&whole)))
    }
}

fn read(text: &str) -> Vec<(Order, Option<String>)> {
    let order = |line: &str| {
        let mut words = line.split_whitespace();
        let order = match words.next()? {
            "pause" => Some(Order::Pause),
            "cont" | "continue" => Some(Order::Continue),
            "clear" => Some(Order::Clear),
            _ => None,
        };
        let name = words.next().map(str::to_owned);
        let (Some(order), None) = (order, words.next()) else {
            let shown = noctule_text::escape(line);
            tracing::warn!(
                "--control: {shown}: expected pause, cont or clear, optionally followed by the \
                 name= of a table"
            );
            return None;
        };
        Some((order, name))
    };
    text.lines().filter_map(order).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_commands_are_lines() {
        let read = read("pause\n\ncont a\nstop\nclear a b\nclear\n");
        let named = Some("a".to_owned());
        let expected = [
            (Order::Pause, None),
            (Order::Continue, named),
            (Order::Clear, None),
        ];
        assert_eq!(read, expected);
    }
}
