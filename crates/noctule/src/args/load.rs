//! The arguments of `noctule load`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args as ClapArgs;

use super::values::duration;

/// Load a BPF object that is not ours, attach its programs, and show what they leave
///
/// The object's sections say what its programs are attached to, as libbpf reads them: kprobe/,
/// tp/, raw_tp/, tp_btf/, fentry/, uprobe/, usdt/, perf_event, socket, iter/, xdp, tc, cgroup and
/// others. Objects of before libbpf 1.0 (a section `maps`, `socket1`, `version`) are loaded too.
/// What the programs print (bpf_trace_printk) is shown as it comes; everything is detached at the
/// end.
///
/// Where the verifier refuses a program, the reason, the line of source and what to do are shown.
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
    /// The object, as clang -target bpf -c writes it; with --raw the instructions
    #[arg(value_name = "FILE")]
    pub(crate) object: PathBuf,
    /// The file holds plain instructions (docs/load.md): classic ones as `tcpdump -ddd` and bpf_asm
    /// print them, extended ones as text or bytes
    #[arg(long)]
    pub(crate) raw: bool,
    /// Kind of the instructions, as a section of an object says it [default of classic ones: socket]
    #[arg(long = "type", value_name = "SECTION", requires = "raw")]
    pub(crate) kind: Option<String>,
    /// Licence of the instructions; some functions of the kernel are for GPL programs only
    #[arg(long, value_name = "LICENCE", requires = "raw", default_value = "")]
    pub(crate) license: String,
    /// Kernel that the instructions say they are for; compared before Linux 5.0 [default: this one]
    #[arg(long, value_name = "VERSION", requires = "raw")]
    pub(crate) kernel_version: Option<String>,
    /// Only this program of the object; can be given several times
    #[arg(long, value_name = "NAME")]
    pub(crate) program: Vec<String>,
    /// Attach a program as if its section was this one, such as count=tracepoint/sched/sched_switch
    #[arg(long, value_name = "PROGRAM=SECTION")]
    pub(crate) attach: Vec<String>,
    /// Network interface of sockets, XDP and traffic control; for sockets also `any`
    #[arg(long, value_name = "NAME")]
    pub(crate) interface: Option<String>,
    /// Cgroup of version 2 for programs of cgroups: its folder
    #[arg(long, value_name = "PATH")]
    pub(crate) cgroup: Option<PathBuf>,
    /// Network namespace for programs of namespaces: its file
    #[arg(long, value_name = "FILE")]
    pub(crate) netns: Option<PathBuf>,
    /// Only this process, for uprobes, USDT probes and samples
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Option<u32>,
    /// Samples per second and CPU, for programs of perf events
    #[arg(long, value_name = "HERTZ", default_value_t = 99, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub(crate) frequency: u64,
    /// Only load and verify
    #[arg(long)]
    pub(crate) no_attach: bool,
    /// Show the maps at the end, with the names that the object's BTF has
    #[arg(long)]
    pub(crate) dump: bool,
    /// Show the verifier's whole log when it refuses a program
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// End by itself after this time [default: when it is interrupted]
    #[arg(long = "for", value_name = "DURATION", value_parser = duration)]
    pub(crate) duration: Option<Duration>,
    /// One JSON object for each thing that is shown, one on a line (docs/json.md)
    #[arg(long)]
    pub(crate) json: bool,
    /// Write the answer to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}
