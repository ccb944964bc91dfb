//! Resolves kernel and user functions by name.

use anyhow::{Context as _, Result, bail};
use noctule_kernel::{FunctionPlace, FunctionProbe, Parameter, Prototype};
use noctule_trace::format::EventFormat;
use noctule_trace::probe::{FunctionValue, FunctionValues, function_format};
use noctule_trace::resolve::Function;

use super::code;
use crate::commands::trace::kallsyms::Kallsyms;
use crate::exit::Usage;

/// Returns the function that the text specifies, with its registers; `None` if the text is not a
/// function probe.
pub(super) fn probe(text: &str) -> Result<Option<(FunctionProbe, EventFormat)>> {
    let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
    let at_return = matches!(kind, "kretprobe" | "uretprobe");
    let (place, values) = match kind {
        "kprobe" | "kretprobe" => kernel(text, rest, at_return)?,
        "uprobe" | "uretprobe" => (file(text, rest)?, unknown(at_return)),
        _ => return Ok(None),
    };
    let format = function_format(text, &values);
    Ok(Some((FunctionProbe { place, at_return }, format)))
}

/// Returns the fields of an event registered by another program. These fields are registers.
pub(super) fn registered_format(name: &str, at_return: bool) -> EventFormat {
    function_format(name, &unknown(at_return))
}

const fn unknown(at_return: bool) -> FunctionValues {
    match at_return {
        true => FunctionValues::Returned(None),
        false => FunctionValues::Parameters(Vec::new()),
    }
}

fn kernel(text: &str, rest: &str, at_return: bool) -> Result<(FunctionPlace, FunctionValues)> {
    let shown = noctule_text::escape(text);
    let (function, offset) = with_offset(rest).with_context(|| {
        Usage(format!(
            "{shown}: expected a kernel function, such as kprobe:vfs_read or kprobe:vfs_read+0x10"
        ))
    })?;
    let symbols = Kallsyms::default();
    if symbols.function(Function::Named(function)).is_none()
        && let Some(near) = symbols.nearest(function)
    {
        bail!(Usage(format!(
            "this kernel has no function {}; did you mean {near}?",
            noctule_text::escape(function)
        )));
    }
    if at_return && offset != 0 {
        bail!(Usage(format!(
            "{shown}: a return probe has no offset: use kretprobe:{}",
            noctule_text::escape(function)
        )));
    }
    let value = |one: Parameter| FunctionValue {
        name: one.name,
        declared: one.declared,
        size: one.size,
        signed: one.signed,
    };
    let values = match Prototype::of_kernel(function) {
        _ if offset != 0 => FunctionValues::Registers,
        None => unknown(at_return),
        Some(known) if at_return => FunctionValues::Returned(known.returned.map(value)),
        Some(known) => {
            FunctionValues::Parameters(known.parameters.into_iter().map(value).collect())
        }
    };
    let function = function.to_owned();
    Ok((FunctionPlace::Kernel { function, offset }, values))
}

fn file(text: &str, rest: &str) -> Result<FunctionPlace> {
    let shown = noctule_text::escape(text);
    let form = || {
        Usage(format!(
            "{shown}: expected a file and one of its functions, such as uprobe:/bin/bash:readline, \
             uprobe:libc.so.6:malloc or uprobe:/bin/sh:0x1234"
        ))
    };
    let (name, function) = rest.rsplit_once(':').ok_or_else(form)?;
    if name.is_empty() || function.is_empty() {
        bail!(form());
    }
    let path = code::file(name)?;
    if let Some(offset) = number(function) {
        let offsets = vec![offset];
        return Ok(FunctionPlace::File { path, offsets });
    }
    let (function, more) = with_offset(function).ok_or_else(form)?;
    let offsets = code::offsets(&path, function)?;
    let offsets = offsets.into_iter().map(|offset| offset + more).collect();
    Ok(FunctionPlace::File { path, offsets })
}

/// Parses a symbol and an optional offset in bytes.
fn with_offset(text: &str) -> Option<(&str, u64)> {
    let (function, offset) = match text.split_once('+') {
        None => (text, 0),
        Some((function, offset)) => (function, number(offset)?),
    };
    let fits = |c: char| c.is_ascii_alphanumeric() || "_.$@".contains(c);
    (!function.is_empty() && function.chars().all(fits)).then_some((function, offset))
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn function_offsets_are_parsed() {
        assert_eq!(with_offset("vfs_read"), Some(("vfs_read", 0)));
        assert_eq!(with_offset("f.isra.0+0x10"), Some(("f.isra.0", 16)));
        for text in ["", "f+", "f+x", "a b", "+4", "f;"] {
            assert_eq!(with_offset(text), None, "{text}");
        }
    }

    #[test]
    fn invalid_functions_are_reported() {
        let words = |text: &str| probe(text).unwrap_err().to_string();
        assert!(words("kprobe:").contains("such as kprobe:vfs_read"));
        assert!(words("uprobe:/bin/sh").contains("a file and one of its functions"));
        assert!(words("uprobe:/none/such:main").contains("no file /none/such"));
        assert!(words("uprobe:/proc/self/exe:none_such").contains("has no function none_such"));
        assert!(probe("sched:sched_switch").unwrap().is_none());
        let (found, _) = probe("uretprobe:/proc/self/exe:0x1234").unwrap().unwrap();
        assert!(found.at_return);
        let FunctionPlace::File { offsets, .. } = found.place else {
            panic!("{found:?}");
        };
        assert_eq!(offsets, [0x1234]);
    }
}
