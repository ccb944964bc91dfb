//! Collects the messages of libbpf, because the reason of an error appears only there.

use std::cell::RefCell;

/// Maximum number of messages. A broken object can cause a message for each of its symbols.
const MOST: usize = 64;

thread_local! {
    static SAID: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Runs the action, and returns the messages that libbpf logs during the action, one per line.
pub(crate) fn listen<T>(action: impl FnOnce() -> T) -> (T, Vec<String>) {
    SAID.set(Some(Vec::new()));
    let done = action();
    (done, SAID.take().unwrap_or_default())
}

/// Keeps a message if [`listen`] is running.
pub(crate) fn keep_message(words: &str) {
    SAID.with_borrow_mut(|said| {
        let Some(said) = said else { return };
        for line in words.lines().take(MOST.saturating_sub(said.len())) {
            let line = line.strip_prefix("libbpf: ").unwrap_or(line).trim_end();
            if !line.is_empty() {
                said.push(line.to_owned());
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_messages_during_the_call_are_kept() {
        keep_message("libbpf: before\n");
        let ((), said) = listen(|| {
            keep_message("libbpf: one\n");
            keep_message("two\n\n");
        });
        keep_message("after");
        assert_eq!(said, ["one", "two"]);
        let ((), said) = listen(|| (0..100).for_each(|_| keep_message("again")));
        assert_eq!(said.len(), MOST);
    }
}
