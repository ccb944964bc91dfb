//! Spellings of modifiers.

use std::fmt;

use crate::tree::Modifier;

/// All modifiers except `buckets` and percentiles.
const NAMES: &[(&str, Modifier)] = &[
    ("hex", Modifier::Hex),
    ("sym", Modifier::Symbol),
    ("sym-offset", Modifier::SymbolOffset),
    ("syscall", Modifier::Syscall),
    ("execname", Modifier::ExecName),
    ("log2", Modifier::Log2),
    ("usecs", Modifier::Microseconds),
    ("percent", Modifier::Percent),
    ("graph", Modifier::Graph),
    ("stacktrace", Modifier::Stacktrace),
    ("ustring", Modifier::UserString),
    ("string", Modifier::KernelString),
    ("function", Modifier::Function),
    ("flags", Modifier::Flags),
    ("min", Modifier::Minimum),
    ("max", Modifier::Maximum),
    ("avg", Modifier::Average),
    ("ascending", Modifier::Ascending),
    ("descending", Modifier::Descending),
];

/// Both spellings of `.buckets=N`.
pub(crate) const BUCKETS: [&str; 2] = ["buckets", "bucket"];

impl Modifier {
    /// Returns the modifier with this name, if it needs no argument.
    pub(crate) fn named(word: &str) -> Option<Self> {
        let entry = NAMES.iter().find(|(name, _)| *name == word);
        entry
            .map(|(_, modifier)| modifier.clone())
            .or_else(|| percentile(word))
    }

    /// Returns all names, for suggestions.
    pub(crate) fn names() -> impl Iterator<Item = &'static str> {
        let names = NAMES.iter().map(|(name, _)| *name);
        names.chain(BUCKETS)
    }
}

/// Parses a percentile: `p5`, `p50`, `p99` in percent, `p999` in thousandths. `p100` is ambiguous
/// (10 % or 100 %) and rejected.
fn percentile(word: &str) -> Option<Modifier> {
    let digits = word.strip_prefix('p')?;
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: u16 = digits.parse().ok()?;
    let thousandths = match (digits.len(), number) {
        (_, 0) | (3, 100) => return None,
        (1 | 2, percent) => percent * 10,
        (3, thousandths) => thousandths,
        _ => return None,
    };
    Some(Modifier::Percentile(thousandths))
}

impl fmt::Display for Modifier {
    /// Prints the modifier without its dot.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Buckets(size) => write!(f, "buckets={size}"),
            Self::Percentile(part) if part % 10 == 0 => write!(f, "p{}", part / 10),
            Self::Percentile(part) => write!(f, "p{part:03}"),
            Self::Unknown(word) => f.write_str(word),
            known => {
                let entry = NAMES.iter().find(|(_, modifier)| modifier == known);
                f.write_str(entry.map_or("", |(name, _)| name))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for (name, modifier) in NAMES {
            assert_eq!(Modifier::named(name).as_ref(), Some(modifier));
            assert_eq!(modifier.to_string(), *name);
        }
        for part in (1..1000).filter(|part| *part != 100) {
            let written = Modifier::Percentile(part).to_string();
            assert_eq!(Modifier::named(&written), Some(Modifier::Percentile(part)));
        }
    }

    #[test]
    fn parses_percentiles() {
        let cases = [
            ("p5", Some(50)),
            ("p05", Some(50)),
            ("p50", Some(500)),
            ("p99", Some(990)),
            ("p995", Some(995)),
            ("p999", Some(999)),
            ("p001", Some(1)),
            ("p100", None),
            ("p0", None),
            ("p000", None),
            ("p9999", None),
            ("p+9", None),
            ("p", None),
            ("p9x", None),
        ];
        for (word, part) in cases {
            assert_eq!(Modifier::named(word), part.map(Modifier::Percentile));
        }
    }
}
