//! A segment of a recording of which one part is foreign and has the right checksum. The first byte says which part:
//! `m` the description, `i` the index (a line for each line), `A` and on the chunks of the committed segment, in the
//! order of its index; what follows stands there instead.

#![no_main]

use std::fmt::Write as _;
use std::fs;
use std::panic::set_hook;
use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use noctule_tape::Tape;

const COMMITTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/tape/tests/format-1");

/// Batches and events that are read of one input: an index may claim any number.
const MOST: usize = 1000;

/// The segment in memory, as it was committed.
struct Base {
    folder: PathBuf,
    /// The only line of its index that has rows: eight numbers, and the chunks.
    head: String,
    chunks: Vec<Chunk>,
    meta: Vec<u8>,
}

struct Chunk {
    /// With the mark of a schema.
    name: String,
    file: PathBuf,
    place: [u64; 2],
    checksum: String,
    /// The table as it was committed.
    table: Vec<u8>,
}

impl Base {
    fn new() -> Self {
        // The reader catches what Arrow's decoder does not take; the engine would end at the panic itself. One that
        // is not caught ends the target all the same.
        set_hook(Box::new(|_| ()));
        let mut segments = fs::read_dir(COMMITTED).expect("the committed recording");
        let segment = segments
            .next()
            .expect("a segment")
            .expect("a folder")
            .path();
        let folder = PathBuf::from(format!("/dev/shm/noctule-fuzz-tape-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder in memory");
        for file in fs::read_dir(&segment).expect("a segment") {
            let file = file.expect("a file");
            fs::copy(file.path(), folder.join(file.file_name())).expect("room");
        }
        let index = fs::read_to_string(segment.join("index")).expect("an index");
        let (line, _) = index.split_once(" =").expect("a line with a checksum");
        let words: Vec<&str> = line.split(' ').collect();
        let (head, chunks) = words.split_at(9);
        let chunk = |word: &&str| {
            let parts: Vec<&str> = word.split(':').collect();
            let table = parts[0].trim_end_matches('^');
            let file = folder.join(format!("{table}.arrows"));
            Chunk {
                name: parts[0].to_owned(),
                place: [parts[1], parts[2]].map(|number| number.parse().expect("a number")),
                checksum: parts[3].to_owned(),
                table: fs::read(&file).expect("a table"),
                file,
            }
        };
        Self {
            head: head.join(" "),
            chunks: chunks.iter().map(chunk).collect(),
            meta: fs::read(segment.join("meta.json")).expect("a description"),
            folder,
        }
    }

    /// The line of the index, with another chunk in the place of one.
    fn line(&self, foreign: Option<(usize, &[u8])>) -> String {
        let mut line = self.head.clone();
        for (at, chunk) in self.chunks.iter().enumerate() {
            let [offset, length] = chunk.place;
            let name = &chunk.name;
            // A string has room.
            let _ = match foreign {
                Some((place, bytes)) if place == at => {
                    let (offset, sum) = (chunk.table.len(), crc32fast::hash(bytes));
                    write!(line, " {name}:{offset}:{}:{sum:08x}", bytes.len())
                }
                _ => write!(line, " {name}:{offset}:{length}:{}", chunk.checksum),
            };
        }
        line
    }

    fn seal(&self, lines: &str) {
        let sealed = |line: &str| format!("{line} ={:08x}\n", crc32fast::hash(line.as_bytes()));
        let index: String = lines.lines().map(sealed).collect();
        fs::write(self.folder.join("index"), index).expect("room");
    }

    fn forge(&self, choice: u8, bytes: &[u8]) {
        match choice {
            b'm' => {
                self.seal(&self.line(None));
                fs::write(self.folder.join("meta.json"), bytes).expect("room");
            }
            b'i' => self.seal(&String::from_utf8_lossy(bytes)),
            _ => {
                let place = usize::from(choice.wrapping_sub(b'A')) % self.chunks.len();
                let chunk = &self.chunks[place];
                fs::write(&chunk.file, [&chunk.table, bytes].concat()).expect("room");
                self.seal(&self.line(Some((place, bytes))));
                self.read();
                fs::write(&chunk.file, &chunk.table).expect("room");
                return;
            }
        }
        self.read();
        fs::write(self.folder.join("meta.json"), &self.meta).expect("room");
    }

    fn read(&self) {
        let Ok(tape) = Tape::open(&self.folder) else {
            return;
        };
        let _ = tape.check();
        for segment in tape.segments() {
            let _ = (
                segment.tables(),
                segment.bytes(),
                segment.batches(),
                segment.events(),
            );
        }
        for span in tape.spans() {
            let mut batches = tape.batches(&span, 0);
            batches.by_ref().take(MOST).for_each(drop);
            let mut events = tape.events(&span, 0, u64::MAX);
            events.by_ref().take(MOST).for_each(drop);
            let _ = (batches.damages(), events.damages());
        }
    }
}

static BASE: LazyLock<Base> = LazyLock::new(Base::new);

fuzz_target!(|bytes: &[u8]| {
    if let Some((choice, content)) = bytes.split_first() {
        BASE.forge(*choice, content);
    }
});
