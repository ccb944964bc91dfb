//! Kernel functions by address and by name.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::fs;

use noctule_trace::print::{Symbol, Symbols};
use noctule_trace::resolve;

/// Functions of the kernel and its modules, read at first use.
#[derive(Default)]
pub(super) struct Kallsyms(OnceCell<Functions>);

/// Functions sorted by address; their names are slices of one text.
#[derive(Default)]
struct Functions {
    all: Vec<Function>,
    text: String,
}

struct Function {
    address: u64,
    name: std::ops::Range<usize>,
    /// Name of the module; empty if the function belongs to the kernel itself.
    module: std::ops::Range<usize>,
}

impl Functions {
    /// Parses lines such as `ffffffff81000000 T _stext` and `... t name [module]`. If addresses are
    /// hidden (`kptr_restrict`), all are 0 and the result is empty.
    fn parse(text: String) -> Self {
        let mut all = Vec::new();
        let mut at = 0;
        for line in text.split_inclusive('\n') {
            let place = |part: &str| {
                let start = at + (part.as_ptr() as usize - line.as_ptr() as usize);
                start..start + part.len()
            };
            let mut words = line.split_whitespace();
            if let (Some(address), Some("t" | "T" | "w" | "W"), Some(name)) =
                (words.next(), words.next(), words.next())
                && let Ok(address @ 1..) = u64::from_str_radix(address, 16)
            {
                let module = words.next().unwrap_or("").trim_matches(['[', ']']);
                all.push(Function {
                    address,
                    name: place(name),
                    module: if module.is_empty() {
                        0..0
                    } else {
                        place(module)
                    },
                });
            }
            at += line.len();
        }
        all.sort_by_key(|function| function.address);
        Self { all, text }
    }

    fn name(&self, function: &Function) -> &str {
        &self.text[function.name.clone()]
    }

    /// Returns the distance to the next function with a higher address.
    fn size(&self, at: usize) -> u64 {
        let start = self.all[at].address;
        let next = self.all[at..].iter().map(|function| function.address);
        next.into_iter()
            .find(|next| *next > start)
            .map_or(0, |next| next - start)
    }

    /// Returns the address and size of a function.
    fn range(&self, wanted: resolve::Function<'_>) -> Option<(u64, u64)> {
        match wanted {
            resolve::Function::Named(name) => {
                let mut all = self.all.iter();
                let at = all.position(|function| self.name(function) == name)?;
                Some((self.all[at].address, self.size(at)))
            }
            resolve::Function::At(address) => {
                let found = self.find(address)?;
                Some((address - found.offset, found.size))
            }
        }
    }

    fn find(&self, address: u64) -> Option<Symbol<'_>> {
        let behind = self
            .all
            .partition_point(|function| function.address <= address);
        let last = behind.checked_sub(1)?;
        // If an address has several names, returns the first.
        let start = self.all[last].address;
        let at = self
            .all
            .partition_point(|function| function.address < start);
        let (function, size) = (&self.all[at], self.size(at));
        if address - start >= size {
            return None;
        }
        let module = &self.text[function.module.clone()];
        Some(Symbol {
            name: Cow::Borrowed(self.name(function)),
            module: (!module.is_empty()).then_some(Cow::Borrowed(module)),
            offset: address - start,
            size,
        })
    }
}

impl Kallsyms {
    fn functions(&self) -> &Functions {
        self.0.get_or_init(|| {
            let (functions, why_none) = match fs::read_to_string("/proc/kallsyms") {
                Ok(text) => {
                    let restrict = fs::read_to_string("/proc/sys/kernel/kptr_restrict");
                    let functions = Functions::parse(text);
                    let why_none = why_hidden(&functions, &restrict.unwrap_or_default());
                    (functions, why_none)
                }
                Err(error) => (Functions::default(), Some(error.to_string())),
            };
            if let Some(why) = why_none {
                tracing::warn!(
                    "kernel functions are shown as addresses, and none can be found by its name: \
                     /proc/kallsyms: {why}"
                );
            }
            functions
        })
    }

    /// Returns the address and size of a function.
    pub(super) fn function(&self, wanted: resolve::Function<'_>) -> Option<(u64, u64)> {
        self.functions().range(wanted)
    }
}

/// Explains why no kernel functions are known; `None` if functions are known. `restrict` is the
/// value of `kernel.kptr_restrict`.
fn why_hidden(functions: &Functions, restrict: &str) -> Option<String> {
    if !functions.all.is_empty() {
        return None;
    }
    if functions.text.is_empty() {
        return Some("it is empty, perhaps because a container runtime masks it".to_owned());
    }
    let mend = match restrict.trim() {
        "0" | "1" => "add CAP_SYSLOG to see them",
        _ => "set kernel.kptr_restrict=1 and add CAP_SYSLOG to see them",
    };
    Some(format!("all its addresses are 0: {mend}"))
}

impl Kallsyms {
    /// Returns the function with the most similar name; `None` if no function is known.
    pub(super) fn nearest(&self, name: &str) -> Option<&str> {
        let functions = self.functions();
        let all = functions.all.iter().map(|one| functions.name(one));
        all.min_by_key(|known| strsim::damerau_levenshtein(known, name))
    }
}

impl Symbols for Kallsyms {
    fn symbol(&self, address: u64) -> Option<Symbol<'_>> {
        self.functions().find(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_by_address_and_by_name() {
        let text = "0000000000001000 T first\n0000000000001000 t alias\n0000000000001040 D data\n\
                    0000000000001080 t second\t[module]\n0000000000002000 T end\n";
        let functions = Functions::parse(text.to_owned());
        let found = |address| {
            functions.find(address).map(|symbol| {
                let module = symbol.module.map(Cow::into_owned);
                (symbol.name.into_owned(), module, symbol.offset, symbol.size)
            })
        };
        let first = |offset| Some(("first".to_owned(), None, offset, 0x80));
        assert_eq!(found(0xfff), None);
        assert_eq!(found(0x1000), first(0));
        assert_eq!(found(0x107f), first(0x7f));
        let second = ("second".to_owned(), Some("module".to_owned()), 8, 0xf80);
        assert_eq!(found(0x1088), Some(second));
        assert_eq!(found(0x2000), None, "the last one has no end");
        let range = |wanted| functions.range(wanted);
        let first = range(resolve::Function::Named("alias"));
        assert_eq!(first, Some((0x1000, 0x80)));
        assert_eq!(range(resolve::Function::At(0x107f)), first);
        assert_eq!(range(resolve::Function::At(0xfff)), None);
        let hidden = Functions::parse("0000000000000000 T hidden\n".to_owned());
        assert!(hidden.find(0).is_none());
    }

    #[test]
    fn hidden_addresses_are_explained() {
        let zeros = "0000000000000000 A fixed_percpu_data\n0000000000000000 T vfs_read\n";
        let shown = "0000000000000000 A fixed_percpu_data\nffffffff81000000 T vfs_read\n";
        let why = |text: &str, restrict| why_hidden(&Functions::parse(text.to_owned()), restrict);
        let contains = |text, restrict, words: &str| {
            why(text, restrict).is_some_and(|why: String| why.contains(words))
        };
        assert!(contains("", "1\n", "it is empty"));
        assert!(contains(zeros, "1\n", ": add CAP_SYSLOG"));
        assert!(contains(zeros, "2\n", "kernel.kptr_restrict=1"));
        assert_eq!(why(shown, "0\n"), None);
    }
}
