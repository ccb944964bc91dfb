//! User and command line of a running process, from the kernel's files.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read as _;

use noctule_text::escape;

use crate::config::Arguments;

/// Maximum number of bytes read of a command line, which can be 2 MiB long.
const MOST_BYTES: u64 = 4096;

/// The users of this machine, and the command lines of its processes.
pub(crate) struct Users {
    names: HashMap<u32, String>,
    commands: Option<CommandLines>,
}

/// Reads command lines of running processes, and removes arguments that must not be shown.
#[derive(Clone, Copy)]
pub(crate) struct CommandLines {
    shown: Arguments,
}

impl Users {
    /// Creates the lookup for running processes. For a recording, `commands` is `None`, because its
    /// pids may belong to other processes now.
    pub(crate) fn new(commands: Option<CommandLines>) -> Self {
        let list = fs::read_to_string("/etc/passwd").unwrap_or_default();
        Self {
            names: names(&list),
            commands,
        }
    }

    /// Returns the name of the user that a process runs as, or the uid if there is no name.
    pub(crate) fn of(&self, pid: u32) -> Option<String> {
        self.commands?;
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let user = effective_user(&status)?;
        let name = self.names.get(&user);
        Some(name.map_or_else(|| user.to_string(), |name| escape(name)))
    }

    /// Returns the command line, escaped for a terminal.
    pub(crate) fn command(&self, pid: u32) -> Option<String> {
        let commands = self.commands?;
        commands.line_or_name(pid).map(|line| escape(&line))
    }
}

impl CommandLines {
    /// `shown` is the configured visibility of arguments.
    pub(crate) const fn new(shown: Arguments) -> Self {
        Self { shown }
    }

    /// Returns the unescaped command line of a process; `None` if it has none, like a kernel
    /// thread.
    pub(crate) fn line(self, pid: u32) -> Option<String> {
        let mut bytes = Vec::new();
        let file = File::open(format!("/proc/{pid}/cmdline")).ok()?;
        file.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
        Some(self.words(&bytes)).filter(|line| !line.is_empty())
    }

    /// Returns the command line, or the process name in brackets if there is none.
    pub(crate) fn line_or_name(self, pid: u32) -> Option<String> {
        self.line(pid).or_else(|| {
            let comm = fs::read(format!("/proc/{pid}/comm")).ok()?;
            Some(format!("[{}]", String::from_utf8_lossy(&comm).trim()))
        })
    }

    /// Joins the words of a command line, each of which ends with a NUL.
    fn words(self, bytes: &[u8]) -> String {
        let words = bytes.split(|byte| *byte == 0);
        let mut words: Vec<Vec<u8>> = words.map(<[u8]>::to_vec).collect();
        self.shown.limit_words(&mut words);
        let words: Vec<_> = words.iter().map(|w| String::from_utf8_lossy(w)).collect();
        words.join(" ").trim_end().to_owned()
    }
}

/// Returns the effective uid, the second of the four.
fn effective_user(status: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Returns the name of each uid. If a uid has several names, returns the first.
fn names(list: &str) -> HashMap<u32, String> {
    let mut names = HashMap::new();
    for line in list.lines() {
        let mut fields = line.split(':');
        if let (Some(name), Some(Ok(user))) = (fields.next(), fields.nth(1).map(str::parse)) {
            names.entry(user).or_insert_with(|| name.to_owned());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_named_from_passwd() {
        let names = names(
            "root:x:0:0:root:/root:/bin/sh\nodd\nother:x:0:0::/:/bin/sh\nme:x:1000:1000::/:\n",
        );
        assert_eq!(names[&0], "root");
        assert_eq!(names[&1000], "me");
        assert_eq!(names.len(), 2);
        assert_eq!(effective_user("Name:\tx\nUid:\t1\t2\t3\t4\n"), Some(2));
        assert_eq!(effective_user("Name:\tx\n"), None);
        let own = std::process::id();
        for commands in [Some(CommandLines::new(Arguments::Full)), None] {
            let users = Users::new(commands);
            assert_eq!(users.command(own).is_some(), commands.is_some());
            assert_eq!(users.of(own).is_some(), commands.is_some());
        }
    }

    #[test]
    fn command_lines_follow_the_arguments_setting() {
        let line = b"mysql\0-h\0db\0--password\0s3cret\0\0";
        let cases = [
            (Arguments::Full, "mysql -h db --password s3cret"),
            (Arguments::Redacted, "mysql -h db --password <redacted>"),
            (Arguments::Off, "mysql"),
        ];
        for (shown, words) in cases {
            let commands = CommandLines::new(shown);
            assert_eq!(commands.words(line), words);
            assert_eq!(commands.words(b""), "");
        }
    }
}
