//! Formats IP and socket addresses like the kernel.

use std::fmt::Write as _;

/// Appends `10.0.0.1`. The letters of the conversion determine the byte order.
pub(super) fn v4(bytes: &[u8], letters: &[u8], out: &mut String) {
    let [a, b, c, d] = ordered(bytes, letters);
    // Writing to a `String` cannot fail.
    let _ = write!(out, "{a}.{b}.{c}.{d}");
}

/// Appends `010.000.000.001`.
pub(super) fn v4_with_zeros(bytes: &[u8], letters: &[u8], out: &mut String) {
    let [a, b, c, d] = ordered(bytes, letters);
    let _ = write!(out, "{a:03}.{b:03}.{c:03}.{d:03}");
}

fn ordered(bytes: &[u8], letters: &[u8]) -> [u8; 4] {
    let mut address = [0; 4];
    for (place, byte) in address.iter_mut().zip(bytes) {
        *place = *byte;
    }
    // `h` is host byte order, `l` little-endian; the default is network byte order.
    let host = cfg!(target_endian = "little") && letters.get(2) == Some(&b'h');
    if host || letters.get(2) == Some(&b'l') {
        address.reverse();
    }
    address
}

/// Appends all digits, with or without colons.
pub(super) fn v6(bytes: [u8; 16], colons: bool, out: &mut String) {
    for (index, group) in groups(bytes).into_iter().enumerate() {
        let colon = if colons && index > 0 { ":" } else { "" };
        let _ = write!(out, "{colon}{group:04x}");
    }
}

fn groups(bytes: [u8; 16]) -> [u16; 8] {
    std::array::from_fn(|index| u16::from_be_bytes([bytes[2 * index], bytes[2 * index + 1]]))
}

/// Appends `fe80::1`, which omits the longest run of zeros. Addresses that contain an IPv4 address
/// show it in dotted form: mapped addresses and ISATAP (RFC 5214).
pub(super) fn v6_short(bytes: [u8; 16], out: &mut String) {
    let mapped = bytes[..10] == [0; 10] && bytes[10..12] == [0xff; 2];
    let isatap = bytes[8] & !2 == 0 && bytes[9..12] == [0, 0x5e, 0xfe];
    let with_v4 = mapped || isatap;
    let groups = groups(bytes);
    let groups = &groups[..if with_v4 { 6 } else { 8 }];
    let (start, length) = match longest_zeros(groups) {
        (_, 0 | 1) => (groups.len(), 0),
        run => run,
    };
    joined(&groups[..start], out);
    if length > 0 {
        out.push_str("::");
        joined(&groups[start + length..], out);
    }
    if with_v4 {
        // The preceding group is 5efe or ffff, so the run of zeros never ends here.
        out.push(':');
        v4(&bytes[12..], &[], out);
    }
}

fn joined(groups: &[u16], out: &mut String) {
    for (index, group) in groups.iter().enumerate() {
        let colon = if index > 0 { ":" } else { "" };
        let _ = write!(out, "{colon}{group:x}");
    }
}

/// Returns start and length of the first longest run of zeros.
fn longest_zeros(groups: &[u16]) -> (usize, usize) {
    let mut longest = (0, 0);
    let mut run = 0;
    for (index, group) in groups.iter().enumerate() {
        run = if *group == 0 { run + 1 } else { 0 };
        if run > longest.1 {
            longest = (index + 1 - run, run);
        }
    }
    longest
}

/// Appends a `struct sockaddr`. `c` selects the short form of IPv6, `p` adds the port, `f` the flow
/// label, `s` the scope.
pub(super) fn socket(bytes: &[u8], letters: &[u8], out: &mut String) -> Option<()> {
    const INET: u16 = 2;
    const INET6: u16 = 10;
    let family = u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?);
    let has = |letter: u8| letters.contains(&letter);
    let port = || Some(u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?));
    match family {
        INET => {
            v4(bytes.get(4..8)?, &[], out);
            if has(b'p') {
                let _ = write!(out, ":{}", port()?);
            }
        }
        INET6 => {
            let brackets = has(b'p') || has(b'f') || has(b's');
            let address = bytes.get(8..24)?.try_into().ok()?;
            out.push_str(if brackets { "[" } else { "" });
            if has(b'c') {
                v6_short(address, out);
            } else {
                v6(address, true, out);
            }
            out.push_str(if brackets { "]" } else { "" });
            if has(b'p') {
                let _ = write!(out, ":{}", port()?);
            }
            if has(b'f') {
                let flow = u32::from_be_bytes(bytes.get(4..8)?.try_into().ok()?);
                let _ = write!(out, "/{}", flow & 0x0fff_ffff);
            }
            if has(b's') {
                let scope = u32::from_ne_bytes(bytes.get(24..28)?.try_into().ok()?);
                let _ = write!(out, "%{scope}");
            }
        }
        // The kernel prints this text for other address families.
        _ => out.push_str("(einval)"),
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_form_omits_the_longest_zero_run() {
        let cases = [
            ("::", "::"),
            ("::1", "::1"),
            ("fe80::1:0:0:1", "fe80::1:0:0:1"),
            ("1:0:2:3:4:5:6:7", "1:0:2:3:4:5:6:7"),
            ("1:0:0:2::", "1:0:0:2::"),
            ("1:2:3:4:5:6::", "1:2:3:4:5:6::"),
            ("::ffff:10.1.2.3", "::ffff:10.1.2.3"),
            ("fe80::200:5efe:a01:203", "fe80::200:5efe:10.1.2.3"),
            ("::a01:203", "::a01:203"),
        ];
        for (address, expected) in cases {
            let address: std::net::Ipv6Addr = address.parse().unwrap();
            let mut out = String::new();
            v6_short(address.octets(), &mut out);
            assert_eq!(out, expected);
        }
    }

    #[test]
    fn ipv6_addresses_with_a_port_have_brackets() {
        let mut v4 = vec![2, 0, 0x1f, 0x90, 127, 0, 0, 1];
        let mut v6 = vec![10, 0, 0, 80, 0, 0, 0, 7];
        v6.extend(std::net::Ipv6Addr::LOCALHOST.octets());
        v6.extend([9, 0, 0, 0]);
        let cases = [
            (&v4, "pc", "127.0.0.1:8080"),
            (&v4, "", "127.0.0.1"),
            (&v6, "pc", "[::1]:80"),
            (&v6, "c", "::1"),
            (&v6, "pfsc", "[::1]:80/7%9"),
        ];
        for (bytes, letters, expected) in cases {
            let mut out = String::new();
            assert_eq!(socket(bytes, letters.as_bytes(), &mut out), Some(()));
            assert_eq!(out, expected);
        }
        v4[0] = 1;
        let mut out = String::new();
        assert_eq!(socket(&v4, b"pc", &mut out), Some(()));
        assert_eq!(out, "(einval)");
        assert_eq!(socket(&v6[..20], b"pc", &mut String::new()), None);
    }
}
