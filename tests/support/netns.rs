//! Network namespaces of tests, and links between them.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// A namespace, removed with its contents when dropped.
pub(crate) struct Namespace {
    name: String,
}

impl Namespace {
    /// Creates a namespace in which `lo` is up.
    pub(crate) fn new(name: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let this = Self {
            name: format!("noctule-{}-{number}-{name}", std::process::id()),
        };
        ip(&["netns", "add", &this.name]);
        this.ip(&["link", "set", "lo", "up"]);
        this
    }

    /// Returns the path of the namespace's file.
    pub(crate) fn path(&self) -> String {
        format!("/run/netns/{}", self.name)
    }

    /// Returns a command that runs in the namespace.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, program]);
        command
    }

    /// Runs a function in the namespace, on a separate thread. Commands that the function starts
    /// also run in the namespace.
    pub(crate) fn run<T: Send>(&self, what: impl FnOnce() -> T + Send) -> T {
        use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
        use std::os::fd::AsFd as _;

        std::thread::scope(|scope| {
            let inside = scope.spawn(|| {
                let file = std::fs::File::open(self.path()).expect("ip made it");
                let kind = Some(LinkNameSpaceType::Network);
                move_into_link_name_space(file.as_fd(), kind).expect("root");
                what()
            });
            inside.join().expect("what ran in the namespace")
        })
    }

    /// Returns the JSON output of `ip` in the namespace.
    pub(crate) fn ip_json(&self, args: &[&str]) -> serde_json::Value {
        let mut command = Command::new("ip");
        command.args(["-n", self.name.as_str(), "-json"]).args(args);
        let output = command.output().expect("iproute2 is installed");
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    /// Runs `ip` in the namespace.
    pub(crate) fn ip(&self, args: &[&str]) {
        ip(&[&["-n", self.name.as_str()], args].concat());
    }

    /// Sets a parameter of the namespace below /proc/sys/net.
    pub(crate) fn set(&self, parameter: &str, value: &str) {
        let script = format!("echo {value} > /proc/sys/net/{parameter}");
        let status = self.command("sh").args(["-c", &script]).status();
        assert!(status.expect("a shell").success(), "{script}");
    }

    /// Returns the number of segments that were retransmitted in the namespace.
    pub(crate) fn retransmits(&self) -> u64 {
        self.tcp("RetransSegs")
    }

    /// Returns a TCP counter of the namespace, by its name in /proc/net/snmp.
    pub(crate) fn tcp(&self, wanted: &str) -> u64 {
        self.counter("snmp", "Tcp: ", wanted)
    }

    /// Like [`Self::tcp`], for counters in /proc/net/netstat.
    pub(crate) fn netstat(&self, wanted: &str) -> u64 {
        self.counter("netstat", "TcpExt: ", wanted)
    }

    fn counter(&self, file: &str, kind: &str, wanted: &str) -> u64 {
        let output = self
            .command("cat")
            .arg(format!("/proc/net/{file}"))
            .output();
        let text = String::from_utf8(output.expect("cat").stdout).expect("text");
        let mut lines = text.lines().filter_map(|line| line.strip_prefix(kind));
        let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
        let mut both = names.split(' ').zip(values.split(' '));
        let found = both.find(|(name, _)| *name == wanted);
        let found = found.unwrap_or_else(|| panic!("no {wanted}"));
        found.1.parse().expect("a number")
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip")
            .args(["netns", "del", &self.name])
            .status();
    }
}

fn ip(args: &[&str]) {
    let output = Command::new("ip").args(args).output();
    let output = output.expect("iproute2 is installed");
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {args:?}: {words}");
}

/// Two namespaces with a link between them.
pub(crate) struct Link {
    /// The namespace with the address [`Link::NEAR`].
    pub(crate) near: Namespace,
    /// The namespace with the address [`Link::FAR`].
    pub(crate) far: Namespace,
}

impl Link {
    pub(crate) const NEAR: &str = "10.77.0.1";
    pub(crate) const FAR: &str = "10.77.0.2";
    /// An address behind [`Link::FAR`]. A packet to this address is answered with an ICMP message
    /// that the address is unreachable.
    pub(crate) const UNREACHABLE: &str = "10.88.0.1";
    /// An address on the link from which no reply ever comes.
    pub(crate) const SILENT: &str = "10.77.0.9";

    pub(crate) fn new() -> Self {
        let (near, far) = (Namespace::new("near"), Namespace::new("far"));
        near.ip(&[
            "link", "add", "link0", "type", "veth", "peer", "name", "link0", "netns", &far.name,
        ]);
        for (namespace, address) in [(&near, Self::NEAR), (&far, Self::FAR)] {
            namespace.ip(&["address", "add", &format!("{address}/24"), "dev", "link0"]);
            namespace.ip(&["link", "set", "link0", "up"]);
        }
        near.ip(&["route", "add", "10.88.0.0/24", "via", Self::FAR]);
        far.set("ipv4/ip_forward", "1");
        far.ip(&["route", "add", "unreachable", "10.88.0.0/24"]);
        let this = Self { near, far };
        this.drop_packets_to(Self::SILENT);
        this
    }

    /// Drops everything that the near side sends to this address.
    pub(crate) fn drop_packets_to(&self, address: &str) {
        self.neighbour(address, "02:00:00:00:00:99");
    }

    /// Drops this percentage of the near side's packets at random. Not every kernel has netem.
    pub(crate) fn lose_percent(&self, percent: u32) {
        let loss = format!("{percent}%");
        let words = ["qdisc", "replace", "dev", "link0", "root", "netem", "loss"];
        let mut command = self.near.command("tc");
        let output = command.args(words).arg(loss).output().expect("ip and tc");
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words}");
    }

    /// Adds a short queue and a slow link to the near side. The queue drops packets if it is full.
    pub(crate) fn narrow(&self) {
        let words = "qdisc replace dev link0 root tbf rate 20mbit burst 3000 limit 6000";
        let mut command = self.near.command("tc");
        let output = command.args(words.split(' ')).output().expect("ip and tc");
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words}");
    }

    /// Delivers packets to the far side again.
    pub(crate) fn restore(&self) {
        self.near
            .ip(&["neighbour", "del", Self::FAR, "dev", "link0"]);
    }

    fn neighbour(&self, address: &str, hardware: &str) {
        self.near.ip(&[
            "neighbour",
            "replace",
            address,
            "lladdr",
            hardware,
            "dev",
            "link0",
            "nud",
            "permanent",
        ]);
    }
}
