//! Tests of hostile names of processes and groups.

use std::process::Command;

use noctule_text::escape;

use super::{NOCTULE, ended, support};
use crate::support::hostile::{Hostile, obeyed};
use crate::support::rows;

fn table(by: &str) -> String {
    let output =
        ended(Command::new(NOCTULE).args(["stat", "--for", "2s", "--by", by, "--top=999"]));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let found: Vec<char> = text.chars().filter(|c| obeyed(*c)).collect();
    assert!(found.is_empty(), "{found:?} in {text:?}");
    text
}

#[test]
fn tables_escape_hostile_names_on_one_line() {
    let _machine = support::shared();
    let hostile = Hostile::start();
    let lines_of = |text: &str, name: &[u8], pid: u32| {
        // The kernel truncates thread names to 15 bytes.
        let kept = String::from_utf8_lossy(&name[..name.len().min(15)]);
        let begin = format!("{} {pid} ", escape(&kept));
        text.lines().filter(|line| line.starts_with(&begin)).count()
    };
    // On a busy machine a process may get no CPU for two seconds, and then has no row.
    let all_ran = |text: &String| {
        let mut all = hostile.processes();
        all.all(|(name, pid)| lines_of(text, name, pid) > 0)
    };
    let mut tables = (0..5).map(|_| table("process"));
    let text = tables.find(all_ran).expect("all run within ten seconds");
    for (name, pid) in hostile.processes() {
        assert_eq!(lines_of(&text, name, pid), 1, "{name:?}: {text}");
    }
    for shown in [
        "\\u{1b}[31mred",
        "\\\\u{1b}[31mred",
        "line\\nfeed",
        "bidi\\u{202e}override",
    ] {
        assert!(
            text.lines().any(|line| line.starts_with(shown)),
            "{shown}: {text}"
        );
    }
    let text = table("cgroup");
    let prefix = format!("/{}", hostile.prefix);
    let lines = text
        .lines()
        .filter(|line| line.starts_with(&prefix))
        .count();
    assert_eq!(lines, hostile.groups.len(), "{text}");
}

#[test]
fn json_keeps_hostile_names_unchanged() {
    let _machine = support::shared();
    let hostile = Hostile::start();
    let args = ["stat", "--json", "--for", "2s", "--by"];
    let answer = |by: &str| {
        let output = ended(Command::new(NOCTULE).args(args).arg(by));
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        assert!(!text.contains(obeyed), "{text:?}");
        assert_eq!(text.matches('\n').count(), 1, "one line");
        serde_json::from_str::<serde_json::Value>(&text).expect("JSON")
    };
    let processes = answer("process");
    for (name, pid) in hostile.processes() {
        let row = rows(&processes, |row| row["process.pid"] == pid);
        assert_eq!(row.len(), 1, "{name:?}");
        // The kernel truncates thread names to 15 bytes.
        let kept = String::from_utf8_lossy(&name[..name.len().min(15)]);
        assert_eq!(row[0]["process.executable.name"], kept.as_ref());
    }
    let groups = answer("cgroup");
    for name in &hostile.groups {
        let path = format!("/{}{}", hostile.prefix, String::from_utf8_lossy(name));
        let row = rows(&groups, |row| row["process.linux.cgroup"] == path.as_str());
        assert_eq!(row.len(), 1, "{path:?}");
    }
}
