//! The names of what a row stands for.

use noctule_model::{Level, ProcessRow};

use crate::escape;

/// The word for one row of a level.
pub const fn level_word(level: Level) -> &'static str {
    match level {
        Level::Process => "process",
        Level::Container => "container",
        Level::Pod => "pod",
        Level::Unit => "unit",
        Level::Cgroup => "cgroup",
    }
}

/// The command name of a process, safe for a terminal. As in `ps`, a thread of the kernel stands in
/// brackets.
pub fn process_name(process: &ProcessRow) -> String {
    let name = escape(&process.comm.text());
    match process.kernel_thread {
        true => format!("[{name}]"),
        false => name,
    }
}

/// What follows the name of a process that has exited, and of no other.
pub const fn exited(process: &ProcessRow) -> &'static str {
    match process.exited {
        true => " (exited)",
        false => "",
    }
}

#[cfg(test)]
mod tests {
    use noctule_model::Comm;

    use super::*;

    #[test]
    fn a_name_says_whose_it_is_and_whether_it_is_over() {
        let row = |kernel_thread, exited| ProcessRow {
            comm: Comm::new(b"a\nb"),
            kernel_thread,
            exited,
            ..ProcessRow::default()
        };
        let cases = [
            (row(false, false), r"a\nb"),
            (row(true, false), r"[a\nb]"),
            (row(false, true), r"a\nb (exited)"),
            (row(true, true), r"[a\nb] (exited)"),
        ];
        for (row, text) in cases {
            assert_eq!(process_name(&row) + exited(&row), text);
        }
    }
}
