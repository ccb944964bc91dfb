//! Parses the question of a DNS packet (RFC 1035, section 4.1.2).

use noctule_model::DnsQuestion;

/// Maximum length of a label.
const LABEL: u8 = 63;

/// Parses the name and the type. A name that is incomplete or contains a pointer is marked as
/// truncated.
pub(super) fn parse(bytes: &[u8]) -> DnsQuestion {
    let mut name = Vec::new();
    let mut rest = bytes;
    let kind = loop {
        match rest.split_first() {
            Some((0, rest)) => break rest.first_chunk().map(|kind| u16::from_be_bytes(*kind)),
            Some((&length @ 1..=LABEL, after)) => {
                let (label, after) = after.split_at(after.len().min(length.into()));
                push(&mut name, label);
                rest = after;
            }
            Some(_) | None => break None,
        }
    };
    // The root domain has no label.
    if name.is_empty() && kind.is_some() {
        name.push(b'.');
    }
    DnsQuestion {
        name,
        truncated: kind.is_none(),
        kind: kind.unwrap_or(0),
    }
}

/// Appends a label. Dots and backslashes in the label are escaped, as in zone files.
fn push(name: &mut Vec<u8>, label: &[u8]) {
    if !name.is_empty() {
        name.push(b'.');
    }
    for &byte in label {
        if matches!(byte, b'.' | b'\\') {
            name.push(b'\\');
        }
        name.push(byte);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dns_name_is_parsed_up_to_its_end() {
        let cases: [(&[u8], &[u8], u16, bool); 8] = [
            (
                b"\x03www\x07example\x03org\0\0\x1c\0\x01",
                b"www.example.org",
                28,
                false,
            ),
            (b"\0\0\x02\0\x01", b".", 2, false),
            (b"\x03a.b\x01\xff\0\0\x01\0\x01", b"a\\.b.\xff", 1, false),
            (b"\x03a\\b\0\0\x01\0\x01", b"a\\\\b", 1, false),
            // Questions that are truncated within a label or before the type, or empty.
            (b"\x07exam", b"exam", 0, true),
            (b"\x01a\0\0", b"a", 0, true),
            (b"", b"", 0, true),
            // A compression pointer, which questions do not contain.
            (b"\x01a\xc0\x0c\0\x01\0\x01", b"a", 0, true),
        ];
        for (bytes, name, kind, truncated) in cases {
            let expected = DnsQuestion {
                name: name.to_vec(),
                truncated,
                kind,
            };
            assert_eq!(parse(bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn arbitrary_bytes_are_parsed_without_panic() {
        // Tests every length of a first label, with too few and with enough bytes.
        for first in 0..=u8::MAX {
            for length in [0, 5, 259] {
                let bytes = [&[first][..], &vec![first; length]].concat();
                let question = parse(&bytes);
                assert!(question.name.len() <= bytes.len() * 2, "{first} {length}");
            }
        }
    }
}
