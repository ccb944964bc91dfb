//! The classic hackbench: groups in which each sender sends to each receiver. This load causes many
//! runnable threads, wake-ups across CPUs and long run queues.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Barrier};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use anyhow::{Context as _, Result, anyhow};

use super::{Outcome, own_cpu_ns};

const GROUPS: u64 = 4;
const SENDERS: u64 = 10;
const RECEIVERS: u64 = 10;
const MESSAGE: usize = 100;

type Worker = JoinHandle<std::io::Result<()>>;

pub(super) fn run(messages: u64) -> Result<Outcome> {
    let rounds = messages.div_ceil(GROUPS * SENDERS * RECEIVERS);
    let threads = GROUPS * (SENDERS + RECEIVERS);
    let start = Arc::new(Barrier::new(threads as usize + 1));
    let mut workers = Vec::new();
    for _ in 0..GROUPS {
        group(rounds, &start, &mut workers).context("starting a group")?;
    }
    let cpu_before = own_cpu_ns();
    let began = Instant::now();
    start.wait();
    for worker in workers {
        let result = worker.join().map_err(|_| anyhow!("a thread panicked"))?;
        result.context("a message")?;
    }
    Ok(Outcome {
        operations: rounds * GROUPS * SENDERS * RECEIVERS,
        elapsed_ns: began.elapsed().as_nanos() as u64,
        cpu_ns: own_cpu_ns() - cpu_before,
        ..Outcome::default()
    })
}

fn group(rounds: u64, start: &Arc<Barrier>, workers: &mut Vec<Worker>) -> std::io::Result<()> {
    let mut sockets = Vec::new();
    for _ in 0..RECEIVERS {
        let (sender, receiver) = UnixStream::pair()?;
        sockets.push(sender);
        let start = start.clone();
        workers.push(thread::spawn(move || receive(receiver, rounds, &start)));
    }
    let sockets = Arc::new(sockets);
    for _ in 0..SENDERS {
        let (sockets, start) = (sockets.clone(), start.clone());
        workers.push(thread::spawn(move || send(&sockets, rounds, &start)));
    }
    Ok(())
}

fn send(sockets: &[UnixStream], rounds: u64, start: &Barrier) -> std::io::Result<()> {
    start.wait();
    for _ in 0..rounds {
        for mut socket in sockets {
            socket.write_all(&[0; MESSAGE])?;
        }
    }
    Ok(())
}

fn receive(mut socket: UnixStream, rounds: u64, start: &Barrier) -> std::io::Result<()> {
    start.wait();
    let mut message = [0; MESSAGE];
    for _ in 0..rounds * SENDERS {
        socket.read_exact(&mut message)?;
    }
    Ok(())
}
