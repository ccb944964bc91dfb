//! One event of each kind that is reported on request only: a signal, an execution that fails, changes of a
//! file, and a question to a name server that is answered. It shows what an event of each kind costs.

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

/// A server of names there is nobody else's.
const SERVER: (Ipv4Addr, u16) = (Ipv4Addr::new(127, 53, 53, 53), 53);

/// Number 1, recursion desired, one question: the addresses (A, IN) of `a.test`.
const QUESTION: &[u8] = b"\0\x01\x01\0\0\x01\0\0\0\0\0\0\x01a\x04test\0\0\x01\0\x01";
/// Where an answer says that it is one.
const FLAGS: usize = 2;
const IS_ANSWER: u8 = 0x80;

pub(super) fn run(operations: u64) -> Result<Outcome> {
    let folder = folder_of(std::process::id());
    fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
    // Not ignored, and no more than noted: a signal that is ignored is no event.
    signal_hook::flag::register(SIGUSR1, Arc::new(AtomicBool::new(false)))?;
    let server = UdpSocket::bind(SERVER).context("answering for names")?;
    // Ends with the process.
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
        // The client may be gone; then the client reports the error.
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

/// Made, opened to others, renamed, linked, deleted twice.
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
