//! Recognizes identifiers with a fixed format, and decodes systemd's escapes.

/// Returns whether this is a container id of Docker, containerd, CRI-O or podman: 64 lowercase hex
/// digits.
pub(crate) fn is_hash(text: &str) -> bool {
    text.len() == 64 && is_hex(text)
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// Returns whether the text consists of groups of hex digits of these lengths, joined by dashes.
fn is_groups(text: &str, lengths: &[usize]) -> bool {
    let mut groups = text.split('-');
    lengths
        .iter()
        .all(|&len| groups.next().is_some_and(|g| g.len() == len && is_hex(g)))
        && groups.next().is_none()
}

/// Returns whether this is a UUID in its usual form.
pub(crate) fn is_uuid(text: &str) -> bool {
    is_groups(text, &[8, 4, 4, 4, 12])
}

/// Returns whether this is a handle of Cloud Foundry's Garden: like a UUID, but with a last group
/// of four digits.
pub(crate) fn is_garden(text: &str) -> bool {
    is_groups(text, &[8, 4, 4, 4, 4])
}

/// Returns whether this is a container id of ECS on Fargate: the task's 32 hex digits, a dash and a
/// number.
pub(crate) fn is_fargate(text: &str) -> bool {
    text.split_once('-')
        .is_some_and(|(task, n)| task.len() == 32 && is_hex(task) && is_number(n))
}

/// Returns whether this is a pod UID of the kubelet: a UUID, or a hash for static pods.
pub(crate) fn is_pod_uid(text: &str) -> bool {
    is_uuid(text) || (text.len() == 32 && is_hex(text))
}

/// Returns whether the text consists of one or more decimal digits.
pub(crate) fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// Decodes the `\xHH` escapes of a systemd unit name for display. Invalid UTF-8 in the result
/// becomes U+FFFD. A backslash that does not start an escape is kept.
pub fn unescape(name: &str) -> String {
    if !name.contains("\\x") {
        return name.to_owned();
    }
    let bytes = name.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        if let Some(byte) = escaped_byte(&bytes[at..]) {
            out.push(byte);
            at += 4;
        } else {
            out.push(bytes[at]);
            at += 1;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn escaped_byte(rest: &[u8]) -> Option<u8> {
    let [b'\\', b'x', high, low, ..] = rest else {
        return None;
    };
    let digit = |b: &u8| char::from(*b).to_digit(16);
    u8::try_from(digit(high)? * 16 + digit(low)?).ok()
}

/// Returns the user whose slice contains the group, in digits.
pub(crate) fn user_of(path: &str) -> Option<&str> {
    let mut components = path.split('/').filter(|c| !c.is_empty());
    if components.next() != Some("user.slice") {
        return None;
    }
    let user = components.next()?.strip_prefix("user-")?;
    let user = user.strip_suffix(".slice")?;
    is_number(user).then_some(user)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_escapes_are_decoded() {
        let cases = [
            ("plain.service", "plain.service"),
            (r"qemu\x2d1\x2dvm", "qemu-1-vm"),
            (r"caf\xc3\xa9", "café"),
            (r"bad\xff", "bad\u{fffd}"),
            (r"\x2", r"\x2"),
            (r"\xzz\x", r"\xzz\x"),
            (r"\\x2d", r"\-"),
            ("", ""),
        ];
        for (name, expected) in cases {
            assert_eq!(unescape(name), expected, "{name}");
        }
    }

    #[test]
    fn ids_are_recognized_by_their_form() {
        type Case = (&'static str, fn(&str) -> bool, bool);
        let cases: [Case; 9] = [
            ("5f0f6d3e-7a1c-4e0b-9d55-0123456789ab", is_uuid, true),
            ("5f0f6d3e-7a1c-4e0b-9d55-0123456789ab-", is_uuid, false),
            ("5f0f6d3e-7a1c-4e0b-9d55", is_uuid, false),
            ("e91ae9ae-4cbf-4a7d-5f8d-6da1", is_garden, true),
            ("0123456789abcdef0123456789abcdef-1", is_fargate, true),
            ("0123456789abcdef0123456789abcdef-", is_fargate, false),
            ("0123456789abcdef0123456789abcdef", is_pod_uid, true),
            ("0123456789ABCDEF0123456789ABCDEF", is_pod_uid, false),
            ("", is_number, false),
        ];
        for (text, form, expected) in cases {
            assert_eq!(form(text), expected, "{text}");
        }
    }
}
