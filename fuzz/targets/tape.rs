//! Fuzzes recordings: the input replaces one component of a committed segment, with a valid
//! checksum.
//!
//! The first byte selects one of the committed recordings (one per format). The second byte selects
//! the component:
//!
//! - `m`: the description.
//! - `i`: the index, with one line for each line of input.
//! - `A` onwards: the chunks, in the order of the index.
//!
//! The rest of the input is the replacement.

#![no_main]

use std::fs;
use std::panic::set_hook;
use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use noctule_tape::Tape;

const COMMITTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/tape/tests");
/// The formats that have a committed recording.
const FORMATS: [u8; 3] = [1, 2, 3];

/// Maximum number of batches and events to read, because an index may claim any number.
const MOST: usize = 1000;

/// A copy of a committed segment in memory.
struct Base {
    folder: PathBuf,
    /// The words of each line of the index, without checksums.
    index: Vec<Vec<String>>,
    chunks: Vec<Chunk>,
    meta: Vec<u8>,
}

struct Chunk {
    /// Line and word of the chunk in the index.
    place: (usize, usize),
    /// The name, with the mark of a schema.
    name: String,
    file: PathBuf,
    /// The committed content of the file.
    table: Vec<u8>,
}

impl Base {
    fn new(format: u8) -> Self {
        let committed = format!("{COMMITTED}/format-{format}");
        let mut segments = fs::read_dir(committed).expect("the committed recording");
        let segment = segments
            .next()
            .expect("a segment")
            .expect("a folder")
            .path();
        let process = std::process::id();
        let folder = PathBuf::from(format!("/dev/shm/noctule-fuzz-tape-{process}-{format}"));
        fs::create_dir_all(&folder).expect("a folder in memory");
        for file in fs::read_dir(&segment).expect("a segment") {
            let file = file.expect("a file");
            fs::copy(file.path(), folder.join(file.file_name())).expect("room");
        }
        let index = fs::read_to_string(segment.join("index")).expect("an index");
        let index: Vec<Vec<String>> = index.lines().map(words).collect();
        let mut chunks = Vec::new();
        for (line, words) in index.iter().enumerate() {
            for (word, text) in words.iter().enumerate() {
                // Only chunks contain a colon.
                let Some((name, _)) = text.split_once(':') else {
                    continue;
                };
                let file = folder.join(format!("{}.arrows", name.trim_end_matches('^')));
                chunks.push(Chunk {
                    place: (line, word),
                    name: name.to_owned(),
                    table: fs::read(&file).expect("a table"),
                    file,
                });
            }
        }
        Self {
            index,
            chunks,
            meta: fs::read(segment.join("meta.json")).expect("a description"),
            folder,
        }
    }

    /// Writes the index, with one word replaced.
    fn write_index(&self, foreign: Option<((usize, usize), String)>) {
        let mut index = self.index.clone();
        if let Some(((line, word), text)) = foreign {
            index[line][word] = text;
        }
        let lines: Vec<String> = index.iter().map(|words| words.join(" ")).collect();
        self.seal(&lines.join("\n"));
    }

    fn seal(&self, lines: &str) {
        let sealed = |line: &str| format!("{line} ={:08x}\n", crc32fast::hash(line.as_bytes()));
        let index: String = lines.lines().map(sealed).collect();
        fs::write(self.folder.join("index"), index).expect("room");
    }

    fn forge(&self, choice: u8, bytes: &[u8]) {
        match choice {
            b'm' => {
                self.write_index(None);
                fs::write(self.folder.join("meta.json"), bytes).expect("room");
                self.read();
                fs::write(self.folder.join("meta.json"), &self.meta).expect("room");
            }
            b'i' => {
                self.seal(&String::from_utf8_lossy(bytes));
                self.read();
            }
            _ => {
                let place = usize::from(choice.wrapping_sub(b'A')) % self.chunks.len();
                let chunk = &self.chunks[place];
                let Chunk { name, table, .. } = chunk;
                let (offset, sum) = (table.len(), crc32fast::hash(bytes));
                let word = format!("{name}:{offset}:{}:{sum:08x}", bytes.len());
                fs::write(&chunk.file, [table, bytes].concat()).expect("room");
                self.write_index(Some((chunk.place, word)));
                self.read();
                fs::write(&chunk.file, table).expect("room");
            }
        }
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
            let length_ns = tape.length_ns(&span).unwrap_or(0) / 2;
            let part = tape.part(&span, span.from_unix_ns, length_ns);
            part.events(&tape).take(MOST).for_each(drop);
            let mut report = part.batches(&tape);
            std::iter::from_fn(|| report.next_for_report()).take(MOST).for_each(drop);
            // Reads only the batches at the end.
            let mut last = tape.batches(&span, span.to_unix_ns);
            last.by_ref().take(MOST).for_each(drop);
            let mut events = tape.events(&span, 0, u64::MAX);
            events.by_ref().take(MOST).for_each(drop);
            let _ = (batches.damages(), events.damages());
        }
    }
}

fn words(line: &str) -> Vec<String> {
    let (line, _) = line.split_once(" =").expect("a line with a checksum");
    line.split(' ').map(str::to_owned).collect()
}

static BASES: LazyLock<[Base; 3]> = LazyLock::new(|| {
    // The reader catches panics of Arrow's decoder, but libFuzzer's hook would abort when a panic
    // starts. A panic that is not caught still ends the target.
    set_hook(Box::new(|_| ()));
    FORMATS.map(Base::new)
});

fuzz_target!(|bytes: &[u8]| {
    if let [format, choice, content @ ..] = bytes {
        let place = usize::from(format.wrapping_sub(b'1')) % BASES.len();
        BASES[place].forge(*choice, content);
    }
});
