//! One event of each kind that is reported only on request: a signal, a failed exec, file changes,
//! and a DNS query with its response. This load shows the cost of an event of each kind.

use std::fs::{self, File, Permissions};
use std::io::{Error, ErrorKind};
use std::net::{Ipv4Addr, UdpSocket};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use anyhow::{Context as _, Result, bail};
use rustix::process::{Signal, getpid, kill_process};
use signal_hook::consts::SIGUSR1;

use super::{Outcome, children_ns, on_each_cpu, own_cpu_ns};
use crate::events::folder_of;

/// A DNS server address that no other program uses.
const SERVER: (Ipv4Addr, u16) = (Ipv4Addr::new(127, 53, 53, 53), 53);

/// A DNS query with id 1, recursion desired and one question: the addresses (A, IN) of `a.test`.
const QUESTION: &[u8] = b"\0\x01\x01\0\0\x01\0\0\0\0\0\0\x01a\x04test\0\0\x01\0\x01";
/// Position of the flags in a message, and the flag of a response.
const FLAGS: usize = 2;
const IS_ANSWER: u8 = 0x80;

pub(super) fn run(operations: u64) -> Result<Outcome> {
    let folder = folder_of(std::process::id());
    fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
    // The signal is handled, because an ignored signal is not an event.
    signal_hook::flag::register(SIGUSR1, Arc::new(AtomicBool::new(false)))?;
    let server = UdpSocket::bind(SERVER).context("answering for names")?;
    // The thread ends with the process.
    thread::spawn(move || answer(&server));
    let cpu_ns = || Ok(own_cpu_ns() + children_ns()?);
    let outcome = on_each_cpu(operations, cpu_ns, |worker| {
        kill_process(getpid(), Signal::USR1).context("a signal")?;
        execute_nothing()?;
        change(&folder, &worker.to_string()).context("changing a file")?;
        ask().context("asking for a name")
    });
    fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
    outcome
}

fn answer(server: &UdpSocket) {
    let mut message = [0; 512];
    while let Ok((length, client)) = server.recv_from(&mut message) {
        message[FLAGS] |= IS_ANSWER;
        // If the client has ended, the client reports the error.
        let _ = server.send_to(&message[..length], client);
    }
}

fn execute_nothing() -> Result<()> {
    match Command::new("/nonexistent/program").spawn() {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).context("executing what is not there"),
        Ok(_) => bail!("/nonexistent/program is there"),
    }
}

/// Creates a file, changes its mode, renames it, links it, and deletes both names.
fn change(folder: &Path, name: &str) -> Result<(), Error> {
    let [file, moved, linked] =
        ["", ".moved", ".linked"].map(|end| folder.join(format!("{name}{end}")));
    File::create(&file)?;
    fs::set_permissions(&file, Permissions::from_mode(0o644))?;
    fs::rename(&file, &moved)?;
    fs::hard_link(&moved, &linked)?;
    fs::remove_file(&linked)?;
    fs::remove_file(&moved)
}

fn ask() -> Result<(), Error> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.send_to(QUESTION, SERVER)?;
    socket.recv_from(&mut [0; 512]).map(drop)
}
