//! A load that executes socket commands and replies to each with one line.

use std::fs::File;
use std::io::{Read as _, Write as _, stdin};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::{Child, Command};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{AddressFamily, SocketType, bind, connect, listen, socket, sockopt};

use super::body::{read_command, send_reply};
use super::{VARIABLE, binary};

pub(super) const LOADS: &[(&str, fn())] = &[("sockets", sockets), ("accepter", accepter)];

#[derive(Default)]
struct Open {
    listeners: Vec<TcpListener>,
    streams: Vec<TcpStream>,
    children: Vec<Child>,
    /// Socket pairs that hold descriptors in transit.
    posted: Vec<[OwnedFd; 2]>,
}

/// Commands, which act on the most recent listener or connection: `listen ADDRESS`, `share
/// ADDRESS`, `unbound 4` (or `6`), `connect ADDRESS`, `try ADDRESS MILLISECONDS`, `begin ADDRESS`,
/// `settle`, `accept`, `lend`, `join`, `send BYTES`, `serve`, `sendfile PATH`, `receive BYTES`,
/// `drain`, `finish`, `close`, `unlisten`, `multipath ADDRESS` (listens) and `multiply ADDRESS`
/// (connects) with Multipath TCP, `post` (sends a connection to a socket that is never read), `hold
/// ADDRESS COUNT`, `short ADDRESS COUNT`, `spread PORT COUNT`. Each command replies with its own
/// address, a number, or `error ERRNO`.
fn sockets() {
    send_reply("ready");
    let mut open = Open::default();
    loop {
        let line = read_command();
        let words: Vec<&str> = line.split(' ').collect();
        if words[0] == "end" {
            return;
        }
        match open.obey(&words) {
            Ok(answer) => send_reply(&answer),
            Err(error) => match error.raw_os_error() {
                Some(number) => send_reply(&format!("error {number}")),
                None => send_reply(&format!("error {:?}", error.kind())),
            },
        }
    }
}

impl Open {
    #[expect(clippy::too_many_lines, reason = "one arm for each order")]
    fn obey(&mut self, words: &[&str]) -> std::io::Result<String> {
        let number = || words[words.len() - 1].parse::<usize>().expect("a number");
        match words[0] {
            "listen" => {
                let listener = TcpListener::bind(words[1])?;
                let address = listener.local_addr()?;
                self.listeners.push(listener);
                Ok(address.to_string())
            }
            "multipath" => {
                let listener = TcpListener::from(multipath()?);
                bind(
                    &listener,
                    &words[1].parse::<SocketAddr>().expect("an address"),
                )?;
                listen(&listener, 128)?;
                let address = listener.local_addr()?;
                self.listeners.push(listener);
                Ok(address.to_string())
            }
            "multiply" => {
                let stream = TcpStream::from(multipath()?);
                connect(
                    &stream,
                    &words[1].parse::<SocketAddr>().expect("an address"),
                )?;
                let address = stream.local_addr()?;
                self.streams.push(stream);
                Ok(address.to_string())
            }
            "post" => {
                let stream = self.streams.pop().expect("a connection");
                self.posted.push(post(&stream)?);
                Ok("done".into())
            }
            "share" | "unbound" => {
                let listener = listener(words)?;
                let address = listener.local_addr()?;
                self.listeners.push(listener);
                Ok(address.to_string())
            }
            "begin" => {
                self.streams.push(begin(words[1])?);
                Ok("begun".into())
            }
            "settle" => {
                let stream = self.streams.pop().expect("a connection");
                poll(&mut [PollFd::new(&stream, PollFlags::OUT)], None)?;
                if let Some(error) = stream.take_error()? {
                    return Err(error);
                }
                stream.set_nonblocking(false)?;
                let address = stream.local_addr()?;
                self.streams.push(stream);
                Ok(address.to_string())
            }
            "lend" => {
                let listener = self.listeners.last().expect("a listener").try_clone()?;
                let mut command = Command::new(binary());
                command.env(VARIABLE, "accepter");
                let child = command.stdin(OwnedFd::from(listener)).spawn()?;
                let id = child.id();
                self.children.push(child);
                Ok(id.to_string())
            }
            "join" => {
                let status = self.children.pop().expect("a child").wait()?;
                Ok(status.to_string())
            }
            "unlisten" => {
                self.listeners.pop();
                Ok("done".into())
            }
            "connect" => {
                let stream = TcpStream::connect(words[1])?;
                let address = stream.local_addr()?;
                self.streams.push(stream);
                Ok(address.to_string())
            }
            "try" => {
                let address: SocketAddr = words[1].parse().expect("an address");
                let limit = Duration::from_millis(number() as u64);
                self.streams
                    .push(TcpStream::connect_timeout(&address, limit)?);
                Ok("connected".into())
            }
            "accept" => {
                let (stream, from) = self.listeners.last().expect("a listener").accept()?;
                self.streams.push(stream);
                Ok(from.to_string())
            }
            "hold" => {
                for _ in 0..number() {
                    self.streams.push(TcpStream::connect(words[1])?);
                }
                Ok("done".into())
            }
            "short" => {
                for _ in 0..number() {
                    short(words[1])?;
                }
                Ok("done".into())
            }
            // Each connection goes to another address of this machine.
            "spread" => {
                for at in 0..number() {
                    short(&format!("127.1.{}.{}:{}", at / 250, at % 250 + 1, words[1]))?;
                }
                Ok("done".into())
            }
            "serve" => {
                let listener = self.listeners.last().expect("a listener").try_clone()?;
                thread::spawn(move || serve(&listener));
                Ok("done".into())
            }
            "close" => {
                self.streams.pop();
                Ok("done".into())
            }
            _ => self.transfer(words),
        }
    }

    fn transfer(&mut self, words: &[&str]) -> std::io::Result<String> {
        let mut stream = self.streams.last().expect("a connection");
        match words[0] {
            "send" => {
                let bytes = words[1].parse().expect("a number");
                stream.write_all(&vec![b'x'; bytes])?;
                Ok(bytes.to_string())
            }
            "sendfile" => {
                let file = File::open(words[1])?;
                let size = file.metadata()?.len();
                let mut sent = 0;
                while sent < size {
                    let rest = (size - sent) as usize;
                    sent += rustix::fs::sendfile(stream, &file, None, rest)? as u64;
                }
                Ok(sent.to_string())
            }
            "receive" => {
                let mut bytes = vec![0; words[1].parse().expect("a number")];
                stream.read_exact(&mut bytes)?;
                Ok(bytes.len().to_string())
            }
            "drain" => {
                let mut block = vec![0; 1 << 16];
                let mut sum = 0;
                loop {
                    match stream.read(&mut block)? {
                        0 => return Ok(sum.to_string()),
                        bytes => sum += bytes,
                    }
                }
            }
            "finish" => {
                stream.shutdown(Shutdown::Write)?;
                Ok("done".into())
            }
            other => panic!("no such word: {other}"),
        }
    }
}

/// Opens a connection without payload.
fn short(address: &str) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.shutdown(Shutdown::Write)?;
    // Waits until the other side closes. Otherwise the other side's queue would overflow.
    stream.read(&mut [0]).map(drop)
}

/// Creates a Multipath TCP socket.
fn multipath() -> std::io::Result<OwnedFd> {
    let protocol = Some(rustix::net::ipproto::MPTCP);
    Ok(socket(AddressFamily::INET, SocketType::STREAM, protocol)?)
}

/// Sends a descriptor to a socket that is never read.
fn post(stream: &TcpStream) -> std::io::Result<[OwnedFd; 2]> {
    use rustix::net::{
        SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, sendmsg, socketpair,
    };
    let flags = SocketFlags::CLOEXEC;
    let (from, to) = socketpair(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = [stream.as_fd()];
    assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
    let text = [std::io::IoSlice::new(b"x")];
    sendmsg(&from, &text, &mut control, SendFlags::empty())?;
    Ok([from, to])
}

/// Creates a listener. `share ADDRESS` uses a port that other sockets may share, and `unbound` any
/// free port.
fn listener(words: &[&str]) -> std::io::Result<TcpListener> {
    let socket = if words[0] == "share" {
        let address: SocketAddr = words[1].parse().expect("an address");
        let socket = stream_socket(address.is_ipv6())?;
        sockopt::set_socket_reuseport(&socket, true)?;
        bind(&socket, &address)?;
        socket
    } else {
        stream_socket(words[1] == "6")?
    };
    listen(&socket, 128)?;
    Ok(socket.into())
}

/// Starts to connect without waiting.
fn begin(address: &str) -> std::io::Result<TcpStream> {
    let address: SocketAddr = address.parse().expect("an address");
    let stream = TcpStream::from(stream_socket(address.is_ipv6())?);
    stream.set_nonblocking(true)?;
    match connect(&stream, &address) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => Ok(stream),
        Err(error) => Err(error.into()),
    }
}

fn stream_socket(v6: bool) -> std::io::Result<OwnedFd> {
    let family = if v6 {
        AddressFamily::INET6
    } else {
        AddressFamily::INET
    };
    Ok(socket(family, SocketType::STREAM, None)?)
}

/// Accepts a connection from the listener on standard input, reads until the peer closes, and
/// exits.
fn accepter() {
    let listener = stdin().as_fd().try_clone_to_owned().expect("a listener");
    let (mut stream, _) = TcpListener::from(listener).accept().expect("a connection");
    let mut block = [0; 4096];
    while stream.read(&mut block).is_ok_and(|bytes| bytes > 0) {}
}

/// Accepts connections, waits until the other side closes each one, and closes it.
fn serve(listener: &TcpListener) {
    while let Ok((mut stream, _)) = listener.accept() {
        thread::spawn(move || {
            let mut block = [0; 4096];
            while stream.read(&mut block).is_ok_and(|bytes| bytes > 0) {}
        });
    }
}
