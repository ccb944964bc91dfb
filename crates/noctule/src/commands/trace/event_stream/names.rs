//! Resolves addresses in records to kernel functions and strings.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::HashMap;

use noctule_kernel::TraceEvents;
use noctule_trace::print::{Symbol, Symbols};

use crate::commands::trace::kallsyms::Kallsyms;
use crate::rights::Reading;

/// Kernel functions and strings by address. Each table is read when it is first needed.
pub(super) struct KernelNames<'a> {
    symbols: &'a Kallsyms,
    events: &'a TraceEvents,
    texts: OnceCell<HashMap<u64, String>>,
}

impl<'a> KernelNames<'a> {
    pub(super) fn new(symbols: &'a Kallsyms, events: &'a TraceEvents) -> Self {
        Self {
            symbols,
            events,
            texts: OnceCell::new(),
        }
    }
}

impl Symbols for KernelNames<'_> {
    fn symbol(&self, address: u64) -> Option<Symbol<'_>> {
        self.symbols.symbol(address)
    }

    fn text(&self, address: u64) -> Option<Cow<'_, str>> {
        let texts = self.texts.get_or_init(|| {
            let _reading = Reading::begin();
            parse(&self.events.texts().unwrap_or_default())
        });
        texts.get(&address).map(|text| Cow::Borrowed(text.as_str()))
    }
}

/// Parses lines such as `0xffffffff82819 : "a text\n"`, which have C escapes.
fn parse(text: &str) -> HashMap<u64, String> {
    let one = |line: &str| {
        let (address, text) = line.split_once(" : ")?;
        let address = u64::from_str_radix(address.strip_prefix("0x")?, 16).ok()?;
        let text = text.strip_prefix('"')?.strip_suffix('"')?;
        Some((address, unescaped(text)))
    };
    text.lines().filter_map(one).collect()
}

fn unescaped(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        out.push(match c {
            '\\' => match rest.next() {
                Some('n') => '\n',
                Some('t') => '\t',
                Some(other) => other,
                None => '\\',
            },
            c => c,
        });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_found_by_address() {
        let text =
            "0xffffffff828195af : \"Start context switch\"\n0x10 : \"a \\\"b\\\"\\n\"\nodd\n";
        let texts = parse(text);
        assert_eq!(texts[&0xffff_ffff_8281_95af], "Start context switch");
        assert_eq!(texts[&0x10], "a \"b\"\n");
        assert_eq!(texts.len(), 2);
    }
}
