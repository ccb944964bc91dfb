//! Command names, which users can choose.

use std::fmt;

/// The command name of a process as the kernel stores it: at most 15 bytes, any bytes except NUL.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Comm(pub [u8; 16]);

impl Comm {
    /// Reads the bytes up to the first NUL.
    pub fn new(bytes: &[u8]) -> Self {
        let mut comm = [0; 16];
        let len = bytes
            .iter()
            .position(|&b| b == 0)
            .unwrap_or(bytes.len())
            .min(15);
        comm[..len].copy_from_slice(&bytes[..len]);
        Self(comm)
    }

    /// Returns the name as text; bytes that are not UTF-8 become U+FFFD. Control characters are
    /// kept, because every sink escapes them for its format.
    pub fn text(&self) -> String {
        let len = self.0.iter().position(|&b| b == 0).unwrap_or(self.0.len());
        String::from_utf8_lossy(&self.0[..len]).into_owned()
    }
}

/// The processes of one name in one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    pub comm: Comm,
    /// Whether these are kernel threads. Kernel threads and processes of the same name in the same
    /// group are two commands.
    pub kernel_thread: bool,
    /// Number of processes that used anything in the window, including those that exited.
    pub processes: u64,
}

impl fmt::Debug for Comm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comm_ends_at_nul_and_survives_invalid_utf8() {
        assert_eq!(Comm::new(b"sleep\0junk").text(), "sleep");
        assert_eq!(
            Comm::new(b"a-name-longer-than-fifteen").text(),
            "a-name-longer-t"
        );
        assert_eq!(Comm::new(&[b'a', 0xff, b'b']).text(), "a\u{fffd}b");
    }
}
