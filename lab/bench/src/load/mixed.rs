//! A few events of each kind: a build, a web server under load, short processes with various ends,
//! an OOM kill, and failing connections. The load runs in its own network namespace, so that the
//! counters there cover only this load.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Write as _, stdout};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use super::server::Server;
use super::{Part, command};
use crate::events::{address_of, folder_of};

/// A neighbour that never replies, so that the kernel retransmits SYNs after 1 and 3 seconds.
const SILENT: &str = "10.77.0.9:9";
const GIVE_UP: Duration = Duration::from_millis(3500);
const SOURCES: u32 = 16;

/// Runs the load and prints the kernel's counters. `cgroup` is the memory cgroup with a limit.
pub(super) fn run(cgroup: &Path) -> Result<()> {
    network()?;
    build().context("the build")?;
    web().context("the web server")?;
    processes().context("short processes")?;
    connections().context("connections")?;
    let mut eater = command(Part::Eater, &cgroup.display().to_string());
    let status = eater.stdin(Stdio::null()).status().context("the eater")?;
    ensure!(
        status.signal() == Some(9),
        "the eater was not killed: {status}"
    );
    writeln!(stdout(), "{}", json!(tcp_counters()?)).context("telling the counts")
}

/// Sets up the loopback device, and a link on which no host replies.
fn network() -> Result<()> {
    let commands: [&[&str]; 5] = [
        &["link", "set", "lo", "up"],
        &[
            "link", "add", "link0", "type", "veth", "peer", "name", "link1",
        ],
        &["address", "add", "10.77.0.1/24", "dev", "link0"],
        &["link", "set", "link0", "up"],
        &[
            "neighbour",
            "add",
            "10.77.0.9",
            "lladdr",
            "02:00:00:00:00:99",
            "dev",
            "link0",
            "nud",
            "permanent",
        ],
    ];
    for words in commands {
        succeed(Command::new("ip").args(words))?;
    }
    succeed(Command::new("ip").args(["link", "set", "link1", "up"]))
}

fn succeed(command: &mut Command) -> Result<()> {
    let name = command.get_program().display().to_string();
    let status = command
        .stdin(Stdio::null())
        .status()
        .with_context(|| name.clone())?;
    ensure!(status.success(), "{name}: {status}");
    Ok(())
}

/// Compiles and links some generated files, two at a time.
fn build() -> Result<()> {
    let folder = folder_of(std::process::id());
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let mut objects = String::new();
    for source in 0..SOURCES {
        let mut text = String::from("#include <stdio.h>\n#include <string.h>\n");
        for function in 0..50 {
            text += &format!("int f{source}_{function}(int x) {{ return printf(\"%d\", x); }}\n");
        }
        if source == 0 {
            text += "int main(void) { return 0; }\n";
        }
        fs::write(folder.join(format!("{source}.c")), text).context("a source")?;
        objects += &format!(" {source}.o");
    }
    let rules =
        format!("all:{objects}\n\tcc -o program{objects}\n%.o: %.c\n\tcc -O1 -c -o $@ $<\n");
    fs::write(folder.join("Makefile"), rules).context("the rules")?;
    let mut make = Command::new("make");
    make.args(["-s", "-j2"])
        .current_dir(&folder)
        .stdout(Stdio::null());
    let result = succeed(&mut make);
    fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
    result
}

fn web() -> Result<()> {
    Server::nginx()?.ab(2000).map(|_| ())
}

fn processes() -> Result<()> {
    for _ in 0..150 {
        succeed(&mut Command::new("true"))?;
        let shell = |script| {
            let mut command = Command::new("sh");
            let command = command.args(["-c", script]).stdin(Stdio::null());
            command.status().context("a shell")
        };
        let failed = shell("exit 7")?;
        ensure!(failed.code() == Some(7), "exit 7: {failed}");
        let killed = shell("kill -TERM $$")?;
        ensure!(killed.signal() == Some(15), "kill: {killed}");
        // Runs a child without exec, and a second exec in the same process.
        let again = shell("(exit 0); exec true")?;
        ensure!(again.success(), "exec: {again}");
    }
    Ok(())
}

/// Makes connections over IPv6, refused connections, and one connection without any reply.
fn connections() -> Result<()> {
    for _ in 0..20 {
        let listener = TcpListener::bind("[::1]:0").context("listening")?;
        let address = listener.local_addr().context("the address")?;
        let client = TcpStream::connect(address).context("connecting")?;
        listener.accept().context("accepting")?;
        drop((client, listener));
        let refused = TcpStream::connect(address).is_err();
        let own = address_of(std::process::id());
        ensure!(
            refused && TcpStream::connect((own, 1)).is_err(),
            "nobody refused"
        );
    }
    let silent: SocketAddr = SILENT.parse().context("an address")?;
    ensure!(
        TcpStream::connect_timeout(&silent, GIVE_UP).is_err(),
        "somebody answered"
    );
    Ok(())
}

/// Returns the kernel's TCP counters of this network namespace.
fn tcp_counters() -> Result<BTreeMap<String, u64>> {
    const PATH: &str = "/proc/self/net/snmp";
    let text = fs::read_to_string(PATH).context(PATH)?;
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let (names, values) = (lines.next().context(PATH)?, lines.next().context(PATH)?);
    let both = names.split(' ').zip(values.split(' '));
    // One counter may be negative, but it is not compared.
    let number = |(name, value): (&str, &str)| Some((name.to_owned(), value.parse().ok()?));
    Ok(both.filter_map(number).collect())
}
