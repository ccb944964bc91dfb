//! Reads files that a user names, up to a limit: a device such as `/dev/zero` has no end.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Maximum size in MiB of a configuration, key, certificate or list of users.
pub(crate) const SETTINGS_MIB: u64 = 1;

/// Returns the remaining bytes, or an error if there are more than `mib` MiB.
pub(crate) fn read(source: impl Read, mib: u64) -> io::Result<Vec<u8>> {
    let most = mib << 20;
    let mut bytes = Vec::new();
    source.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let words = format!("is larger than {mib} MiB");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, words));
    }
    Ok(bytes)
}

/// Reads a configuration file.
pub(crate) fn settings(path: &Path) -> io::Result<String> {
    let bytes = read(File::open(path)?, SETTINGS_MIB)?;
    let not_text = |_| io::Error::new(io::ErrorKind::InvalidData, "is not valid UTF-8");
    String::from_utf8(bytes).map_err(not_text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oversized_file_is_refused_at_the_limit() {
        let zeros = |bytes| io::repeat(0).take(bytes);
        assert_eq!(read(zeros(2 << 20), 2).expect("it fits").len(), 2 << 20);
        let mut endless = zeros(1 << 30);
        let error = read(&mut endless, 2).expect_err("too large");
        assert_eq!(error.to_string(), "is larger than 2 MiB");
        assert_eq!(endless.limit(), (1 << 30) - (2 << 20) - 1);
    }
}
