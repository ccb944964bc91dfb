//! Tests of hostile and overlong arguments and paths.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};

use super::support::hostile::{NAMES, obeyed};
use super::support::stream::{Stream, is};
use super::support::{self, NOCTULE};

/// Returns a name in its JSON form: invalid UTF-8 is `\xNN`, and a backslash is doubled.
fn json_form(name: &[u8]) -> String {
    let chunk = |chunk: std::str::Utf8Chunk<'_>| {
        let invalid = chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}"));
        chunk.valid().replace('\\', "\\\\") + &invalid.collect::<String>()
    };
    name.utf8_chunks().map(chunk).collect()
}

/// Returns what `noctule events` prints about a command. Lines must start with the time and contain
/// no character that a terminal interprets.
fn printed(options: &[&str], command: &[&OsStr]) -> String {
    let output = Command::new(NOCTULE)
        .arg("events")
        .args(options)
        .arg("--")
        .args(command)
        .stdin(Stdio::null())
        .output()
        .expect("the binary can be started");
    let text = String::from_utf8(output.stderr).expect("UTF-8");
    let found: Vec<char> = text.chars().filter(|c| obeyed(*c)).collect();
    assert!(found.is_empty(), "{found:?} in {text:?}");
    // The output starts with warnings about unsupported file changes.
    let (warned, lines) = text.split_once('\n').expect("a line");
    let told = match warned.starts_with(" WARN file_changes is off: ") {
        true => lines.to_owned(),
        false => text,
    };
    for line in told.lines() {
        let time = line.as_bytes();
        assert!(
            time[0].is_ascii_digit() && time[2] == b':' && time[5] == b':',
            "{line}"
        );
    }
    told
}

#[test]
fn hostile_arguments_are_reported_exactly_and_escaped() {
    let _machine = support::shared();
    needs!("process_events");
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().canonicalize().expect("a path");
    let mut arguments: Vec<&OsStr> = NAMES.iter().map(|name| OsStr::from_bytes(name)).collect();
    arguments.push(OsStr::new(""));
    let stream = Stream::start(&["--kind", "process"]);
    // The program itself also has such a name.
    for name in NAMES {
        let program = folder.join(OsStr::from_bytes(name));
        fs::copy("/bin/true", &program).expect("a copy");
        let mut child = Command::new(&program)
            .args(&arguments)
            .spawn()
            .expect("a copy of true");
        let id = child.id();
        child.wait().expect("our own child");
        let exec = stream.wait_for("it was executed", |e| is(e, "process.exec", id));
        let path = json_form(program.as_os_str().as_bytes());
        assert_eq!(exec["process.executable.path"], path, "{exec}");
        let mut expected = vec![path];
        expected.extend(
            arguments
                .iter()
                .map(|argument| json_form(argument.as_bytes())),
        );
        assert_eq!(exec["process.command_args"], serde_json::json!(expected));
        assert_eq!(exec["process.command_args.truncated"], false);
        let end = stream.wait_for("it has ended", |e| is(e, "process.exit", id));
        assert_eq!(
            end["process.executable.name"],
            exec["process.executable.name"]
        );
    }
    let shown = [
        (2, "line\\nfeed"),
        (4, "\\u{1b}[31mred"),
        (11, "bidi\\u{202e}override"),
        (13, "not\\xffutf8"),
    ];
    for (at, shown) in shown {
        let name = OsStr::from_bytes(NAMES[at]);
        let program = folder.join(name);
        // A multi-call binary complains that it does not know such a name.
        let quiet = ["/bin/sh", "-c", r#"exec "$0" "$@" 2>/dev/null"#].map(OsStr::new);
        let command = [&quiet[..], &[program.as_os_str(), name]].concat();
        let text = printed(&["--kind", "process"], &command);
        // Both the path of the program and the argument appear in the output.
        assert!(text.matches(shown).count() >= 2, "{shown}: {text}");
    }
}

#[test]
fn hostile_paths_are_reported_exactly_and_escaped() {
    let _machine = support::shared();
    needs!("process_events", "file_opens");
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().canonicalize().expect("a path");
    let prefix = folder.to_str().expect("in UTF-8");
    let stream = Stream::start(&["--path", prefix, "--failures"]);
    for name in NAMES {
        let file = folder.join(OsStr::from_bytes(name));
        let missing = folder.join("none").join(OsStr::from_bytes(name));
        fs::write(&file, "x").expect("a file");
        fs::write(&missing, "x").expect_err("no such folder");
        for (path, error) in [(file, None), (missing, Some("ENOENT"))] {
            let path = json_form(path.as_os_str().as_bytes());
            let open = stream.wait_for(&path, |e| e["file.path"] == path.as_str());
            assert_eq!(open["error.type"].as_str(), error, "{open}");
        }
    }
    let (all, _) = stream.end();
    assert_eq!(all.len(), 2 * NAMES.len(), "{all:?}");
    let script = OsString::from(format!("for file in {prefix}/*; do : >> \"$file\"; done"));
    let command = [OsStr::new("/bin/sh"), OsStr::new("-c"), &script];
    let text = printed(&["--path", prefix], &command);
    assert_eq!(text.lines().count(), NAMES.len(), "{text}");
}

/// Creates nested directories, one for each of `names`, and a file in the last one. A system call
/// accepts at most 4,095 bytes, so the test takes one step at a time.
fn open_deep(top: &Path, names: &[String], file: &str) -> Vec<u8> {
    let mut folder = openat(CWD, top, OFlags::DIRECTORY, Mode::empty()).expect("a folder");
    let mut path = top.as_os_str().as_bytes().to_vec();
    for name in names {
        // The directory may exist from an earlier run.
        let _ = mkdirat(&folder, name, Mode::RWXU);
        folder = openat(&folder, name, OFlags::DIRECTORY, Mode::empty()).expect("a folder");
        path.extend([b"/", name.as_bytes()].concat());
    }
    let flags = OFlags::WRONLY | OFlags::CREATE;
    drop(openat(&folder, file, flags, Mode::RWXU).expect("a file"));
    path.extend([b"/", file.as_bytes()].concat());
    path
}

#[test]
fn path_is_complete_up_to_the_kernel_limit() {
    const LONGEST: usize = 4095;
    let _machine = support::shared();
    needs!("process_events", "file_opens");
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().canonicalize().expect("a path");
    let prefix = folder.to_str().expect("in UTF-8");
    let stream = Stream::start(&["--path", prefix]);
    let names = vec!["d".repeat(254); 15];
    let folders = prefix.len() + names.len() * 255 + 1;
    let longest = "f".repeat(LONGEST - folders);
    let whole = open_deep(&folder, &names, &longest);
    assert_eq!(whole.len(), LONGEST);
    // Opens the file by its full path. The kernel does not accept a longer path.
    fs::write(OsString::from_vec(whole.clone()), "x").expect("a file");
    let whole = String::from_utf8(whole).expect("in UTF-8");
    let opens = stream.wait_for_all("it is opened twice", 2, |e| {
        e["file.path"] == whole.as_str()
    });
    assert!(
        opens.iter().all(|e| e["file.path.truncated"].is_null()),
        "{opens:?}"
    );

    // This path is one byte longer.
    let file = format!("{longest}f");
    let path = String::from_utf8(open_deep(&folder, &names, &file)).expect("in UTF-8");
    let open = stream.wait_for("a cut one", |e| {
        let end = e["file.path"].as_str().expect("a path");
        e["file.path.truncated"] == true && path.ends_with(end)
    });
    let end = open["file.path"].as_str().expect("a path");
    assert!(end.ends_with(&file) && end.len() > file.len(), "{open}");
    assert!(!end.starts_with('/'), "{open}");

    // A path with as many components as every kernel can walk.
    let many = vec!["d".to_owned(); 100];
    let path = String::from_utf8(open_deep(&folder, &many, "deep")).expect("in UTF-8");
    let open = stream.wait_for("one in many folders", |e| e["file.path"] == path.as_str());
    assert!(open["file.path.truncated"].is_null(), "{open}");
}
