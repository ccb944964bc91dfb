//! Names of rows.

use noctule_model::{Level, ProcessRow, Zone};

use crate::escape;

/// Returns the word for a row of a level.
pub const fn level_word(level: Level) -> &'static str {
    match level {
        Level::Process => "process",
        Level::Container => "container",
        Level::Pod => "pod",
        Level::Unit => "unit",
        Level::Cgroup => "cgroup",
    }
}

/// Returns the command name of a process, escaped for a terminal. As in `ps`, kernel threads are in
/// brackets.
pub fn process_name(process: &ProcessRow) -> String {
    let name = escape(&process.comm.text());
    match process.kernel_thread {
        true => format!("[{name}]"),
        false => name,
    }
}

/// Returns the suffix of a process that has exited; empty for others.
pub const fn exited(process: &ProcessRow) -> &'static str {
    match process.exited {
        true => " (exited)",
        false => "",
    }
}

/// Returns the name of an energy zone, escaped for a terminal. It includes the socket, because each
/// socket has a zone `dram`.
pub fn zone_name(zone: &Zone) -> String {
    let name = escape(&zone.name);
    match zone.socket {
        Some(socket) if !name.ends_with(char::is_numeric) => format!("{name} {socket}"),
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use noctule_model::Comm;

    use super::*;

    #[test]
    fn names_mark_kernel_threads_and_exited_processes() {
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
