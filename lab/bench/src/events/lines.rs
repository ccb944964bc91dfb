//! Parses the tables of libbpf-tools, and the bpftrace one-liners of the bench.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{Arguments, Change, End, Ends, Event, Flags, Reported};

/// Width of the column with a command name, which may contain spaces.
const NAME: usize = 16;
const O_PATH: u32 = 0o10_000_000;
/// `execsnoop` prints this many bytes of an argument, including the final 0.
pub(super) const ARGUMENT: usize = 128;

/// Parses `NAME PID PPID RET PROGRAM ARGUMENTS`.
pub(super) fn execsnoop(line: &str) -> Option<Event> {
    let (name, rest) = columns(line, NAME)?;
    let (pid, rest) = word(rest)?;
    let (parent, rest) = word(rest)?;
    let (result, rest) = word(rest)?;
    if result != "0" {
        return None;
    }
    // execsnoop prints the requested path, and the agent prints the resolved path.
    let (program, words) = word(rest)?;
    let cut = |word: &str| word.len() >= ARGUMENT - 1;
    Some(Event::Exec {
        pid: pid.parse().ok()?,
        parent: Some(parent.parse().ok()?),
        name: name.trim_end().to_owned(),
        arguments: Arguments {
            words: words.trim_end().to_owned(),
            truncated: words.ends_with("...") || cut(program) || words.split(' ').any(cut),
        },
    })
}

/// Parses `NAME PID PPID TID AGE END`, where END is 0, `code N` or `signal N (NAME)`.
pub(super) fn exitsnoop(line: &str) -> Option<Event> {
    let (name, rest) = columns(line, NAME)?;
    let (pid, rest) = word(rest)?;
    let (parent, rest) = word(rest)?;
    let (_tid, rest) = word(rest)?;
    let (_age, end) = word(rest)?;
    let end = end.trim();
    let end = match end.strip_prefix("signal ") {
        Some(signal) => End::Signal(word(signal)?.0.parse().ok()?),
        None => End::Code(end.trim_start_matches("code ").parse().ok()?),
    };
    Some(Event::Exit {
        pid: pid.parse().ok()?,
        parent: Some(parent.parse().ok()?),
        name: name.trim_end().to_owned(),
        end,
    })
}

/// Parses `PID NAME LADDR LPORT RADDR RPORT TX_KB RX_KB MS`.
pub(super) fn tcplife(line: &str) -> Option<Event> {
    let words: Vec<&str> = line.split_whitespace().rev().collect();
    let [_ms, _received, _sent, ends @ ..] = words.as_slice() else {
        return None;
    };
    Some(Event::Tcp(Change::Close, self::ends(ends)?))
}

/// Parses `SOCKET PID NAME LADDR LPORT RADDR RPORT OLD -> NEW MS`.
pub(super) fn tcpstates(line: &str) -> Option<Event> {
    let words: Vec<&str> = line.split_whitespace().rev().collect();
    let [_ms, new, "->", old, ends @ ..] = words.as_slice() else {
        return None;
    };
    let change = match (*old, *new) {
        ("CLOSE", "LISTEN") => Change::Listen,
        ("LISTEN", "CLOSE") => Change::ListenClose,
        ("SYN_SENT", "ESTABLISHED") => Change::Connect,
        ("SYN_SENT", "CLOSE") => Change::ConnectFailed,
        ("SYN_RECV", "ESTABLISHED") => Change::Accept,
        (_, "CLOSE") => Change::Close,
        _ => Change::Between,
    };
    Some(Event::Tcp(change, self::ends(ends)?))
}

/// Parses the addresses from the right: RPORT RADDR LPORT LADDR.
fn ends(words: &[&str]) -> Option<Ends> {
    let [peer_port, peer, local_port, local, ..] = words else {
        return None;
    };
    let address = |word: &str| word.parse::<IpAddr>().ok();
    let local = (address(local)?, local_port.parse().ok()?);
    let peer = (address(peer)?, peer_port.parse().ok()?);
    Some(Ends::new(local, peer))
}

/// Parses `PID NAME FD ERR FLAGS PATH`, with the flags in octal.
pub(super) fn opensnoop(line: &str) -> Option<Event> {
    let (pid, _) = word(line)?;
    // Columns are left-aligned, and wider if needed.
    let rest = line.get(pid.len().max(6) + 1..)?;
    let (_name, rest) = columns(rest, NAME)?;
    let (_descriptor, rest) = word(rest)?;
    let (error, rest) = word(rest)?;
    let (flags, path) = word(rest)?;
    let flags = u32::from_str_radix(flags, 8).ok()?;
    Some(Event::Open {
        pid: pid.parse().ok()?,
        path: path.to_owned(),
        flags: Flags {
            path_only: flags & O_PATH != 0,
        },
        failed: error.parse::<i32>().ok()? != 0,
    })
}

/// Parses `new PID IS_THREAD MONOTONIC` and `oom PID`.
pub(super) fn bpftrace(line: &str) -> Option<Reported> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let reported = |at: Option<u64>, event| Reported {
        at,
        netns: None,
        event,
    };
    match words.as_slice() {
        ["new", pid, "0", at] => {
            let (pid, parent) = (pid.parse().ok()?, None);
            Some(reported(at.parse().ok(), Event::Start { pid, parent }))
        }
        ["new", _, _, at] => Some(reported(at.parse().ok(), Event::ThreadStart)),
        ["oom", pid] => {
            let pid = pid.parse().ok()?;
            Some(reported(None, Event::Oom { pid }))
        }
        _ => None,
    }
}

/// Returns a column of `width` characters, and the text after the space.
fn columns(line: &str, width: usize) -> Option<(&str, &str)> {
    let (column, rest) = line.split_at_checked(width)?;
    Some((column, rest.strip_prefix(' ')?))
}

/// Returns the next word, and the text after one space.
fn word(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start_matches(' ');
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    (!word.is_empty()).then_some((word, rest))
}

/// Returns the address of an unbound socket.
pub(super) fn unspecified(ipv6: bool) -> IpAddr {
    match ipv6 {
        true => Ipv6Addr::UNSPECIFIED.into(),
        false => Ipv4Addr::UNSPECIFIED.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Format;

    fn event(format: Format, line: &str) -> Option<Event> {
        format.read(line).map(|reported| reported.event)
    }

    #[test]
    fn exec_lines_have_arguments() {
        let line = "my sh            4194300 4194299   0 /bin/sh -c true ";
        let Some(Event::Exec {
            pid,
            parent,
            name,
            arguments,
        }) = event(Format::Execsnoop, line)
        else {
            panic!("{line}");
        };
        assert_eq!((pid, parent, &*name), (4_194_300, Some(4_194_299), "my sh"));
        assert_eq!(arguments.words, "-c true");
        assert!(!arguments.truncated);
        let head = "PCOMM            PID    PPID   RET ARGS";
        assert_eq!(event(Format::Execsnoop, head), None);
        let failed = "sh               14753  11648   -2 /bin/none ";
        assert_eq!(event(Format::Execsnoop, failed), None);
    }

    #[test]
    fn exit_lines_have_a_code_or_a_signal() {
        let lines = [
            (
                "sh               19670   19662   19670   0.00    code 7",
                End::Code(7),
            ),
            (
                "apt-get          14762   14760   14762   1.70    0",
                End::Code(0),
            ),
            (
                "lto cgu.0.rcgu.  14762   14760   14762   0.00    signal 9 (KILL)",
                End::Signal(9),
            ),
            (
                "a                14762   14760   14762   0.00    signal 11 (SEGV), core dumped",
                End::Signal(11),
            ),
        ];
        for (line, expected) in lines {
            let Some(Event::Exit { pid, end, .. }) = event(Format::Exitsnoop, line) else {
                panic!("{line}");
            };
            assert_eq!((pid, end), (pid, expected));
        }
    }

    #[test]
    fn socket_lines_have_both_ends_and_the_change() {
        let life = "15127   a b  127.0.0.1       35064 ::ffff:127.0.0.1 1     0.00   0.00   0.06";
        let Some(Event::Tcp(Change::Close, ends)) = event(Format::Tcplife, life) else {
            panic!("{life}");
        };
        assert_eq!(ends.peer.to_string(), "127.0.0.1:1");
        let states = [
            ("SYN_SENT    -> ESTABLISHED", Change::Connect),
            ("SYN_RECV    -> ESTABLISHED", Change::Accept),
            ("CLOSE       -> SYN_SENT   ", Change::Between),
            ("SYN_SENT    -> CLOSE      ", Change::ConnectFailed),
            ("LAST_ACK    -> CLOSE      ", Change::Close),
            ("LISTEN      -> CLOSE      ", Change::ListenClose),
        ];
        for (words, expected) in states {
            let line =
                format!("ffff888135845340 15372   a b  10.0.0.1  5  10.0.0.2  6  {words} 0.1");
            let Some(Event::Tcp(change, ends)) = event(Format::Tcpstates, &line) else {
                panic!("{line}");
            };
            assert_eq!(
                (change, ends.local.port(), ends.peer.port()),
                (expected, 5, 6)
            );
        }
    }

    #[test]
    fn open_lines_have_the_path_and_the_error() {
        let lines = [
            (
                "15410  opensnoop         23   0 02000000 /etc/a b",
                "/etc/a b",
                false,
                false,
            ),
            (
                "13376  lto cgu.0        139   0 12300000 /proc/self",
                "/proc/self",
                false,
                true,
            ),
            (
                "4194300 sh               -1   2 00000000 x",
                "x",
                true,
                false,
            ),
        ];
        for (line, expected, fails, names) in lines {
            let Some(Event::Open {
                path,
                flags,
                failed,
                ..
            }) = event(Format::Opensnoop, line)
            else {
                panic!("{line}");
            };
            assert_eq!((&*path, failed, flags.path_only), (expected, fails, names));
        }
        let head = "PID    COMM              FD ERR FLAGS    PATH";
        assert_eq!(event(Format::Opensnoop, head), None);
    }
}
