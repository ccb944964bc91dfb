//! Differences between the architectures of virtual machines.

use std::process::Command;

use anyhow::{Context as _, Result};

use super::command::output;

/// An architecture of virtual machines.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Architecture {
    /// Debian's name.
    pub(super) debian: &'static str,
    /// The compiler's target name.
    pub(super) target: &'static str,
    /// Debian's package of the emulator.
    pub(super) package: &'static str,
    /// Program name of the emulator.
    pub(super) emulator: &'static str,
    /// Emulator options for the machine.
    pub(super) machine: &'static [&'static str],
    /// Console device of the kernel.
    pub(super) console: &'static str,
    /// How many times slower the emulated CPU is, measured by its own clock. The tests get this
    /// value.
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

/// With instruction counting, each instruction takes one nanosecond of the machine's time, and the
/// PMU counts instructions. Without instruction counting, the hardware counters are meaningless.
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
    /// Returns whether this is the host's architecture, so that no cross-compilation is needed.
    pub(super) fn is_native(&self) -> Result<bool> {
        let text = output(Command::new("rustc").arg("-vV"))?;
        let host = text.lines().find_map(|line| line.strip_prefix("host: "));
        Ok(host.context("rustc does not print its host")? == self.target)
    }
}
