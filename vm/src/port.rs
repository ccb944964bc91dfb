//! Sends messages to the host.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use noctule_vm::{Message, PORT};

/// The port for messages.
pub(crate) struct Port(File);

impl Port {
    pub(crate) fn open() -> Result<Self> {
        let name = named(PORT)?;
        let path = format!("/dev/{name}");
        let file = OpenOptions::new().write(true).open(&path);
        Ok(Self(file.context(path)?))
    }

    pub(crate) fn send(&mut self, message: &Message) -> Result<()> {
        let mut line = serde_json::to_string(message)?;
        line.push('\n');
        self.0.write_all(line.as_bytes()).context("the port")
    }
}

/// Returns the device of the port with this name. The host sends the name a moment after the driver
/// starts.
fn named(wanted: &str) -> Result<String> {
    for _ in 0..500 {
        let ports = fs::read_dir("/sys/class/virtio-ports")
            .into_iter()
            .flatten();
        for port in ports.flatten() {
            let name = fs::read_to_string(port.path().join("name")).unwrap_or_default();
            if name.trim() == wanted {
                return Ok(port.file_name().to_string_lossy().into_owned());
            }
        }
        thread::sleep(Duration::from_millis(20));
    }
    anyhow::bail!("no port has the name {wanted}")
}
