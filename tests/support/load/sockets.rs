//! A load that does with sockets what it is told, one answer for each line.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use super::body::{hear, tell};

pub(super) const LOADS: &[(&str, fn())] = &[("sockets", sockets)];

#[derive(Default)]
struct Open {
    listeners: Vec<TcpListener>,
    streams: Vec<TcpStream>,
}

/// `listen ADDRESS`, `connect ADDRESS`, `try ADDRESS MILLISECONDS`, `accept`, `send BYTES`,
/// `serve`, `sendfile PATH`, `receive BYTES`, `drain`, `finish`, `close`, `unlisten`,
/// `hold ADDRESS COUNT`, `short ADDRESS COUNT`: on the listener or connection that was opened last. The answer is the
/// own address, a number, or `error ERRNO`.
fn sockets() {
    tell("ready");
    let mut open = Open::default();
    loop {
        let line = hear();
        let words: Vec<&str> = line.split(' ').collect();
        if words[0] == "end" {
            return;
        }
        match open.obey(&words) {
            Ok(answer) => tell(&answer),
            Err(error) => match error.raw_os_error() {
                Some(number) => tell(&format!("error {number}")),
                None => tell(&format!("error {:?}", error.kind())),
            },
        }
    }
}

impl Open {
    fn obey(&mut self, words: &[&str]) -> std::io::Result<String> {
        let number = || words[words.len() - 1].parse::<usize>().expect("a number");
        match words[0] {
            "listen" => {
                let listener = TcpListener::bind(words[1])?;
                let address = listener.local_addr()?;
                self.listeners.push(listener);
                Ok(address.to_string())
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
                    let mut stream = TcpStream::connect(words[1])?;
                    stream.shutdown(Shutdown::Write)?;
                    // The other side's end: faster than that, its queue would overflow.
                    let _: usize = stream.read(&mut [0])?;
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

/// Accepts, waits for the other sides' ends, and closes.
fn serve(listener: &TcpListener) {
    while let Ok((mut stream, _)) = listener.accept() {
        thread::spawn(move || {
            let mut block = [0; 4096];
            while stream.read(&mut block).is_ok_and(|bytes| bytes > 0) {}
        });
    }
}
