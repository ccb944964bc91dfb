//! The parts of an event's line for people. The terminal code selects widths and colours.

use std::net::SocketAddr;

use noctule_model::{
    CloseReason, ConnectError, DnsQuery, Event, EventProcess, ExitStatus, FileChange, FilePath,
    Level, Origin, Owner, Parent, Socket, TcpChange, UdpFlow, What,
};
use noctule_schema::names;
use noctule_text::{bytes, clock_ms, duration, escape, escape_bytes};

/// Maximum length of the arguments in a line, in characters. The JSON contains the arguments in
/// full.
const ARGUMENTS: usize = 160;

/// The parts of a line. Text from untrusted sources is already escaped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventLine {
    /// Local time of day, in milliseconds.
    pub time: String,
    /// Kind of event, as `--kind` accepts it; empty for a gap.
    pub kind: &'static str,
    /// Command name and pid; empty if the process is not known.
    pub who: String,
    /// Container, unit or cgroup; empty if the owner is not known.
    pub place: String,
    /// The description of the event.
    pub what: String,
    /// How prominently the line should be shown.
    pub tone: Tone,
}

/// How prominently an event should be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// An ordinary event.
    Plain,
    /// A process or socket that existed before recording started, or that a reconciliation found
    /// later.
    Quiet,
    /// A success.
    Good,
    /// A failure that may be harmless.
    Notice,
    /// A failure.
    Bad,
}

impl Tone {
    /// Returns the name of the tone in the API.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Quiet => "quiet",
            Self::Good => "good",
            Self::Notice => "notice",
            Self::Bad => "bad",
        }
    }
}

/// Returns the parts of an event's line. `utc_offset` is local time minus UTC at the time of the
/// event, in seconds.
pub fn event_line(event: &Event, utc_offset: i32) -> EventLine {
    let (kind, mut what, tone) = words(&event.what);
    let origin = origin(event.origin);
    if let Some(origin) = origin {
        what.push_str(&format!(" ({origin})"));
    }
    let process = event.process.as_ref();
    EventLine {
        time: clock_ms(event.time_unix_ns, utc_offset),
        kind,
        who: process.map(process_label).unwrap_or_default(),
        place: process.map(place).unwrap_or_default(),
        what,
        tone: origin.map_or(tone, |_| Tone::Quiet),
    }
}

fn process_label(process: &EventProcess) -> String {
    let comm = escape(&process.comm.text());
    format!("{comm}[{}]", process.id.pid)
}

fn place(process: &EventProcess) -> String {
    match &process.owner {
        Some(owner) => escape(&owner.name(Level::Container)),
        None if process.cgroup.0 == 0 => String::new(),
        None => Owner::unknown(process.cgroup).name(Level::Container),
    }
}

fn words(what: &What) -> (&'static str, String, Tone) {
    match what {
        What::ProcessStart {
            parent_pid,
            parent: known,
        } => {
            let parent = known
                .as_ref()
                .map_or_else(|| parent_pid.to_string(), parent);
            ("process", format!("start, parent {parent}"), Tone::Plain)
        }
        What::ProcessExec {
            path,
            args,
            args_truncated,
            ..
        } => {
            let args = arguments(path, args, *args_truncated);
            let what = format!("exec {}{args}", file(path));
            ("process", what, Tone::Plain)
        }
        What::ProcessExecFailed { path, errno, .. } => {
            let what = format!("exec {}: {}", file(path), names::error(*errno));
            ("process", what, Tone::Notice)
        }
        What::ProcessExit {
            status,
            oom_killed,
            core_dumped,
            duration_ns,
            cpu_ns,
            rss_peak_bytes,
            ..
        } => {
            let (how, tone) = ended(*status, *oom_killed);
            let mut what = how;
            if *core_dumped {
                what.push_str(", core dumped");
            }
            what.push_str(&used(*duration_ns, *cpu_ns, *rss_peak_bytes));
            ("process", what, tone)
        }
        What::ProcessSignal {
            signal,
            code,
            sender,
        } => {
            // A code above 0 means that the kernel sent the signal. Before Linux 5.11 the kernel
            // does not report which process sent it.
            let nobody = if *code > 0 { "the kernel" } else { "a process" };
            let sender = (sender.as_ref()).map_or_else(|| nobody.to_owned(), parent);
            let what = format!("{} from {sender}", names::signal(*signal));
            ("signal", what, Tone::Notice)
        }
        What::OomKill {
            rss_bytes,
            limit_bytes,
        } => ("oom", oom(*rss_bytes, *limit_bytes), Tone::Bad),
        What::Tcp { change, socket } => {
            let (what, tone) = tcp(*change, socket);
            ("tcp", what, tone)
        }
        What::FileOpen { path, flags, error } => {
            let flags = names::open_flags(*flags).join("|");
            of_file(format!("open {} ({flags})", file(path)), *error)
        }
        What::FileChange {
            path,
            change,
            error,
        } => of_file(changed(path, change), *error),
        What::DnsQuery(query) => {
            let (what, tone) = dns(query);
            ("dns", what, tone)
        }
        What::UdpFlow(flow) => ("udp", flow_of(flow), Tone::Plain),
        What::Gap {
            lost,
            since_unix_ns,
        } => ("", gap(lost, *since_unix_ns), Tone::Bad),
    }
}

/// Returns the parts of a line about a file operation, with the error if it failed.
fn of_file(what: String, error: Option<i32>) -> (&'static str, String, Tone) {
    match error {
        None => ("file", what, Tone::Plain),
        Some(errno) => {
            let what = format!("{what}: {}", names::error(errno));
            ("file", what, Tone::Notice)
        }
    }
}

/// Returns the resources that a process used in its lifetime.
fn used(duration_ns: Option<u64>, cpu_ns: Option<u64>, rss_bytes: Option<u64>) -> String {
    let mut used = String::new();
    if let Some(ns) = duration_ns {
        used.push_str(&format!(" after {}", duration(ns)));
    }
    if let Some(cpu) = cpu_ns {
        used.push_str(&format!(", {} CPU", duration(cpu)));
    }
    if let Some(rss) = rss_bytes {
        used.push_str(&format!(", {}", bytes(rss)));
    }
    used
}

fn oom(rss_bytes: Option<u64>, limit_bytes: Option<u64>) -> String {
    let mut what = "OOM killed".to_owned();
    if let Some(rss) = rss_bytes {
        what.push_str(&format!(": {} resident", bytes(rss)));
    }
    if let Some(limit) = limit_bytes {
        what.push_str(&format!(", limit {}", bytes(limit)));
    }
    what
}

/// Returns the name and pid of a parent or sender.
fn parent(parent: &Parent) -> String {
    format!("{}[{}]", escape(&parent.comm.text()), parent.id.pid)
}

/// Returns the path as text. If the kernel truncated a long path, its beginning is missing.
fn file(path: &FilePath) -> String {
    let cut = if path.truncated { "…" } else { "" };
    let marks = match (path.deleted, path.unreachable) {
        (false, false) => "",
        (true, false) => " (deleted)",
        (false, true) => " (unreachable)",
        (true, true) => " (deleted, unreachable)",
    };
    format!("{cut}{}{marks}", escape_bytes(&path.bytes))
}

fn changed(path: &FilePath, change: &FileChange) -> String {
    let path = file(path);
    match change {
        FileChange::Delete { directory: false } => format!("delete {path}"),
        FileChange::Delete { directory: true } => format!("delete directory {path}"),
        FileChange::Rename {
            to,
            exchanged: false,
        } => format!("rename {path} to {}", file(to)),
        FileChange::Rename {
            to,
            exchanged: true,
        } => format!("exchange {path} with {}", file(to)),
        FileChange::HardLink { to } => format!("link {} to {path}", file(to)),
        FileChange::SymbolicLink { target } => {
            format!("symbolic link {path} to {}", file(target))
        }
        FileChange::Chmod { mode } => format!("chmod {path} to {}", names::octal(*mode)),
    }
}

/// Returns the arguments, each after a space. `argv[0]` is shown only if it differs from the last
/// component of the path, because it determines the behaviour of programs such as busybox.
fn arguments(path: &FilePath, args: &[Vec<u8>], truncated: bool) -> String {
    let base = |path: &[u8]| path.rsplit(|byte| *byte == b'/').next().map(<[u8]>::to_vec);
    let called = args.first().and_then(|arg| base(arg));
    let called = called.filter(|name| Some(name) != base(&path.bytes).as_ref());
    let called = called.map(|name| format!("(as {})", quoted(&escape_bytes(&name))));
    let others = args.iter().skip(1).map(|arg| quoted(&escape_bytes(arg)));

    let mut out = String::new();
    let mut cut = truncated;
    for word in called.into_iter().chain(others) {
        let room = ARGUMENTS.saturating_sub(out.chars().count());
        if room == 0 {
            cut = true;
            break;
        }
        out.push(' ');
        match word.char_indices().nth(room) {
            None => out.push_str(&word),
            Some((at, _)) => {
                out.push_str(&word[..at]);
                cut = true;
                break;
            }
        }
    }
    if cut {
        out.push_str(" …");
    }
    out
}

/// Quotes the argument if it would otherwise look like several arguments or none.
fn quoted(word: &str) -> String {
    if word.is_empty() || word.contains([' ', '\'', '"']) {
        format!("'{}'", word.replace('\'', r"'\''"))
    } else {
        word.to_owned()
    }
}

fn ended(status: Option<ExitStatus>, oom_killed: bool) -> (String, Tone) {
    match status {
        _ if oom_killed => ("killed by SIGKILL (OOM)".into(), Tone::Bad),
        Some(ExitStatus::Code(0)) => ("exit 0".into(), Tone::Plain),
        Some(ExitStatus::Code(code)) => (format!("exit {code}"), Tone::Notice),
        Some(ExitStatus::Signal(signal)) => {
            (format!("killed by {}", names::signal(signal)), Tone::Bad)
        }
        None => ("ended".into(), Tone::Plain),
    }
}

fn tcp(change: TcpChange, socket: &Socket) -> (String, Tone) {
    let own = socket.local.map_or_else(|| "?".into(), end);
    let out = ends(socket, "->");
    match change {
        TcpChange::Listen => (format!("listens on {own}"), Tone::Plain),
        TcpChange::ListenClose => (format!("no longer listens on {own}"), Tone::Plain),
        TcpChange::Connect { duration_ns } => {
            let took = duration_ns.map(|ns| format!(" in {}", duration(ns)));
            let took = took.unwrap_or_default();
            (format!("{out} connected{took}"), Tone::Good)
        }
        TcpChange::ConnectFailed {
            reason,
            errno,
            duration_ns,
        } => {
            let why = failure(reason);
            let error = match errno {
                0 => String::new(),
                errno => format!(" ({})", names::error(errno)),
            };
            let took = duration_ns.map(|ns| format!(" after {}", duration(ns)));
            let took = took.unwrap_or_default();
            (format!("{out} {why}{error}{took}"), Tone::Bad)
        }
        TcpChange::Accept => (format!("{} accepted", ends(socket, "<-")), Tone::Good),
        TcpChange::Retransmit { segments, failed } => {
            let many = if segments == 1 { "" } else { "s" };
            let here = match failed {
                0 => String::new(),
                failed => format!(", {failed} dropped by this host"),
            };
            let what = format!("{out} {segments} segment{many} retransmitted{here}");
            (what, Tone::Notice)
        }
        TcpChange::Close {
            bytes_sent,
            bytes_received,
            duration_ns,
            reason,
            closed_here,
            retransmits,
            rtt_us,
        } => {
            let mut what = format!("{out} closed{}", close_description(reason, closed_here));
            if let Some(ns) = duration_ns {
                what.push_str(&format!(" after {}", duration(ns)));
            }
            for (count, word) in [(bytes_sent, "sent"), (bytes_received, "received")] {
                if let Some(count) = count {
                    what.push_str(&format!(", {} {word}", bytes(count)));
                }
            }
            if let Some(count) = retransmits {
                let many = if count == 1 { "" } else { "s" };
                what.push_str(&format!(", {count} retransmit{many}"));
            }
            if let Some(us) = rtt_us {
                what.push_str(&format!(", rtt {}", duration(u64::from(us) * 1000)));
            }
            (what, Tone::Plain)
        }
    }
}

fn dns(query: &DnsQuery) -> (String, Tone) {
    let question = &query.question;
    let kind = match question.truncated {
        true => "?".into(),
        false => names::dns_type(question.kind),
    };
    let cut = if question.truncated { "…" } else { "" };
    let server = query.socket.peer.map_or_else(|| "?".into(), end);
    let asked = format!("{kind} {}{cut}", escape_bytes(&question.name));
    let attempts = match query.attempts {
        1 => String::new(),
        count => format!(", {count} attempts"),
    };
    match query.answer {
        None if query.unread => (
            format!("{asked}: the answer from {server} could not be read{attempts}"),
            Tone::Plain,
        ),
        None => (
            format!("{asked}: no answer from {server}{attempts}"),
            Tone::Bad,
        ),
        Some(answer) => {
            let code = names::dns_code(answer.code);
            let many = if answer.records == 1 { "" } else { "s" };
            let what = format!(
                "{asked}: {code}, {} record{many} from {server} after {}{attempts}",
                answer.records,
                duration(answer.duration_ns)
            );
            let tone = if answer.code == 0 {
                Tone::Plain
            } else {
                Tone::Notice
            };
            (what, tone)
        }
    }
}

fn flow_of(flow: &UdpFlow) -> String {
    let part = |count: u64, size: u64, word: &str| {
        let many = if count == 1 { "" } else { "s" };
        format!(", {} in {count} packet{many} {word}", bytes(size))
    };
    let how = if flow.closed { "closed" } else { "idle" };
    format!(
        "{} {how} after {}{}{}",
        ends(&flow.socket, "<->"),
        duration(flow.duration_ns),
        part(flow.packets_sent, flow.bytes_sent, "sent"),
        part(flow.packets_received, flow.bytes_received, "received")
    )
}

/// Returns how a connection ended; empty if this side closed it normally.
fn close_description(reason: Option<CloseReason>, closed_here: Option<bool>) -> &'static str {
    match reason {
        Some(CloseReason::Fin) if closed_here == Some(false) => " by the peer",
        Some(CloseReason::Fin) | None => "",
        Some(CloseReason::Reset) => " by a reset from the peer",
        Some(CloseReason::Aborted) => " by a reset",
        Some(CloseReason::Timeout) => " by a timeout",
        Some(CloseReason::Keepalive) => " after unanswered keepalives",
        Some(CloseReason::Killed) => " from outside (as by ss -K)",
    }
}

fn failure(reason: ConnectError) -> &'static str {
    match reason {
        ConnectError::Refused => "refused",
        ConnectError::Timeout => "timed out",
        ConnectError::Abandoned => "abandoned",
        ConnectError::Unreachable => "unreachable",
        ConnectError::Other => "failed",
    }
}

/// Returns both ends of a connection, with `?` for an unknown one.
fn ends(socket: &Socket, arrow: &str) -> String {
    let name = |address: Option<SocketAddr>| address.map_or_else(|| "?".into(), end);
    format!("{} {arrow} {}", name(socket.local), name(socket.peer))
}

/// Returns an address as text. An IPv4-mapped IPv6 address is shown as IPv4.
fn end(address: SocketAddr) -> String {
    SocketAddr::new(address.ip().to_canonical(), address.port()).to_string()
}

fn gap(lost: &[(&'static str, u64)], since_unix_ns: Option<u64>) -> String {
    if lost.is_empty() && since_unix_ns.is_some() {
        return "--- the agent was not running before this point ---".into();
    }
    let sum = lost
        .iter()
        .fold(0, |sum: u64, (_, n)| sum.saturating_add(*n));
    let parts: Vec<String> = lost.iter().map(|(name, n)| format!("{n} {name}")).collect();
    let many = if sum == 1 { "" } else { "s" };
    format!("--- {sum} event{many} lost: {} ---", parts.join(", "))
}

/// Returns the value of the origin in JSON. Events that were observed when they happened have no
/// such key.
pub(super) fn origin(origin: Origin) -> Option<&'static str> {
    match origin {
        Origin::Seen => None,
        Origin::Existing => Some("existing"),
        Origin::Reconciled => Some("reconciled"),
    }
}
