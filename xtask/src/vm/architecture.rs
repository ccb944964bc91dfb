//! What differs between the architectures of machines.

use std::process::Command;

use anyhow::{Context as _, Result};

use super::command::output;

/// An architecture.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Architecture {
    /// Debian's name of it.
    pub(super) debian: &'static str,
    /// The compiler's name of it.
    pub(super) target: &'static str,
    /// Debian's package with the emulator.
    pub(super) package: &'static str,
    /// The emulator.
    pub(super) emulator: &'static str,
    /// The machine that it emulates.
    pub(super) machine: &'static [&'static str],
    /// The device on which the kernel writes.
    pub(super) console: &'static str,
    /// How many times slower its processor is by its own clock; the tests get the number.
    pub(super) slowness: &'static str,
}

pub(super) const AMD64: Architecture = Architecture {
    debian: "amd64",
    target: "x86_64-unknown-linux-gnu",
    package: "qemu-system-x86",
    emulator: "qemu-system-x86_64",
    machine: &[
        "-accel",
        "tcg,thread=multi",
        "-machine",
        "q35",
        "-cpu",
        "max",
    ],
    console: "ttyS0",
    slowness: "50",
};

/// With instruction counting each instruction takes one nanosecond of the machine's own time, and
/// the processor has a PMU that counts them; without, its counters mean nothing.
pub(super) const ARM64: Architecture = Architecture {
    debian: "arm64",
    target: "aarch64-unknown-linux-gnu",
    package: "qemu-system-arm",
    emulator: "qemu-system-aarch64",
    machine: &[
        "-accel",
        "tcg,thread=single",
        "-icount",
        "shift=0",
        "-machine",
        "virt",
        "-cpu",
        "max,pauth-impdef=on",
    ],
    console: "ttyAMA0",
    slowness: "4",
};

impl Architecture {
    /// Whether this machine has it too, so that nothing needs to be cross-built.
    pub(super) fn is_native(&self) -> Result<bool> {
        let text = output(Command::new("rustc").arg("-vV"))?;
        let host = text.lines().find_map(|line| line.strip_prefix("host: "));
        Ok(host.context("rustc does not print its host")? == self.target)
    }
}
