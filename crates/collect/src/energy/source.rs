//! Reads the files and perf events from which meters get their values.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// Opens attributes: files in sysfs, or their replacements in tests.
pub(super) trait Open: Send + Sync {
    fn open(&self, path: &Path) -> io::Result<Box<dyn Attribute>>;
}

/// An open attribute. The kernel generates the text again for each read at offset 0.
pub(super) trait Attribute: Send {
    fn text(&mut self, buffer: &mut [u8]) -> io::Result<usize>;
}

/// Opens the real files.
pub(super) struct Files;

impl Open for Files {
    fn open(&self, path: &Path) -> io::Result<Box<dyn Attribute>> {
        Ok(Box::new(File::open(path)?))
    }
}

impl Attribute for File {
    fn text(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_at(buffer, 0)
    }
}

/// Returns the first line of a small file.
pub(super) fn line(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.lines().next()?.trim().to_owned())
}

/// Returns the current integer of the attribute.
pub(super) fn number(attribute: &mut dyn Attribute) -> io::Result<i64> {
    let mut buffer = [0; 32];
    let length = attribute.text(&mut buffer)?;
    std::str::from_utf8(&buffer[..length])
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not a whole number"))
}

/// A reading of a meter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// Value of a counter that may wrap, in microjoules.
    Counted(u64),
    /// Power in microwatts.
    Power(i64),
    /// Energy used since the previous reading, in microjoules; `None` for the first reading.
    Used(Option<i64>),
    /// Why the meter measures nothing at present.
    Idle(&'static str),
}

/// An open meter.
pub(super) trait Meter: Send {
    fn read(&mut self) -> io::Result<Value>;
}

/// An energy attribute in microjoules.
pub(super) struct EnergyFile(pub(super) Box<dyn Attribute>);

impl Meter for EnergyFile {
    fn read(&mut self) -> io::Result<Value> {
        let value = number(self.0.as_mut())?;
        u64::try_from(value)
            .map(Value::Counted)
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "energy is negative"))
    }
}

/// A power attribute in microwatts.
pub(super) struct PowerFile(pub(super) Box<dyn Attribute>);

impl Meter for PowerFile {
    fn read(&mut self) -> io::Result<Value> {
        number(self.0.as_mut()).map(Value::Power)
    }
}

/// Returns the kernel's error message without the error number.
pub(super) fn words(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((words, _)) => words.to_owned(),
        None => text,
    }
}
