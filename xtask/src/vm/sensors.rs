//! Sensors of power in a machine: a power meter of ACPI, by a table of `vm/sensors` for the emulator, and
//! a chip on an I2C bus that is only registers (`i2c-stub`). Tests write what they show.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use super::command::quiet;
use super::tools::find;

/// Their drivers.
pub(super) const MODULES: &[&str] = &["acpi_power_meter", "i2c_dev", "i2c_stub", "ltc4245"];

/// Parameters of a module, by the name of its file.
pub(super) fn parameters(file: &str) -> Option<&'static str> {
    // The address of an LTC4245.
    (file == "i2c-stub.ko").then_some("chip_addr=0x23")
}

/// What the emulator needs of them.
pub(super) struct Sensors {
    table: PathBuf,
}

impl Sensors {
    /// Compiles the table into the folder.
    pub(super) fn make(root: &Path, folder: &Path) -> Result<Self> {
        let source = root.join("vm/sensors/power_meter.asl");
        let table = folder.join("power_meter.aml");
        let mut command = Command::new(find("iasl").context("no iasl (package acpica-tools)")?);
        quiet(command.arg("-p").arg(&table).arg(source))?;
        Ok(Self { table })
    }

    pub(super) fn arguments(&self) -> [String; 2] {
        let table = format!("file={}", self.table.display());
        ["-acpitable".to_owned(), table]
    }
}
