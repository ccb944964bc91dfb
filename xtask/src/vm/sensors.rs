//! Power sensors of a machine: an ACPI power meter, which the emulator gets from a table of
//! `vm/sensors`, and a chip on an I2C bus that consists only of registers (`i2c-stub`). Tests set
//! the values of both.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use super::command::quiet;
use super::tools::find;

/// Drivers of the sensors.
pub(super) const MODULES: &[&str] = &["acpi_power_meter", "i2c_dev", "i2c_stub", "ltc4245"];

/// Returns the parameters of a module by its file name.
pub(super) fn parameters(file: &str) -> Option<&'static str> {
    // Address of an LTC4245.
    (file == "i2c-stub.ko").then_some("chip_addr=0x23")
}

/// Files that the emulator needs for the sensors.
pub(super) struct Sensors {
    table: PathBuf,
}

impl Sensors {
    /// Compiles the table into the directory.
    pub(super) fn make(root: &Path, folder: &Path) -> Result<Self> {
        let source = root.join("vm/sensors/power_meter.asl");
        let table = folder.join("power_meter.aml");
        let mut command =
            Command::new(find("iasl").context("iasl is missing (package acpica-tools)")?);
        quiet(command.arg("-p").arg(&table).arg(source))?;
        Ok(Self { table })
    }

    pub(super) fn arguments(&self) -> [String; 2] {
        let table = format!("file={}", self.table.display());
        ["-acpitable".to_owned(), table]
    }
}
