//! Short TCP connections, one after another on each CPU: connect, receive one byte, close on both
//! sides. This load shows the cost of the hooks on socket state changes.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;

use anyhow::{Context as _, Result};

use super::{Outcome, on_each_cpu, own_cpu_ns};
use crate::events::address_of;

pub(super) fn run(connections: u64) -> Result<Outcome> {
    let listener = TcpListener::bind((address_of(std::process::id()), 0)).context("listening")?;
    let address = listener.local_addr().context("the own address")?;
    // The thread ends with the process.
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // If the client has ended, the client reports the error.
            let _ = (&stream).write_all(b"x");
        }
    });
    on_each_cpu(
        connections,
        || Ok(own_cpu_ns()),
        |_| {
            let mut stream = TcpStream::connect(address).context("connecting")?;
            let mut byte = [0];
            stream.read_exact(&mut byte).context("the byte")
        },
    )
}
