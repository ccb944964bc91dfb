//! Names of rows.

use noctule_model::{Comm, Command, Level, ProcessRow, Zone};

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
    comm_name(&process.comm, process.kernel_thread)
}

/// Returns the name of a command, escaped for a terminal, with the number of its processes if there
/// are several, as in `cc1plus x4`.
pub fn command_name(command: &Command) -> String {
    let name = comm_name(&command.comm, command.kernel_thread);
    match command.processes {
        0 | 1 => name,
        count => format!("{name} x{count}"),
    }
}

fn comm_name(comm: &Comm, kernel_thread: bool) -> String {
    let name = escape(&comm.text());
    match kernel_thread {
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

/// Returns the name of an energy zone, escaped for a terminal. Each socket and each die has a zone
/// `dram`, so the number is added to a name without one (`dram 0`, `dram 0 die 1`).
pub fn zone_name(zone: &Zone) -> String {
    let name = escape(&zone.name);
    match (zone.socket, zone.die) {
        _ if name.ends_with(char::is_numeric) => name,
        (Some(socket), Some(die)) => format!("{name} {socket} die {die}"),
        (Some(socket), None) => format!("{name} {socket}"),
        (None, _) => name,
    }
}

#[cfg(test)]
mod tests {
    use noctule_model::ZoneKind;

    use super::*;

    #[test]
    fn zones_with_one_name_are_numbered_by_socket_and_die() {
        let named = |name: &str, socket, die| {
            zone_name(&Zone {
                socket,
                die,
                ..Zone::powercap(ZoneKind::Dram, name)
            })
        };
        assert_eq!(named("dram", Some(0), Some(0)), "dram 0 die 0");
        assert_eq!(named("dram", Some(0), Some(1)), "dram 0 die 1");
        assert_eq!(named("dram", Some(1), None), "dram 1");
        assert_eq!(named("psys", None, None), "psys");
        assert_eq!(
            named("package-0-die-1", Some(0), Some(1)),
            "package-0-die-1"
        );
    }

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
        let command = |kernel_thread, processes| {
            command_name(&Command {
                comm: Comm::new(b"a\nb"),
                kernel_thread,
                processes,
            })
        };
        assert_eq!(command(false, 1), r"a\nb");
        assert_eq!(command(true, 863), r"[a\nb] x863");
    }
}
