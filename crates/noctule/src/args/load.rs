//! The arguments of `noctule load`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args as ClapArgs;

use super::values::duration;

/// Load any BPF object, attach its programs, and show their output and maps
///
/// The object's section names determine what its programs are attached to, as in libbpf: kprobe/,
/// tp/, raw_tp/, tp_btf/, fentry/, uprobe/, usdt/, perf_event, socket, iter/, xdp, tc, cgroup and
/// others. Objects for libbpf versions before 1.0 (a section `maps`, `socket1`, `version`) work,
/// too. Output of the programs (bpf_trace_printk) is shown as it arrives; everything is detached at
/// the end.
///
/// If the verifier rejects a program, shows the reason, the source line and how to fix it.
///
/// Examples:
///   noctule load counts.bpf.o --for 10s --dump
///   noctule load probe.bpf.o --attach 'on_read=uprobe//bin/sh:main'
///   noctule load filter.bpf.o --interface lo --for 5s --dump --json
///   noctule load tasks.bpf.o --program dump_task
///   noctule load new.bpf.o --no-attach -v
///   noctule load --raw web.filter --interface eth0 --for 5s
///   noctule load --raw count.bpf.txt --type tracepoint/sched/sched_switch --license GPL --dump
#[derive(Debug, ClapArgs)]
#[command(verbatim_doc_comment)]
pub(crate) struct LoadArgs {
    /// The object, as written by clang -target bpf -c; with --raw, a file of instructions
    #[arg(value_name = "FILE")]
    pub(crate) object: PathBuf,
    /// The file contains plain instructions (docs/load.md): classic ones as printed by `tcpdump
    /// -ddd` and bpf_asm, extended ones as text or binary
    #[arg(long)]
    pub(crate) raw: bool,
    /// Program type of the instructions, as a section name [default for classic ones: socket]
    #[arg(long = "type", value_name = "SECTION", requires = "raw")]
    pub(crate) kind: Option<String>,
    /// Licence of the instructions; some kernel functions are for GPL programs only
    #[arg(long, value_name = "LICENCE", requires = "raw", default_value = "")]
    pub(crate) license: String,
    /// Kernel version declared by the instructions; checked before Linux 5.0 [default: the running
    /// kernel]
    #[arg(long, value_name = "VERSION", requires = "raw")]
    pub(crate) kernel_version: Option<String>,
    /// Only this program of the object; can be given several times
    #[arg(long, value_name = "NAME")]
    pub(crate) program: Vec<String>,
    /// Attach a program as if it were in this section, such as count=tracepoint/sched/sched_switch
    #[arg(long, value_name = "PROGRAM=SECTION")]
    pub(crate) attach: Vec<String>,
    /// Network interface for sockets, XDP and traffic control; sockets also accept `any`
    #[arg(long, value_name = "NAME")]
    pub(crate) interface: Option<String>,
    /// Folder of the cgroup (version 2) for cgroup programs
    #[arg(long, value_name = "PATH")]
    pub(crate) cgroup: Option<PathBuf>,
    /// File of the network namespace for programs attached to one
    #[arg(long, value_name = "FILE")]
    pub(crate) netns: Option<PathBuf>,
    /// Only this process, for uprobes, USDT probes and samples
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Option<u32>,
    /// Samples per second and CPU, for perf_event programs
    #[arg(long, value_name = "HERTZ", default_value_t = 99, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub(crate) frequency: u64,
    /// Only load and verify the programs
    #[arg(long)]
    pub(crate) no_attach: bool,
    /// Show the maps at the end, with names from the object's BTF
    #[arg(long)]
    pub(crate) dump: bool,
    /// Show the verifier's whole log if it rejects a program
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// End after this time [default: when interrupted]
    #[arg(long = "for", value_name = "DURATION", value_parser = duration)]
    pub(crate) duration: Option<Duration>,
    /// One JSON object per line for each item shown (docs/json.md)
    #[arg(long)]
    pub(crate) json: bool,
    /// Write the output to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}
