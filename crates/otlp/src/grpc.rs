//! The subset of gRPC that unary calls need.

use data_encoding::BASE64_NOPAD;

/// Prefixes a message with its compression flag and length.
pub(crate) fn framed(compressed: bool, message: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(message.len() + 5);
    frame.push(compressed.into());
    frame.extend((message.len() as u32).to_be_bytes());
    frame.extend(message);
    frame
}

/// Returns the message of a response. A compressed response, which was not requested, is read as
/// empty.
pub(crate) fn message(frame: &[u8]) -> &[u8] {
    let Some((head, rest)) = frame.split_first_chunk::<5>() else {
        return &[];
    };
    let [compressed, length @ ..] = head;
    let length = u32::from_be_bytes(*length) as usize;
    match compressed {
        0 => rest.get(..length).unwrap_or(&[]),
        _ => &[],
    }
}

/// Names of the status codes, from 0.
const NAMES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

pub(crate) fn name(code: i32) -> String {
    let known = usize::try_from(code).ok().and_then(|it| NAMES.get(it));
    known.map_or_else(|| code.to_string(), |name| (*name).to_owned())
}

/// Returns whether OTLP allows a retry. For `RESOURCE_EXHAUSTED`, a retry is allowed only if the
/// receiver gives a time.
pub(crate) fn allows_retry(code: i32, says_when: bool) -> bool {
    match name(code).as_str() {
        "CANCELLED" | "DEADLINE_EXCEEDED" | "ABORTED" | "OUT_OF_RANGE" | "UNAVAILABLE"
        | "DATA_LOSS" => true,
        "RESOURCE_EXHAUSTED" => says_when,
        _ => false,
    }
}

/// Decodes base64 of either alphabet, with or without padding.
pub(crate) fn base64(text: &str) -> Option<Vec<u8>> {
    let standard = text.replace('-', "+").replace('_', "/");
    let digits = standard.trim_end_matches('=');
    BASE64_NOPAD.decode(digits.as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn framed_message_round_trips() {
        let frame = framed(false, b"abc");
        assert_eq!(frame, b"\0\0\0\0\x03abc");
        assert_eq!(message(&frame), b"abc");
        assert_eq!(framed(true, b"")[0], 1);
        for none in [
            b"".as_slice(),
            b"\0\0\0",
            b"\0\0\0\0\x09abc",
            b"\x01\0\0\0\x01a",
        ] {
            assert_eq!(message(none), b"");
        }
    }

    #[test]
    fn codes_are_temporary_or_permanent() {
        let for_now: Vec<i32> = (0..18).filter(|code| allows_retry(*code, false)).collect();
        assert_eq!(for_now, [1, 4, 10, 11, 14, 15]);
        assert!(allows_retry(8, true));
        assert_eq!((name(14), name(99)), ("UNAVAILABLE".into(), "99".into()));
    }

    #[test]
    fn base64_is_read() {
        let cases = [
            ("", ""),
            ("YQ", "a"),
            ("YQ==", "a"),
            ("YWJj", "abc"),
            ("_w", "\u{0}"),
        ];
        for (text, expected) in &cases[..4] {
            assert_eq!(base64(text).as_deref(), Some(expected.as_bytes()));
        }
        assert_eq!(base64("_w"), base64("/w=="));
        assert_eq!(base64("a b"), None);
    }
}
