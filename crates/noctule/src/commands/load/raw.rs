//! `noctule load --raw`: programs that come as plain instructions.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use noctule_kernel::{
    BareKind, BareMap, BareProgram, ClassicInsn, ForeignProgram, RawSocket, map_kind,
};
use noctule_text::escape;
use noctule_trace::raw::{self, Raw, RawProgram};

use super::loaded::Object;
use super::show::Show;
use super::wait;
use crate::args::LoadArgs;
use crate::exit::{self, Usage};
use crate::stop::Signals;

/// The program of a file.
pub(super) fn read(path: &Path, bytes: &[u8]) -> Result<Raw> {
    raw::read(bytes).map_err(|problem| {
        let lines = problem.to_string();
        let lines: Vec<_> = lines.lines().map(escape).collect();
        Usage(format!("{}: {}", path.display(), lines.join("\n"))).into()
    })
}

/// A program of extended BPF, as an object with one program.
pub(super) fn object(program: RawProgram, name: String, args: &LoadArgs) -> Result<Object> {
    let Some(section) = &args.kind else {
        bail!(Usage(
            "instructions do not say what kind of program they are: --type SECTION, such as socket or \
             tracepoint/sched/sched_switch"
                .into()
        ));
    };
    let kind = BareKind::of_section(section);
    if args.verbose {
        let names: Vec<_> = program.maps.iter().map(|map| map.name.clone()).collect();
        eprint_all(&raw::listing(&program.insns, &program.loads, &names));
    }
    let mut maps = Vec::new();
    for map in program.maps {
        let Some(kind) = map_kind(&map.kind) else {
            let words = format!("the map {}: there is no kind of map {}", map.name, map.kind);
            bail!(Usage(format!("{words}; bpftool names them, such as hash, array, percpu_hash")));
        };
        maps.push(BareMap {
            name: map.name,
            kind,
            key_size: map.key_size,
            value_size: map.value_size,
            entries: map.entries,
            flags: 0,
        });
    }
    let shown = ForeignProgram {
        name: name.clone(),
        section: section.clone(),
        typed: kind.is_some(),
        instructions: program.insns.len(),
    };
    let program = BareProgram {
        name,
        kind: kind.unwrap_or_default(),
        license: args.license.clone(),
        kernel_version: args.kernel_version.unwrap_or(0),
        insns: program.insns,
        loads: program.loads,
    };
    Ok(Object::Bare(maps, vec![(shown, program)]))
}

/// A classic filter: a raw socket of the interface is given what passes, and the packets are counted.
pub(super) fn classic(
    filter: &[ClassicInsn],
    name: &str,
    args: &LoadArgs,
    signals: &Signals,
    show: &mut Show<'_>,
) -> Result<u8> {
    if args.kind.as_deref().is_some_and(|kind| kind != "socket") {
        bail!(Usage("classic BPF filters the packets of sockets: --type socket, or none".into()));
    }
    if args.verbose {
        eprint_all(&raw::classic_listing(filter));
    }
    let Some(interface) = &args.interface else {
        bail!(Usage("a filter needs a network interface: --interface NAME, or any".into()));
    };
    let socket = RawSocket::with_filter(interface, filter).with_context(|| {
        let words = "the kernel checks that every jump stays inside, that it ends with ret, and that \
                     no memory is read before it is written";
        format!("attaching the filter to a raw socket of {interface} ({words})")
    })?;
    show.filter(name, filter.len(), interface)?;
    if !args.no_attach {
        let end = args.duration.map(|duration| Instant::now() + duration);
        wait(end, signals)?;
    }
    show.packets(name, socket.packets_passed().context("counting packets")?)?;
    Ok(exit::DONE)
}

fn eprint_all(text: &str) {
    use std::io::Write as _;
    // Without standard error there is nobody to tell.
    let _ = std::io::stderr().write_all(text.as_bytes());
}
