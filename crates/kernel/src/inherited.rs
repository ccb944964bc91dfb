//! Returns the socket that systemd passes to this process (`sd_listen_fds`).

use std::io;
use std::net::TcpListener;
use std::os::fd::{BorrowedFd, FromRawFd as _, OwnedFd};

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{AddressFamily, SocketType, sockopt};

/// The first descriptor that is passed.
const FIRST: i32 = 3;

/// Returns the listening TCP socket that was passed to this process, if any. Must be called once,
/// before anything else is opened.
pub fn listener() -> io::Result<Option<TcpListener>> {
    let variable = |name| std::env::var(name).ok();
    let count = sockets(
        variable("LISTEN_PID").as_deref(),
        variable("LISTEN_FDS").as_deref(),
        std::process::id(),
    );
    match count {
        0 => return Ok(None),
        1 => {}
        _ => {
            return Err(refused(format!(
                "expected one inherited socket, got {count}"
            )));
        }
    }
    #[allow(unsafe_code, reason = "inherited descriptors are known only by number")]
    // SAFETY: the environment variables guarantee that the descriptor is open and belongs to this
    // process. The borrow ends before any code could close it.
    let socket = unsafe { BorrowedFd::borrow_raw(FIRST) };
    let family = sockopt::socket_domain(socket)?;
    let right = matches!(family, AddressFamily::INET | AddressFamily::INET6)
        && sockopt::socket_type(socket)? == SocketType::STREAM
        && sockopt::socket_acceptconn(socket)?;
    if !right {
        let words = "the inherited socket is not a listening TCP socket: use \
            ListenStream=127.0.0.1:PORT";
        return Err(refused(words.to_owned()));
    }
    fcntl_setfd(socket, FdFlags::CLOEXEC)?;
    #[allow(unsafe_code, reason = "inherited descriptors are known only by number")]
    // SAFETY: as above. The socket was passed to this process, and no other code here owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(FIRST) };
    Ok(Some(socket.into()))
}

/// Returns the number of sockets passed to the process `pid`.
fn sockets(of: Option<&str>, count: Option<&str>, pid: u32) -> u32 {
    let number = |text: Option<&str>| text?.parse::<u32>().ok();
    match number(of) == Some(pid) {
        true => number(count).unwrap_or(0),
        false => 0,
    }
}

fn refused(words: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inherited_sockets_require_the_matching_pid() {
        let cases = [
            (Some("7"), Some("1"), 1),
            (Some("8"), Some("1"), 0),
            (Some("7"), None, 0),
            (None, Some("1"), 0),
            (Some("x"), Some("1"), 0),
            (Some("7"), Some("-1"), 0),
        ];
        for (of, count, expected) in cases {
            assert_eq!(sockets(of, count, 7), expected, "{of:?} {count:?}");
        }
    }
}
