//! Loads that use a disk, memory, locks, pipes or sockets.

use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rustix::fs::{FlockOperation, OFlags, fcntl_lock, flock};

use super::draw::Dice;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
/// Alignment that every device accepts.
const ALIGNED: usize = 4096;
/// Length of a file for direct I/O.
const LENGTH: usize = 64 * MIB;
/// How long a holder leaves a lock to the other load.
const LEFT: Duration = Duration::from_millis(2);

pub(super) fn run(words: &[&str]) -> Result<()> {
    let number = |word: &str| word.parse::<usize>().context("parsing a number");
    match words {
        ["reads", file, kib, threads] => direct(file, number(kib)? * KIB, number(threads)?, false),
        ["writes", file, kib, threads] => direct(file, number(kib)? * KIB, number(threads)?, true),
        ["fsyncs", file, kib, threads] => {
            let kib = number(kib)?;
            each(number(threads)?, |number| {
                let (file, data) = (open(&format!("{file}-{number}"))?, vec![1; kib * KIB]);
                loop {
                    sync(&file, &data)?;
                }
            })
        }
        ["rereads", file, mib] => rereads(file, number(mib)?),
        ["holds", file, kind, ms] => {
            let (file, held) = (open(file)?, Duration::from_millis(number(ms)? as u64));
            hold(&file, kind, || {
                thread::sleep(held);
                Ok(())
            })
        }
        ["holds_and_syncs", file, synced] => {
            let synced = open(synced)?;
            hold(&open(file)?, "flock", || sync(&synced, &[1; 4 * KIB]))
        }
        ["takes", file, kind] => hold(&open(file)?, kind, || Ok(())),
        ["sleepers", threads] => each(number(threads)?, |_| {
            loop {
                thread::sleep(Duration::from_millis(100));
            }
        }),
        ["own_lock", threads] => {
            static LOCK: Mutex<()> = Mutex::new(());
            each(number(threads)?, |_| {
                loop {
                    let held = LOCK.lock();
                    thread::sleep(Duration::from_millis(5));
                    drop(held);
                }
            })
        }
        ["serves", socket] => {
            let _ = fs::remove_file(socket);
            for asked in UnixListener::bind(socket)?.incoming() {
                let _ = asked?.read(&mut [0; 64]);
            }
            Ok(())
        }
        ["asks", socket, ms] => loop {
            let asked = UnixStream::connect(socket).and_then(|mut it| it.write_all(b"request"));
            let _ = asked;
            thread::sleep(Duration::from_millis(number(ms)? as u64));
        },
        ["reads_pipe", pipe] => {
            let mut pipe = open_pipe(pipe)?;
            loop {
                pipe.read_exact(&mut [0])?;
            }
        }
        ["writes_pipe", pipe, ms] => {
            let mut pipe = open_pipe(pipe)?;
            loop {
                thread::sleep(Duration::from_millis(number(ms)? as u64));
                pipe.write_all(&[0])?;
            }
        }
        ["waits_for_child"] => loop {
            Command::new("sleep").arg("0.2").status()?;
        },
        _ => bail!("unknown load {words:?}"),
    }
}

fn open(file: &str) -> Result<File> {
    let mut options = File::options();
    let options = options.read(true).write(true).create(true).truncate(false);
    options.open(file).with_context(|| file.to_owned())
}

/// Opens a named pipe for reading and writing, so that the call never blocks.
fn open_pipe(path: &str) -> Result<File> {
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    // The other load may have created the pipe.
    let _ = rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0);
    open(path)
}

/// Writes the data to the start of the file and waits until the data are on the disk.
fn sync(file: &File, data: &[u8]) -> Result<()> {
    file.write_all_at(data, 0)?;
    Ok(file.sync_all()?)
}

/// Runs the call in this many threads, each with its number.
fn each(threads: usize, call: impl Fn(usize) -> Result<()> + Sync) -> Result<()> {
    thread::scope(|scope| {
        let call = &call;
        for number in 1..threads {
            scope.spawn(move || call(number));
        }
        call(0)
    })
}

/// Reads or writes random places of a file without the page cache. Each thread has its own file.
fn direct(file: &str, size: usize, threads: usize, writes: bool) -> Result<()> {
    each(threads, |number| {
        let name = format!("{file}-{number}");
        let mut memory = vec![1; size + ALIGNED];
        let at = memory.as_ptr().align_offset(ALIGNED);
        let buffer = &mut memory[at..at + size];
        fs::write(&name, vec![1; LENGTH])?;
        open(&name)?.sync_all()?;
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true);
        let file = options
            .custom_flags(OFlags::DIRECT.bits().cast_signed())
            .open(name)?;
        let mut dice = Dice::new(number as u64);
        loop {
            let place = dice.roll(0, (LENGTH / size - 1) as u64) * size as u64;
            match writes {
                true => file.write_all_at(buffer, place)?,
                false => file.read_exact_at(buffer, place)?,
            }
        }
    })
}

/// Reads a file again and again through the page cache.
fn rereads(file: &str, mib: usize) -> Result<()> {
    let mut written = open(file)?;
    for _ in 0..mib {
        written.write_all(&vec![1; MIB])?;
    }
    written.sync_all()?;
    let mut buffer = vec![0; 64 * KIB];
    loop {
        for place in (0..mib * MIB).step_by(buffer.len()) {
            written.read_exact_at(&mut buffer, place as u64)?;
        }
    }
}

/// Locks the file for the time of the call, again and again.
fn hold(file: &File, kind: &str, mut call: impl FnMut() -> Result<()>) -> Result<()> {
    let lock = |operation| match kind {
        "flock" => flock(file, operation),
        _ => fcntl_lock(file, operation),
    };
    loop {
        lock(FlockOperation::LockExclusive)?;
        call()?;
        lock(FlockOperation::Unlock)?;
        thread::sleep(LEFT);
    }
}
