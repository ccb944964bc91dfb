//! Selects the programs to load and their targets.

use anyhow::{Context as _, Result, bail};
use noctule_kernel::{ForeignProgram, NoTarget, Places, SECTIONS, Target};

use crate::args::LoadArgs;
use crate::commands::trace::attach_point::code;
use crate::exit::Usage;

/// A program to be loaded.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) program: ForeignProgram,
    pub(super) target: Target,
    /// The function to look up in BTF instead of the function in the section name.
    pub(super) function: Option<String>,
    pub(super) places: Places,
}

/// Returns the selected programs. Usage errors that can be found without the kernel are reported
/// here, before anything is loaded. `tail_calls` lists the targets of tail calls.
pub(super) fn of(
    programs: &[ForeignProgram],
    tail_calls: &[String],
    args: &LoadArgs,
) -> Result<Vec<Job>> {
    let attach = attach(programs, args)?;
    for name in &args.program {
        known(programs, name, "--program")?;
    }
    let mut jobs = Vec::new();
    for program in programs {
        if !args.program.is_empty() && !args.program.contains(&program.name) {
            continue;
        }
        let other = attach.iter().find(|(name, _)| *name == program.name);
        // A leading `?` means that libbpf does not load the program by default.
        let waits = program.section.starts_with('?') || tail_calls.contains(&program.name);
        if other.is_none() && args.program.is_empty() && waits {
            continue;
        }
        jobs.push(job(program, other.map(|(_, section)| *section), args)?);
    }
    if jobs.is_empty() {
        bail!(Usage(
            "the object has no program that is loaded by default: choose one with --program NAME"
                .into()
        ));
    }
    Ok(jobs)
}

fn job(program: &ForeignProgram, other: Option<&str>, args: &LoadArgs) -> Result<Job> {
    let shown = noctule_text::escape(&program.name);
    if !program.typed {
        let section = noctule_text::escape(&program.section);
        bail!(Usage(format!(
            "{shown}: libbpf has no section {section}; did you mean {}?",
            nearest(&program.section)
        )));
    }
    let section = other.unwrap_or(&program.section);
    let mut target = match Target::of_section(section) {
        Ok(target) => target,
        // Without an attachment, the program is only verified.
        Err(_) if args.no_attach => Target::Elsewhere("is only verified"),
        Err(NoTarget::Incomplete(form)) => bail!(Usage(format!(
            "{shown}: its section does not name an attach point: add --attach {shown}={form}"
        ))),
        Err(NoTarget::Unknown) => bail!(Usage(format!(
            "{shown}: libbpf has no section {}; did you mean {}?",
            noctule_text::escape(section),
            nearest(section)
        ))),
    };
    let places = places(args);
    let is_table = matches!(target, Target::Elsewhere(_)) && section.starts_with("struct_ops");
    match target.needs(&places) {
        Some(words) if !args.no_attach && !is_table => bail!(Usage(format!("{shown} {words}"))),
        _ => {}
    }
    if !args.no_attach {
        find_code(&mut target).with_context(|| shown.clone())?;
    }
    let function = match &target {
        Target::Btf { name, .. } if other.is_some() => Some(name.clone()),
        _ => None,
    };
    Ok(Job {
        program: program.clone(),
        target,
        function,
        places,
    })
}

/// Resolves the function to offsets in its file, as the other commands do. libbpf does not support
/// default symbol versions and indirect functions.
fn find_code(target: &mut Target) -> Result<()> {
    if let Target::Uprobe {
        file,
        function,
        offset,
        code,
        ..
    } = target
        && !function.is_empty()
    {
        *file = code::file(&file.to_string_lossy())?;
        *code = code::offsets(file, function)?;
        code.iter_mut().for_each(|place| *place += *offset);
    }
    Ok(())
}

fn places(args: &LoadArgs) -> Places {
    Places {
        interface: args.interface.clone(),
        cgroup: args.cgroup.clone(),
        netns: args.netns.clone(),
        pid: args.pid,
        frequency: args.frequency,
    }
}

/// Parses the sections given with `--attach`.
fn attach<'a>(programs: &[ForeignProgram], args: &'a LoadArgs) -> Result<Vec<(&'a str, &'a str)>> {
    let mut all = Vec::new();
    for text in &args.attach {
        let Some((name, section)) = text.split_once('=') else {
            bail!(Usage(format!(
                "--attach {text}: expected PROGRAM=SECTION, such as count=tracepoint/sched/sched_switch"
            )));
        };
        known(programs, name, "--attach")?;
        all.push((name, section));
    }
    Ok(all)
}

fn known(programs: &[ForeignProgram], name: &str, option: &str) -> Result<()> {
    if programs.iter().any(|program| program.name == name) {
        return Ok(());
    }
    let names: Vec<_> = programs
        .iter()
        .map(|p| noctule_text::escape(&p.name))
        .collect();
    let names = names.join(", ");
    bail!(Usage(format!(
        "{option} {name}: the object has no such program; it has {names}"
    )))
}

fn nearest(section: &str) -> &'static str {
    let prefix = section.split('/').next().unwrap_or(section);
    let distance = |known: &&&str| strsim::damerau_levenshtein(known, prefix);
    SECTIONS
        .iter()
        .min_by_key(distance)
        .copied()
        .unwrap_or("tracepoint")
}
