//! A load that reads or writes a file without the page cache.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::time::Instant;

use super::body::{argument, read_command, send_reply};

pub(super) const LOADS: &[(&str, fn())] = &[("direct", direct)];

const MIB: usize = 1 << 20;
/// Alignment that every device accepts.
const ALIGNED: usize = 4096;

/// `MEBIBYTES KIBIBYTES reads|writes`: on request, reads or writes the file once, in calls of that
/// size. Reports how many seconds the calls took.
fn direct() {
    let length = argument::<usize>(0).expect("MEBIBYTES") * MIB;
    let size = argument::<usize>(1).expect("KIBIBYTES") << 10;
    let writes = argument::<String>(2).expect("what it does") == "writes";
    let file = tempfile::NamedTempFile::new_in(".").expect("a file of our own");
    let mut memory = vec![1; size + ALIGNED];
    let at = memory.as_ptr().align_offset(ALIGNED);
    let buffer = &mut memory[at..at + size];
    let open = |direct: i32| -> File {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).custom_flags(direct);
        options.open(file.path()).expect("our file")
    };
    // Allocates the blocks of the file.
    for at in (0..length).step_by(size) {
        open(0).write_all_at(buffer, at as u64).expect("room");
    }
    open(0).sync_all().expect("the file is on its disk");
    let opened = open(libc::O_DIRECT);
    send_reply("ready");
    read_command();
    let began = Instant::now();
    for at in (0..length).step_by(size) {
        match writes {
            true => opened.write_all_at(buffer, at as u64).expect("room"),
            false => opened.read_exact_at(buffer, at as u64).expect("our file"),
        }
    }
    send_reply(&began.elapsed().as_secs_f64().to_string());
}
