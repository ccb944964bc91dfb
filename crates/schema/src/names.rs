//! Names for numbers of the kernel: errors, signals, flags of open(2).

use std::borrow::Cow;

/// Errors that can occur when a file is opened or a connection is made. The numbers are the same on
/// all architectures for which the agent is built.
const ERRORS: &[(i32, &str)] = &[
    (1, "EPERM"),
    (2, "ENOENT"),
    (3, "ESRCH"),
    (4, "EINTR"),
    (5, "EIO"),
    (6, "ENXIO"),
    (7, "E2BIG"),
    (8, "ENOEXEC"),
    (9, "EBADF"),
    (11, "EAGAIN"),
    (12, "ENOMEM"),
    (13, "EACCES"),
    (14, "EFAULT"),
    (16, "EBUSY"),
    (17, "EEXIST"),
    (18, "EXDEV"),
    (19, "ENODEV"),
    (20, "ENOTDIR"),
    (21, "EISDIR"),
    (22, "EINVAL"),
    (23, "ENFILE"),
    (24, "EMFILE"),
    (26, "ETXTBSY"),
    (27, "EFBIG"),
    (28, "ENOSPC"),
    (30, "EROFS"),
    (31, "EMLINK"),
    (32, "EPIPE"),
    (36, "ENAMETOOLONG"),
    (39, "ENOTEMPTY"),
    (40, "ELOOP"),
    (71, "EPROTO"),
    (75, "EOVERFLOW"),
    (80, "ELIBBAD"),
    (92, "ENOPROTOOPT"),
    (95, "EOPNOTSUPP"),
    (97, "EAFNOSUPPORT"),
    (98, "EADDRINUSE"),
    (99, "EADDRNOTAVAIL"),
    (100, "ENETDOWN"),
    (101, "ENETUNREACH"),
    (102, "ENETRESET"),
    (103, "ECONNABORTED"),
    (104, "ECONNRESET"),
    (105, "ENOBUFS"),
    (107, "ENOTCONN"),
    (110, "ETIMEDOUT"),
    (111, "ECONNREFUSED"),
    (112, "EHOSTDOWN"),
    (113, "EHOSTUNREACH"),
    (116, "ESTALE"),
    (122, "EDQUOT"),
    (123, "ENOMEDIUM"),
    (125, "ECANCELED"),
];

/// Returns the name of an error, such as `ENOENT`, or the number if the table has no name.
pub fn error(errno: i32) -> Cow<'static, str> {
    let found = ERRORS.iter().find(|(number, _)| *number == errno);
    found.map_or_else(|| errno.to_string().into(), |(_, name)| (*name).into())
}

/// DNS response codes, starting at 0 (RFC 1035, RFC 2136).
const DNS_CODES: [&str; 11] = [
    "NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED", "YXDOMAIN", "YXRRSET",
    "NXRRSET", "NOTAUTH", "NOTZONE",
];

/// Returns the name of a DNS response code, or the number if the table has no name.
pub fn dns_code(code: u8) -> Cow<'static, str> {
    let known = DNS_CODES.get(usize::from(code));
    known.map_or_else(|| code.to_string().into(), |name| (*name).into())
}

/// Record types in DNS questions.
const DNS_TYPES: [(u16, &str); 17] = [
    (1, "A"),
    (2, "NS"),
    (5, "CNAME"),
    (6, "SOA"),
    (12, "PTR"),
    (15, "MX"),
    (16, "TXT"),
    (28, "AAAA"),
    (33, "SRV"),
    (35, "NAPTR"),
    (43, "DS"),
    (48, "DNSKEY"),
    (64, "SVCB"),
    (65, "HTTPS"),
    (252, "AXFR"),
    (255, "ANY"),
    (257, "CAA"),
];

/// Returns the name of a DNS record type, or `TYPE` and the number if the table has no name (RFC
/// 3597).
pub fn dns_type(kind: u16) -> Cow<'static, str> {
    let known = DNS_TYPES.iter().find(|(number, _)| *number == kind);
    known.map_or_else(|| format!("TYPE{kind}").into(), |(_, name)| (*name).into())
}

/// Signals, starting at 1, with the numbers of x86 and arm64.
const SIGNALS: [&str; 31] = [
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
    "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG",
    "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
];

/// Returns the name of a signal, such as `SIGKILL`. Real-time signals have no names and are shown
/// as `signal 34`.
pub fn signal(number: u8) -> String {
    let at = usize::from(number).checked_sub(1);
    match at.and_then(|at| SIGNALS.get(at)) {
        Some(name) => format!("SIG{name}"),
        None => format!("signal {number}"),
    }
}

/// Access modes, which are one number in the two lowest bits.
const ACCESS: [&str; 4] = ["O_RDONLY", "O_WRONLY", "O_RDWR", "O_ACCMODE"];
const ACCESS_BITS: u32 = 3;

/// `O_LARGEFILE`. The kernel sets it for every open of a 64-bit process, so it is not shown.
const LARGE_FILE: u32 = if cfg!(target_arch = "x86_64") {
    0o100_000
} else {
    0o400_000
};

/// Flags with their bits. A flag that contains the bits of another flag precedes it.
const FLAGS: &[(u32, &str)] = &[
    (0o100, "O_CREAT"),
    (0o200, "O_EXCL"),
    (0o400, "O_NOCTTY"),
    (0o1000, "O_TRUNC"),
    (0o2000, "O_APPEND"),
    (0o4000, "O_NONBLOCK"),
    (0o4_010_000, "O_SYNC"),
    (0o10_000, "O_DSYNC"),
    (0o20_000, "O_ASYNC"),
    (DIRECT, "O_DIRECT"),
    (0o20_000_000 | DIRECTORY, "O_TMPFILE"),
    (DIRECTORY, "O_DIRECTORY"),
    (NOFOLLOW, "O_NOFOLLOW"),
    (0o1_000_000, "O_NOATIME"),
    (0o2_000_000, "O_CLOEXEC"),
    (0o10_000_000, "O_PATH"),
];

/// Flags with different numbers on x86 and arm64 (asm/fcntl.h).
const DIRECT: u32 = if cfg!(target_arch = "x86_64") {
    0o40_000
} else {
    0o200_000
};
const DIRECTORY: u32 = if cfg!(target_arch = "x86_64") {
    0o200_000
} else {
    0o40_000
};
const NOFOLLOW: u32 = if cfg!(target_arch = "x86_64") {
    0o400_000
} else {
    0o100_000
};

/// Formats a mode as chmod(1) accepts it.
pub fn octal(mode: u32) -> String {
    format!("{mode:04o}")
}

/// Returns the names of open(2) flags, starting with the access mode. Bits without a name become
/// one hexadecimal number.
pub fn open_flags(flags: u32) -> Vec<Cow<'static, str>> {
    let mut names = vec![ACCESS[(flags & ACCESS_BITS) as usize].into()];
    let mut rest = flags & !ACCESS_BITS & !LARGE_FILE;
    for (bits, name) in FLAGS {
        if rest & bits == *bits {
            rest &= !bits;
            names.push((*name).into());
        }
    }
    if rest != 0 {
        names.push(format!("{rest:#x}").into());
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_have_names_and_unknown_bits_are_kept() {
        let cases: [(u32, &[&str]); 6] = [
            (0, &["O_RDONLY"]),
            (0o101, &["O_WRONLY", "O_CREAT"]),
            (0o2 | LARGE_FILE, &["O_RDWR"]),
            (0o4_010_000, &["O_RDONLY", "O_SYNC"]),
            (
                0o20_000_002 | DIRECTORY | 0o2_000_000,
                &["O_RDWR", "O_TMPFILE", "O_CLOEXEC"],
            ),
            (0x8000_0001, &["O_WRONLY", "0x80000000"]),
        ];
        for (flags, names) in cases {
            assert_eq!(open_flags(flags), names, "{flags:o}");
        }
    }

    #[test]
    fn no_bit_has_two_names_and_numbers_are_in_order() {
        let alone = |bits: &u32| bits.count_ones() == 1;
        let single: Vec<u32> = FLAGS.iter().map(|f| f.0).filter(alone).collect();
        let all = single.iter().fold(0, |all, bit| all | bit);
        assert_eq!(all.count_ones() as usize, single.len());
        assert_eq!(all & (ACCESS_BITS | LARGE_FILE), 0);
        assert!(ERRORS.is_sorted_by(|a, b| a.0 < b.0));
    }

    #[test]
    fn unnamed_errors_and_signals_are_numbers() {
        assert_eq!(error(2), "ENOENT");
        assert_eq!(error(4095), "4095");
        assert_eq!(signal(9), "SIGKILL");
        assert_eq!(signal(31), "SIGSYS");
        assert_eq!(signal(34), "signal 34");
        assert_eq!(signal(0), "signal 0");
    }
}
