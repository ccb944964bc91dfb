//! The target of a program, from its ELF section: the conventions of libbpf, and of the kernel's
//! samples of 2015.

use std::fmt;
use std::path::{Path, PathBuf};

/// The target that a program is attached to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A tracepoint, through a perf event.
    Tracepoint {
        /// The tracepoint's directory in tracefs.
        system: String,
        event: String,
    },
    /// The name of a raw tracepoint.
    RawTracepoint(String),
    /// A kernel function or LSM hook in BTF. libbpf resolves it at load.
    Btf {
        /// The kind of section, such as `fentry`.
        kind: String,
        name: String,
    },
    /// A function of the kernel.
    Kprobe {
        /// The symbol of the function.
        function: String,
        /// Offset from the symbol, in bytes.
        offset: u64,
        /// Whether the probe is at the return.
        at_return: bool,
    },
    /// Several kernel functions, which libbpf finds by a pattern.
    KprobeMulti,
    /// A system call.
    Ksyscall {
        /// The name without `sys_`.
        call: String,
        /// Whether the probe is at the return.
        at_return: bool,
    },
    /// A function of a program or library.
    Uprobe {
        /// The file. For a plain name, libbpf searches the directories of the dynamic linker.
        file: PathBuf,
        /// The symbol. If it is empty, `offset` is relative to the start of the file.
        function: String,
        /// Offset from the symbol or from the start of the file, in bytes.
        offset: u64,
        /// Whether the probe is at the return.
        at_return: bool,
        /// File offsets of the code, which must be looked up for a named function.
        code: Vec<u64>,
    },
    /// Several functions of a file, which libbpf finds by a pattern.
    UprobeMulti,
    /// A statically defined probe of a program or library.
    Usdt {
        file: PathBuf,
        provider: String,
        name: String,
    },
    /// Samples of the running code, taken on each CPU.
    PerfEvent,
    /// Packets of an interface, received by a raw socket.
    Socket,
    /// Packets of an interface, before the network stack.
    Xdp,
    /// Packets of an interface, in traffic control.
    Tc {
        /// Whether the program sees outgoing packets; otherwise it sees incoming packets.
        egress: bool,
    },
    /// The tasks of a cgroup v2.
    Cgroup,
    /// A network namespace.
    Netns,
    /// An iterator, whose output is read.
    Iterator,
    /// The program is attached or run in another way, which the text describes.
    Elsewhere(&'static str),
}

/// Why a section has no target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoTarget {
    /// The section name is not a libbpf convention.
    Unknown,
    /// The section name does not contain a target. The text shows the complete form.
    Incomplete(&'static str),
}

/// Command-line options that select targets.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// The name of a network interface.
    pub interface: Option<String>,
    pub cgroup: Option<PathBuf>,
    /// The path of a network namespace.
    pub netns: Option<PathBuf>,
    /// Only this process, for targets at which the kernel can filter: uprobes and samples.
    pub pid: Option<u32>,
    /// Samples per second on each CPU.
    pub frequency: u64,
}

/// Section prefixes, for suggestions.
pub const SECTIONS: &[&str] = &[
    "action",
    "cgroup",
    "cgroup_skb",
    "classifier",
    "fentry",
    "fexit",
    "flow_dissector",
    "fmod_ret",
    "freplace",
    "iter",
    "kprobe",
    "kprobe.multi",
    "kretprobe",
    "kretprobe.multi",
    "kretsyscall",
    "ksyscall",
    "lsm",
    "netfilter",
    "perf_event",
    "raw_tp",
    "raw_tracepoint",
    "sk_lookup",
    "sk_msg",
    "sk_reuseport",
    "sk_skb",
    "socket",
    "sockops",
    "struct_ops",
    "syscall",
    "tc",
    "tcx",
    "tp",
    "tp_btf",
    "tracepoint",
    "uprobe",
    "uprobe.multi",
    "uretprobe",
    "uretprobe.multi",
    "usdt",
    "xdp",
];

const TRACEPOINT: &str = "tracepoint/SYSTEM/EVENT";
const RAW: &str = "raw_tp/EVENT";
const KPROBE: &str = "kprobe/FUNCTION[+OFFSET]";
const KRETPROBE: &str = "kretprobe/FUNCTION";
const UPROBE: &str = "uprobe/FILE:FUNCTION[+OFFSET]";
const URETPROBE: &str = "uretprobe/FILE:FUNCTION";
const USDT: &str = "usdt/FILE:PROVIDER:NAME";
const KSYSCALL: &str = "ksyscall/CALL";

impl Target {
    /// Parses the target from a section name.
    ///
    /// # Errors
    ///
    /// Fails if the name contains no target.
    pub fn of_section(section: &str) -> Result<Self, NoTarget> {
        let section = section.strip_prefix('?').unwrap_or(section);
        let (prefix, rest) = section.split_once('/').unwrap_or((section, ""));
        let kind = prefix.strip_suffix(".s").unwrap_or(prefix);
        match kind {
            "tracepoint" | "tp" => tracepoint(rest),
            "raw_tracepoint" | "raw_tp" | "raw_tracepoint.w" | "raw_tp.w" => {
                named(rest, RAW).map(Self::RawTracepoint)
            }
            "tp_btf" | "fentry" | "fexit" | "fmod_ret" | "fsession" | "lsm" => Ok(Self::Btf {
                kind: kind.to_owned(),
                name: named(rest, "tp_btf/EVENT, fentry/FUNCTION or lsm/HOOK")?,
            }),
            "kprobe" => kprobe(rest, false),
            "kretprobe" => kprobe(rest, true),
            "ksyscall" | "kretsyscall" => Ok(Self::Ksyscall {
                call: named(rest, KSYSCALL)?,
                at_return: kind == "kretsyscall",
            }),
            "kprobe.multi" | "kretprobe.multi" | "kprobe.session" => {
                named(rest, "kprobe.multi/PATTERN").map(|_| Self::KprobeMulti)
            }
            "uprobe" => uprobe(rest, false),
            "uretprobe" => uprobe(rest, true),
            "uprobe.multi" | "uretprobe.multi" | "uprobe.session" => {
                named(rest, "uprobe.multi/FILE:PATTERN").map(|_| Self::UprobeMulti)
            }
            "usdt" => usdt(rest),
            "iter" => named(rest, "iter/WHAT").map(|_| Self::Iterator),
            _ => plain(section, kind, rest),
        }
    }

    /// Returns whether the target needs kprobes.
    pub(super) fn is_kprobe(&self) -> bool {
        matches!(
            self,
            Self::Kprobe { .. } | Self::KprobeMulti | Self::Ksyscall { .. }
        )
    }

    /// If a required option is missing, returns the message about it.
    pub fn needs(&self, places: &Places) -> Option<&'static str> {
        let (there, option) = match self {
            Self::Socket | Self::Xdp | Self::Tc { .. } => (
                places.interface.is_some(),
                "needs a network interface: --interface NAME",
            ),
            Self::Cgroup => (
                places.cgroup.is_some(),
                "needs a cgroup v2 directory: --cgroup PATH",
            ),
            Self::Netns => (
                places.netns.is_some(),
                "needs a network namespace: --netns FILE, such as /proc/self/ns/net",
            ),
            Self::Elsewhere(why) => (false, *why),
            _ => return None,
        };
        (!there).then_some(option)
    }
}

/// Returns the target of a section whose name is only a prefix, such as `xdp`.
fn plain(section: &str, kind: &str, rest: &str) -> Result<Target, NoTarget> {
    Ok(match kind {
        "perf_event" => Target::PerfEvent,
        "socket" => Target::Socket,
        "xdp" | "xdp.frags" if rest == "devmap" || rest == "cpumap" => Target::Elsewhere(
            "runs for the entries of a devmap or cpumap and is not attached on \
            its own",
        ),
        "xdp" | "xdp.frags" => Target::Xdp,
        "tc" | "tcx" | "classifier" => Target::Tc {
            egress: rest == "egress",
        },
        "cgroup_skb" | "cgroup" | "sockops" => Target::Cgroup,
        "sk_lookup" | "flow_dissector" => Target::Netns,
        "action" => Target::Elsewhere(
            "is an action of a traffic-control filter: add it with tc actions \
            add bpf",
        ),
        "netkit" => Target::Elsewhere(
            "belongs to a netkit device: attach it with bpftool or the tool that \
            created the device",
        ),
        "freplace" => Target::Elsewhere("replaces a function of a program that is already loaded"),
        "sk_skb" | "sk_msg" => Target::Elsewhere(
            "is attached to a socket map, which only a process that owns the sockets can fill",
        ),
        "sk_reuseport" => Target::Elsewhere("is attached by the process that owns the sockets"),
        "lwt_in" | "lwt_out" | "lwt_xmit" | "lwt_seg6local" => {
            Target::Elsewhere("belongs to a route: add it with ip route add ... encap bpf")
        }
        "lirc_mode2" => Target::Elsewhere(
            "belongs to an infrared receiver: load it with \
            ir-keytable",
        ),
        "netfilter" => Target::Elsewhere("needs a netfilter hook, family and priority"),
        "struct_ops" => Target::Elsewhere("is a function of a table in .struct_ops.link"),
        "syscall" => Target::Elsewhere("is run with BPF_PROG_RUN and is not attached"),
        "lsm_cgroup" => Target::Cgroup,
        // The kernel's samples of 2015 number these sections, because a section may contain only
        // one program.
        _ if numbered(section, "socket") => Target::Socket,
        _ if numbered(section, "xdp") => Target::Xdp,
        _ if numbered(section, "sockops") => Target::Cgroup,
        _ => return Err(NoTarget::Unknown),
    })
}

/// Returns whether the section name is the word followed by a number.
fn numbered(section: &str, word: &str) -> bool {
    let rest = section.strip_prefix(word);
    rest.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
}

fn named(rest: &str, form: &'static str) -> Result<String, NoTarget> {
    if rest.is_empty() {
        return Err(NoTarget::Incomplete(form));
    }
    Ok(rest.to_owned())
}

fn tracepoint(rest: &str) -> Result<Target, NoTarget> {
    let (system, event) = rest
        .split_once('/')
        .filter(|(system, event)| is_name(system) && is_name(event))
        .ok_or(NoTarget::Incomplete(TRACEPOINT))?;
    Ok(Target::Tracepoint {
        system: system.to_owned(),
        event: event.to_owned(),
    })
}

/// Returns whether the text is a valid name of a tracefs directory.
fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    !name.is_empty() && !name.starts_with('.') && name.chars().all(fits)
}

fn kprobe(rest: &str, at_return: bool) -> Result<Target, NoTarget> {
    let form = if at_return { KRETPROBE } else { KPROBE };
    let (function, offset) = with_offset(rest).ok_or(NoTarget::Incomplete(form))?;
    if function.is_empty() || function.contains(char::is_whitespace) {
        return Err(NoTarget::Incomplete(form));
    }
    Ok(Target::Kprobe {
        function: function.to_owned(),
        offset,
        at_return,
    })
}

fn uprobe(rest: &str, at_return: bool) -> Result<Target, NoTarget> {
    let form = if at_return { URETPROBE } else { UPROBE };
    let missing = NoTarget::Incomplete(form);
    let (file, function) = rest.rsplit_once(':').ok_or_else(|| missing.clone())?;
    let (function, offset) = match number(function) {
        Some(offset) => ("", offset),
        None => with_offset(function).ok_or_else(|| missing.clone())?,
    };
    if file.is_empty() || (function.is_empty() && offset == 0) {
        return Err(missing);
    }
    Ok(Target::Uprobe {
        file: Path::new(file).to_owned(),
        function: function.to_owned(),
        offset,
        at_return,
        code: match function {
            "" => vec![offset],
            _ => Vec::new(),
        },
    })
}

fn usdt(rest: &str) -> Result<Target, NoTarget> {
    let mut parts = rest.rsplitn(3, ':');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(name), Some(provider), Some(file)) if ![name, provider, file].contains(&"") => {
            Ok(Target::Usdt {
                file: Path::new(file).to_owned(),
                provider: provider.to_owned(),
                name: name.to_owned(),
            })
        }
        _ => Err(NoTarget::Incomplete(USDT)),
    }
}

/// Splits a symbol and its offset.
fn with_offset(text: &str) -> Option<(&str, u64)> {
    match text.split_once('+') {
        None => Some((text, 0)),
        Some((function, offset)) => Some((function, number(offset)?)),
    }
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = |at_return: &bool| if *at_return { "return of " } else { "" };
        let plus = |offset: &u64| match offset {
            0 => String::new(),
            offset => format!("+{offset:#x}"),
        };
        match self {
            Self::Tracepoint { system, event } => write!(f, "tracepoint {system}:{event}"),
            Self::RawTracepoint(event) => write!(f, "raw tracepoint {event}"),
            Self::Btf { kind, name } => match kind.as_str() {
                "tp_btf" => write!(f, "tracepoint {name} (BTF)"),
                "fentry" => write!(f, "entry of kernel function {name}"),
                "fexit" => write!(f, "exit of kernel function {name}"),
                "lsm" => write!(f, "LSM hook {name}"),
                kind => write!(f, "{kind} of kernel function {name}"),
            },
            Self::Kprobe {
                function,
                offset,
                at_return,
            } => write!(
                f,
                "{}kernel function {function}{}",
                end(at_return),
                plus(offset)
            ),
            Self::KprobeMulti => f.write_str("the kernel functions named in its section"),
            Self::Ksyscall { call, at_return } => {
                write!(f, "{}system call {call}", end(at_return))
            }
            Self::Uprobe {
                file,
                function,
                offset,
                at_return,
                ..
            } => write!(
                f,
                "{}function {function}{} of {}",
                end(at_return),
                plus(offset),
                file.display()
            ),
            Self::UprobeMulti => f.write_str("the functions named in its section"),
            Self::Usdt {
                file,
                provider,
                name,
            } => write!(f, "USDT probe {provider}:{name} of {}", file.display()),
            Self::PerfEvent => f.write_str("samples of the CPU clock"),
            Self::Socket => f.write_str("a raw socket"),
            Self::Xdp => f.write_str("XDP"),
            Self::Tc { egress: false } => f.write_str("traffic control, ingress"),
            Self::Tc { egress: true } => f.write_str("traffic control, egress"),
            Self::Cgroup => f.write_str("a cgroup"),
            Self::Netns => f.write_str("a network namespace"),
            Self::Iterator => f.write_str("an iterator"),
            Self::Elsewhere(why) => f.write_str(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn section_names_give_targets() {
        let cases = [
            ("tp/sched/sched_switch", "tracepoint sched:sched_switch"),
            ("tracepoint/a/b", "tracepoint a:b"),
            ("raw_tp/sys_enter", "raw tracepoint sys_enter"),
            ("tp_btf/sched_switch", "tracepoint sched_switch (BTF)"),
            ("fentry.s/do_exit", "entry of kernel function do_exit"),
            ("kprobe/vfs_read+0x10", "kernel function vfs_read+0x10"),
            ("kretprobe/vfs_read", "return of kernel function vfs_read"),
            ("ksyscall/openat", "system call openat"),
            ("uprobe//bin/sh:main", "function main of /bin/sh"),
            (
                "uretprobe/libc.so.6:malloc",
                "return of function malloc of libc.so.6",
            ),
            ("uprobe//bin/sh:0x1234", "function +0x1234 of /bin/sh"),
            (
                "usdt//bin/x:provider:name",
                "USDT probe provider:name of /bin/x",
            ),
            ("perf_event", "samples of the CPU clock"),
            ("socket1", "a raw socket"),
            ("socket/http", "a raw socket"),
            ("xdp", "XDP"),
            ("tc/egress", "traffic control, egress"),
            ("classifier", "traffic control, ingress"),
            ("cgroup/connect4", "a cgroup"),
            ("?iter/task", "an iterator"),
        ];
        for (section, words) in cases {
            let target = Target::of_section(section);
            assert_eq!(
                target.map(|t| t.to_string()),
                Ok(words.to_owned()),
                "{section}"
            );
        }
    }

    #[test]
    fn incomplete_and_unknown_sections_are_reported_as_such() {
        let cases = [
            ("uprobe", NoTarget::Incomplete(UPROBE)),
            ("uprobe//bin/sh:", NoTarget::Incomplete(UPROBE)),
            ("usdt//bin/sh:name", NoTarget::Incomplete(USDT)),
            ("kprobe", NoTarget::Incomplete(KPROBE)),
            ("kprobe/f+x", NoTarget::Incomplete(KPROBE)),
            ("tracepoint/sched", NoTarget::Incomplete(TRACEPOINT)),
            ("tracepoint/../x", NoTarget::Incomplete(TRACEPOINT)),
            ("kporbe/vfs_read", NoTarget::Unknown),
            ("socket1x", NoTarget::Unknown),
            ("", NoTarget::Unknown),
        ];
        for (section, expected) in cases {
            assert_eq!(Target::of_section(section), Err(expected), "{section}");
        }
    }

    #[test]
    fn target_names_the_option_it_needs() {
        let xdp = Target::of_section("xdp").unwrap();
        let mut places = Places::default();
        assert!(
            xdp.needs(&places)
                .is_some_and(|w| w.contains("--interface"))
        );
        places.interface = Some("lo".to_owned());
        assert_eq!(xdp.needs(&places), None);
        let syscall = Target::of_section("syscall").unwrap();
        assert!(
            syscall
                .needs(&places)
                .is_some_and(|w| w.contains("BPF_PROG_RUN"))
        );
    }

    #[test]
    fn every_section_prefix_is_known() {
        for prefix in SECTIONS {
            assert_ne!(
                Target::of_section(prefix),
                Err(NoTarget::Unknown),
                "{prefix}"
            );
        }
    }
}
