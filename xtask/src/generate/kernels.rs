//! Generates docs/kernels.md from the tables of `vm/expect`. Tests in the virtual machines verify
//! that each kernel matches its table, so the page shows measured results.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use toml::{Table, Value};

use crate::vm::kernel_names;

const HEAD: &str = "\
<!-- Made by `cargo xtask gen` from vm/expect. Do not edit. -->

# Kernels

This page shows which feature works on which kernel, with the names of `noctule doctor`. Each kernel is booted in a
virtual machine (`cargo xtask vm`), and the tests fail if it differs from this page. `noctule doctor` shows the
features of your own kernel.

- **on**: the feature works completely.
- **degraded**: the feature works with the limitation in the note.
- **off**: the feature is unavailable for the reason in the note. Its metrics are absent, never 0.
";

/// The status of a feature.
enum State {
    On,
    Degraded(String),
    Off(String),
}

/// A kernel of the table.
struct Kernel {
    /// First line of the kernel's table.
    title: String,
    features: BTreeMap<String, State>,
    /// Kinds of losses that are counted on this kernel, with reasons.
    losses: Vec<(String, String)>,
    verified: BTreeMap<String, i64>,
}

impl Kernel {
    fn read(root: &Path, name: &str) -> Result<Self> {
        let path = format!("vm/expect/{name}.toml");
        let text = fs::read_to_string(root.join(&path)).with_context(|| path.clone())?;
        Self::parse(&text).context(path)
    }

    fn parse(text: &str) -> Result<Self> {
        let table: Table = text.parse()?;
        let title = text.lines().next().and_then(|line| line.strip_prefix("# "));
        let title = title.context("the first line is not a title")?;
        let mut features = BTreeMap::new();
        let on = table.get("on").and_then(Value::as_array);
        for name in on.into_iter().flatten().filter_map(Value::as_str) {
            features.insert(name.to_owned(), State::On);
        }
        let reasons = |key: &str| {
            let table = table.get(key).and_then(Value::as_table);
            let pairs = table.into_iter().flatten();
            let pairs = pairs.filter_map(|(name, why)| Some((name.clone(), why.as_str()?.into())));
            pairs.collect::<Vec<(String, String)>>()
        };
        for (name, why) in reasons("degraded") {
            features.insert(name, State::Degraded(why));
        }
        for (name, why) in reasons("off") {
            features.insert(name, State::Off(why));
        }
        let verified = table.get("verified").and_then(Value::as_table);
        let verified = verified.into_iter().flatten();
        let verified =
            verified.filter_map(|(name, count)| Some((name.clone(), count.as_integer()?)));
        Ok(Self {
            title: title.trim_end_matches('.').to_owned(),
            features,
            losses: reasons("losses"),
            verified: verified.collect(),
        })
    }
}

pub(super) fn page(root: &Path) -> Result<String> {
    let kernels = kernel_names().map(|name| Kernel::read(root, name));
    let kernels = kernels.collect::<Result<Vec<_>>>()?;
    let mut page = HEAD.to_owned();
    add_features(&mut page, &kernels)?;
    add_losses(&mut page, &kernels)?;
    add_verified(&mut page, &kernels)?;
    Ok(page)
}

fn add_features(page: &mut String, kernels: &[Kernel]) -> Result<()> {
    page.push_str("\n## Features\n\n");
    header(page, "feature", kernels)?;
    let names: BTreeSet<&String> = kernels.iter().flat_map(|k| k.features.keys()).collect();
    let mut notes: Vec<&str> = Vec::new();
    for name in names {
        write!(page, "| `{name}` |")?;
        for kernel in kernels {
            let (word, why) = match kernel.features.get(name) {
                None => ("", None),
                Some(State::On) => ("on", None),
                Some(State::Degraded(why)) => ("degraded", Some(why.as_str())),
                Some(State::Off(why)) => ("off", Some(why.as_str())),
            };
            write!(page, " {word}")?;
            if let Some(why) = why {
                let known = notes.iter().position(|note| *note == why);
                let at = known.unwrap_or_else(|| {
                    notes.push(why);
                    notes.len() - 1
                });
                write!(page, " ({})", at + 1)?;
            }
            page.push_str(" |");
        }
        page.push('\n');
    }
    page.push('\n');
    for (at, note) in notes.iter().enumerate() {
        writeln!(page, "{}. {note}", at + 1)?;
    }
    Ok(())
}

fn add_losses(page: &mut String, kernels: &[Kernel]) -> Result<()> {
    page.push_str(
        "\n## Losses\n\nThese losses are unavoidable on the kernel and counted in \
         `noctule_self_losses_total`.\n\n",
    );
    for kernel in kernels {
        for (kind, why) in &kernel.losses {
            writeln!(page, "- {}: `{kind}`: {why}.", kernel.title)?;
        }
    }
    Ok(())
}

fn add_verified(page: &mut String, kernels: &[Kernel]) -> Result<()> {
    page.push_str(
        "\n## The verifier\n\nNumber of instructions that the verifier processes when it loads a program. The limit is \
         1,000,000. The tests fail if a number grows by more than 10%, until the table is updated.\n\n",
    );
    let kernels: Vec<&Kernel> = kernels.iter().filter(|k| !k.verified.is_empty()).collect();
    header(page, "program", kernels.iter().copied())?;
    let names: BTreeSet<&String> = kernels.iter().flat_map(|k| k.verified.keys()).collect();
    for name in names {
        write!(page, "| `{name}` |")?;
        for kernel in &kernels {
            match kernel.verified.get(name) {
                Some(count) => write!(page, " {count} |")?,
                None => page.push_str(" |"),
            }
        }
        page.push('\n');
    }
    Ok(())
}

fn header<'a>(
    page: &mut String,
    what: &str,
    kernels: impl IntoIterator<Item = &'a Kernel>,
) -> Result<()> {
    write!(page, "| {what} |")?;
    let mut rule = String::from("|---|");
    for kernel in kernels {
        write!(page, " {} |", kernel.title)?;
        rule.push_str("---|");
    }
    writeln!(page, "\n{rule}")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_listed_with_deduplicated_reasons() {
        let one = "# One.\non = [\"cpu_time\"]\n[degraded]\ntcp = \"few\"\n[verified]\nrun = 7\n";
        let two = "# Two.\non = []\n[off]\ncpu_time = \"old\"\ntcp = \"few\"\n";
        let kernels = [one, two].map(|text| Kernel::parse(text).expect("a table"));
        let mut page = String::new();
        add_features(&mut page, &kernels).expect("text");
        add_verified(&mut page, &kernels).expect("text");
        for line in [
            "| feature | One | Two |",
            "| `cpu_time` | on | off (1) |",
            "| `tcp` | degraded (2) | off (2) |",
            "1. old",
            "2. few",
            "| program | One |",
            "| `run` | 7 |",
        ] {
            assert!(page.lines().any(|found| found == line), "{line}: {page}");
        }
        assert!(!page.contains("3. "), "{page}");
        assert!(Kernel::parse("on = []\n").is_err());
    }
}
