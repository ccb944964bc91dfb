//! Writes initramfs archives (cpio, format newc).

/// An archive under construction.
pub(super) struct Archive {
    bytes: Vec<u8>,
    number: u32,
}

const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;

impl Archive {
    pub(super) fn new() -> Self {
        Self {
            bytes: Vec::new(),
            number: 0,
        }
    }

    /// Adds a directory; its parents must have been added.
    pub(super) fn folder(&mut self, path: &str) {
        self.entry(path, FOLDER, &[]);
    }

    /// Adds an executable file.
    pub(super) fn file(&mut self, path: &str, bytes: &[u8]) {
        self.entry(path, PROGRAM, bytes);
    }

    /// Returns the finished archive.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }

    fn entry(&mut self, path: &str, mode: u32, bytes: &[u8]) {
        self.number += 1;
        let size = u32::try_from(bytes.len()).expect("no file of 4 GiB");
        let length = u32::try_from(path.len() + 1).expect("a short path");
        // inode, mode, uid, gid, links, time, size, device and special device, name length,
        // checksum
        let links = 1;
        let fields = [
            self.number,
            mode,
            0,
            0,
            links,
            0,
            size,
            0,
            0,
            0,
            0,
            length,
            0,
        ];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes
                .extend_from_slice(format!("{field:08X}").as_bytes());
        }
        self.bytes.extend_from_slice(path.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(bytes);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archives_have_the_newc_format() {
        let mut archive = Archive::new();
        archive.file("init", b"abcde");
        let bytes = archive.finish();
        let text = String::from_utf8(bytes.clone()).expect("ASCII");
        assert!(text.starts_with("07070100000001000081ED"), "{text}");
        // 110 bytes of header, five of the name, padding, five of the file, padding.
        assert_eq!(&bytes[116..121], b"abcde");
        assert_eq!(&bytes[124..130], b"070701");
        assert!(text.contains("TRAILER!!!"));
    }
}
