//! Servers from Debian under their own benchmarks. The servers were chosen because they are common,
//! not because they show the largest effect. Server and clients share one CPU. On a small machine,
//! the scheduler's placement would change a rate by tens of percent. On one CPU, the time of a
//! request is all CPU time, and nothing else runs there.

use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use super::{Outcome, children_ns, last_cpu, pin, tied};
use crate::contender::{is_installed, with_sbin};
use crate::events::{address_of, folder_of};

const START: Duration = Duration::from_secs(10);
const CLIENTS: &str = "16";

/// The requests are divided into this many parts, and the rate of the fastest part is the result.
/// Other processes on a shared machine only slow a part down.
const PARTS: u64 = 20;

/// Measures requests over persistent connections, which shows the cost of an established
/// connection.
pub(super) fn redis(requests: u64) -> Result<Outcome> {
    need_redis()?;
    pin(last_cpu()?)?;
    let server = Server::redis()?;
    let rate = fastest(requests, |requests| server.redis_benchmark(requests))?;
    outcome(requests, rate, server)
}

/// Measures requests that each open a connection, which is the most frequent event on a server.
pub(super) fn nginx(requests: u64) -> Result<Outcome> {
    pin(last_cpu()?)?;
    let server = Server::nginx()?;
    let rate = fastest(requests, |requests| server.ab(requests))?;
    outcome(requests, rate, server)
}

fn fastest(requests: u64, mut run: impl FnMut(u64) -> Result<f64>) -> Result<f64> {
    let parts = (0..PARTS).map(|part| requests * (part + 1) / PARTS - requests * part / PARTS);
    parts.filter(|part| *part > 0).try_fold(0.0, |best, part| {
        let rate = run(part)?;
        Ok(f64::max(best, rate))
    })
}

fn outcome(requests: u64, rate: f64, server: Server) -> Result<Outcome> {
    drop(server);
    Ok(Outcome {
        operations: requests,
        elapsed_ns: (requests as f64 / rate * 1e9) as u64,
        cpu_ns: children_ns()?,
        ..Outcome::default()
    })
}

pub(super) fn need_redis() -> Result<()> {
    need(&["redis-server", "redis-benchmark"], "redis-server")
}

pub(super) fn need_nginx() -> Result<()> {
    need(&["nginx"], "nginx")?;
    need(&["ab"], "apache2-utils")
}

fn need(programs: &[&str], package: &str) -> Result<()> {
    for program in programs {
        let there = is_installed(program);
        ensure!(there, "{program} is not installed (Debian: {package})");
    }
    Ok(())
}

/// Returns the output of a program that must succeed.
fn answer(command: &mut Command) -> Result<String> {
    let name = command.get_program().display().to_string();
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| name.clone())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    ensure!(
        output.status.success(),
        "{name}: {}",
        text(&output.stderr).trim()
    );
    Ok(text(&output.stdout))
}

/// A server with its own directory and address. Dropping it ends the server and removes the
/// directory.
pub(super) struct Server {
    child: Child,
    folder: PathBuf,
    address: Ipv4Addr,
    port: u16,
}

impl Server {
    fn redis() -> Result<Self> {
        Self::start("redis-server", |_, address, port| {
            let mut command = tied("redis-server");
            command.args(["--bind", &address.to_string(), "--port", &port.to_string()]);
            command.args(["--save", "", "--appendonly", "no", "--daemonize", "no"]);
            Ok(command)
        })
    }

    /// Starts nginx with one worker and a page.
    pub(super) fn nginx() -> Result<Self> {
        need_nginx()?;
        Self::start("nginx", |folder, address, port| {
            let parts = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
            let parts = parts.map(|part| format!("{part}_temp_path {part};"));
            let configuration = format!(
                "daemon off; worker_processes 1; user root; pid pid; error_log error;\n\
                 events {{ worker_connections 1024; }}\n\
                 http {{ access_log off; {} server {{ listen {address}:{port}; root .; }} }}\n",
                parts.concat()
            );
            fs::write(folder.join("nginx.conf"), configuration).context("nginx.conf")?;
            fs::write(folder.join("index.html"), "hello\n").context("index.html")?;
            let mut command = tied("nginx");
            command
                .arg("-p")
                .arg(folder)
                .arg("-c")
                .arg(folder.join("nginx.conf"));
            command.arg("-e").arg(folder.join("error"));
            Ok(command)
        })
    }

    fn start(
        name: &str,
        command: impl FnOnce(&Path, Ipv4Addr, u16) -> Result<Command>,
    ) -> Result<Self> {
        let folder = folder_of(std::process::id());
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        let address = address_of(std::process::id());
        let free = TcpListener::bind((address, 0)).context("a port")?;
        let port = free.local_addr().context("a port")?.port();
        drop(free);
        let mut command = command(&folder, address, port)?;
        command.current_dir(&folder).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = with_sbin(&mut command)
            .spawn()
            .with_context(|| name.to_owned())?;
        let mut this = Self {
            child,
            folder,
            address,
            port,
        };
        let deadline = Instant::now() + START;
        while TcpStream::connect((address, port)).is_err() {
            if let Some(status) = this.child.try_wait().context("waiting for a server")? {
                bail!("{name}: {status}");
            }
            ensure!(Instant::now() < deadline, "{name} does not answer");
            thread::sleep(Duration::from_millis(20));
        }
        Ok(this)
    }

    /// Sends requests over persistent connections, and returns the rate per second.
    fn redis_benchmark(&self, requests: u64) -> Result<f64> {
        let mut command = Command::new("redis-benchmark");
        command.args(["-h", &self.address.to_string()]);
        command.args(["-p", &self.port.to_string()]);
        command.args(["-n", &requests.to_string(), "-c", CLIENTS]);
        command.args(["-t", "get", "--csv"]);
        let text = answer(&mut command)?;
        // The line looks like `"GET","123456.79",...`.
        let rate = text.lines().find_map(|line| {
            let line = line.strip_prefix("\"GET\",\"")?;
            line.split('"').next()?.parse().ok()
        });
        rate.context("redis-benchmark prints no rate")
    }

    /// Sends requests that each open a connection, and returns the rate per second.
    pub(super) fn ab(&self, requests: u64) -> Result<f64> {
        let mut command = Command::new("ab");
        command.args(["-q", "-n", &requests.to_string(), "-c", CLIENTS]);
        command.arg(format!("http://{}:{}/", self.address, self.port));
        let text = answer(&mut command)?;
        let failed = text
            .lines()
            .any(|line| line.starts_with("Failed requests:") && !line.ends_with(" 0"));
        ensure!(!failed, "ab: {text}");
        let rate = text
            .lines()
            .find_map(|l| l.strip_prefix("Requests per second:"));
        let rate = rate.and_then(|l| l.split_whitespace().next()?.parse().ok());
        rate.context("ab prints no rate")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // If the master process were killed, its workers would continue to run.
        let pid = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}
