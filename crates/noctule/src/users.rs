//! What the files of the kernel say of a process that runs: its user and its command line.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;

use noctule_collect::SettingFiles;
use noctule_text::escape;

/// So much of a command line is read as words: it can have 2 MiB.
const MOST_BYTES: u64 = 4096;

/// The users of this machine, and the command lines of its processes.
pub(crate) struct Users {
    names: HashMap<u32, String>,
    files: Option<SettingFiles>,
}

impl Users {
    /// Of processes of this moment. Of a recording nothing of this is known: its numbers may have others
    /// now.
    pub(crate) fn new(live: bool) -> Self {
        let list = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let files = SettingFiles::new(Path::new("/"), Path::new("/"));
        Self {
            names: names(&list),
            files: live.then_some(files),
        }
    }

    /// The name of the user that a process runs as, or its number where it has none here.
    pub(crate) fn of(&self, pid: u32) -> Option<String> {
        self.files.as_ref()?;
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let user = effective_user(&status)?;
        let name = self.names.get(&user);
        Some(name.map_or_else(|| user.to_string(), |name| escape(name)))
    }

    /// The words of its command line, as they are.
    pub(crate) fn arguments(&self, pid: u32) -> Option<Vec<Vec<u8>>> {
        self.files.as_ref()?;
        let mut line = Vec::new();
        let file = File::open(format!("/proc/{pid}/cmdline")).ok()?;
        file.take(MOST_BYTES).read_to_end(&mut line).ok()?;
        let line = line.strip_suffix(b"\0").unwrap_or(&line);
        Some(line.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect())
    }

    /// Its command line, safe for a terminal.
    pub(crate) fn command(&self, pid: u32) -> Option<String> {
        self.files
            .as_ref()?
            .command_line(pid)
            .map(|line| escape(&line))
    }
}

/// The second of the four numbers.
fn effective_user(status: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// The name of each user number; the first one that has it.
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
    fn users_have_the_names_of_the_list() {
        let names = names(
            "root:x:0:0:root:/root:/bin/sh\nodd\nother:x:0:0::/:/bin/sh\nme:x:1000:1000::/:\n",
        );
        assert_eq!(names[&0], "root");
        assert_eq!(names[&1000], "me");
        assert_eq!(names.len(), 2);
        assert_eq!(effective_user("Name:\tx\nUid:\t1\t2\t3\t4\n"), Some(2));
        assert_eq!(effective_user("Name:\tx\n"), None);
        let own = std::process::id();
        for live in [true, false] {
            let users = Users::new(live);
            assert_eq!(users.command(own).is_some(), live);
            assert_eq!(users.of(own).is_some(), live);
        }
    }
}
