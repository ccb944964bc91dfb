//! What a meter is read from.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// Opens attributes: files of sysfs, or what a test puts in their place.
pub(super) trait Open: Send + Sync {
    fn open(&self, path: &Path) -> io::Result<Box<dyn Attribute>>;
}

/// An open attribute. The kernel makes its text anew at each read from the start.
pub(super) trait Attribute: Send {
    fn text(&mut self, buffer: &mut [u8]) -> io::Result<usize>;
}

/// The files themselves.
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

/// The whole number that the attribute has now.
pub(super) fn number(attribute: &mut dyn Attribute) -> io::Result<i64> {
    let mut buffer = [0; 32];
    let length = attribute.text(&mut buffer)?;
    std::str::from_utf8(&buffer[..length])
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not a whole number"))
}

/// What a meter says at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// Microjoules, by a counter that may wrap.
    Counted(u64),
    /// Microwatts.
    Power(i64),
    /// Microjoules since it was read before; `None`: it was not read since it was opened.
    Used(Option<i64>),
    /// It measures nothing now, and that is why.
    Idle(&'static str),
}

/// A meter that is open.
pub(super) trait Meter: Send {
    fn read(&mut self) -> io::Result<Value>;
}

/// An attribute that has microjoules.
pub(super) struct EnergyFile(pub(super) Box<dyn Attribute>);

impl Meter for EnergyFile {
    fn read(&mut self) -> io::Result<Value> {
        let value = number(self.0.as_mut())?;
        u64::try_from(value)
            .map(Value::Counted)
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "energy is negative"))
    }
}

/// An attribute that has microwatts.
pub(super) struct PowerFile(pub(super) Box<dyn Attribute>);

impl Meter for PowerFile {
    fn read(&mut self) -> io::Result<Value> {
        number(self.0.as_mut()).map(Value::Power)
    }
}

/// The error in a few words for people: the kernel's own, without its number.
pub(super) fn words(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((words, _)) => words.to_owned(),
        None => text,
    }
}
