//! `noctule load --raw`: plain instructions without an object file.

use anyhow::{Result, anyhow, bail};
use noctule_kernel::{ClassicInsn, ForeignProgram, Target};
use noctule_trace::classic::Classic;
use noctule_trace::elf::{LegacyObject, LegacyProgram};
use noctule_trace::raw::{self, Instructions, Raw};
use noctule_trace::verifier::Source;

use super::loaded::Object;
use crate::args::LoadArgs;
use crate::exit::Usage;

/// Maps instructions to source lines.
#[derive(Default)]
pub(super) struct Lines {
    file: String,
    text: Vec<String>,
    /// Line number of each instruction, starting at 1.
    of: Vec<u32>,
}

impl Lines {
    /// Returns the source line of an instruction; `None` if the instructions were binary.
    pub(super) fn source(&self, instruction: u32) -> Option<Source> {
        let number = *self.of.get(instruction as usize)?;
        let text = self.text.get(number.checked_sub(1)? as usize)?;
        Some(Source {
            text: text.trim().to_owned(),
            place: Some((self.file.clone(), number)),
        })
    }
}

/// Parses the program in a file and gives it this name.
pub(super) fn object(
    args: &LoadArgs,
    file: &str,
    name: &str,
    bytes: &[u8],
) -> Result<(Object, Lines)> {
    let read = raw::read(bytes).map_err(|error| match error {
        // The error includes the line number in the user's text.
        error @ raw::RawError::Line { .. } => {
            anyhow!(Usage(format!("{}: {error}", noctule_text::escape(file))))
        }
        error => anyhow!(error).context(file.to_owned()),
    })?;
    match read {
        Raw::Classic(filter) => Ok((classic(args, name, &filter)?, Lines::default())),
        Raw::Extended(read) => {
            let lines = Lines {
                file: file.to_owned(),
                text: String::from_utf8_lossy(bytes)
                    .lines()
                    .map(str::to_owned)
                    .collect(),
                of: read.lines.clone(),
            };
            Ok((extended(args, name, read)?, lines))
        }
    }
}

fn classic(args: &LoadArgs, name: &str, filter: &Classic) -> Result<Object> {
    let section = args.kind.as_deref().unwrap_or("socket");
    if Target::of_section(section) != Ok(Target::Socket) {
        bail!(Usage(format!(
            "--type {}: classic instructions can only be a socket filter: use --type socket",
            noctule_text::escape(section)
        )));
    }
    let one = |insn: &noctule_trace::classic::ClassicInsn| ClassicInsn {
        code: insn.code,
        jt: insn.jt,
        jf: insn.jf,
        k: insn.k,
    };
    let insns: Vec<_> = filter.insns().iter().map(one).collect();
    let program = ForeignProgram {
        name: name.to_owned(),
        section: section.to_owned(),
        typed: true,
        instructions: insns.len(),
    };
    Ok(Object::Classic(program, insns))
}

fn extended(args: &LoadArgs, name: &str, read: Instructions) -> Result<Object> {
    let Some(section) = &args.kind else {
        bail!(Usage(
            "extended instructions do not say what kind of program they are: add --type SECTION, \
             such as --type socket or --type tracepoint/sched/sched_switch"
                .to_owned()
        ));
    };
    if let Ok(target @ (Target::Btf { .. } | Target::Iterator)) = Target::of_section(section) {
        bail!(Usage(format!(
            "--type {}: {target} needs BTF, which only an object has; raw_tp/EVENT and \
             tracepoint/SYSTEM/EVENT work without it",
            noctule_text::escape(section)
        )));
    }
    let program = LegacyProgram {
        name: name.to_owned(),
        section: section.clone(),
        insns: read.insns,
        loads: read.loads,
    };
    let object = LegacyObject {
        license: args.license.clone(),
        version: match &args.kernel_version {
            Some(text) => version(text).ok_or_else(|| {
                let shown = noctule_text::escape(text);
                Usage(format!(
                    "--kernel-version {shown}: expected three numbers, such as 4.14.0"
                ))
            })?,
            None => running(),
        },
        maps: read.maps,
        programs: vec![program],
    };
    Ok(Object::of_legacy(&object))
}

/// Returns the version of the running kernel.
fn running() -> u32 {
    let release = rustix::system::uname();
    let release = release.release().to_string_lossy().into_owned();
    let end = release.find(|c: char| !c.is_ascii_digit() && c != '.');
    version(&release[..end.unwrap_or(release.len())]).unwrap_or(0)
}

/// Returns the `LINUX_VERSION_CODE` of a version such as `4.14.0`; the patch level is optional.
fn version(text: &str) -> Option<u32> {
    let mut parts = text.split('.').map(|part| part.parse::<u32>().ok());
    let (major, minor) = (parts.next()??, parts.next()??);
    // The kernel's version code has eight bits for the patch level.
    let patch = parts.next().map_or(Some(0), |patch| patch)?.min(255);
    let fits = parts.next().is_none() && major < 1 << 16 && minor < 256;
    fits.then_some(major << 16 | minor << 8 | patch)
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn versions_use_the_kernels_encoding() {
        assert_eq!(version("4.14.0"), Some(0x04_0e_00));
        assert_eq!(version("5.10"), Some(0x05_0a_00));
        assert_eq!(version("4.9.337"), Some(0x04_09_ff));
        for text in ["", "4", "x.y", "4.14.0.1", "4.256.0", "-4.1"] {
            assert_eq!(version(text), None, "{text}");
        }
    }
}
