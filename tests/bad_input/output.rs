//! Tests of output to files, pipes and commands.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use super::{NOCTULE, assert_says, ended, failure, support, wait_for_end};

#[test]
fn a_full_disk_is_a_failure_that_names_the_file() {
    let _machine = support::shared();
    for format in [&[][..], &["--json"]] {
        let args = [&["stat", "--for", "100ms", "-o", "/dev/full"], format].concat();
        let (code, said) = failure(&args);
        assert_eq!(code, 1, "{said}");
        assert_says(&said, &["/dev/full", "No space left"]);
    }
    for args in [
        &["stat", "--for", "100ms"][..],
        &["doctor"],
        &["man"],
        &["--help"],
        &["-V"],
    ] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full");
        let output = Command::new(NOCTULE)
            .args(args)
            .stdin(Stdio::null())
            .stdout(full.expect("/dev/full"))
            .output()
            .expect("the binary can be started");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
        assert_says(&said, &["No space left"]);
    }
}

#[test]
fn unwritable_event_file_is_an_error_with_a_fix() {
    let _machine = support::shared();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("none/events");
    let file = file.to_str().expect("UTF-8");
    let (code, said) = failure(&["run", "--listen", "127.0.0.1:0", "--events", file]);
    assert_eq!(code, 1, "{said}");
    assert_says(&said, &[file, "--events", "No such file"]);
}

#[test]
fn missing_folder_is_reported_before_measuring() {
    let _machine = support::shared();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("none/answer");
    let file = file.to_str().expect("UTF-8");
    // If the command first measured for an hour, the test would time out.
    let (code, said) = failure(&["stat", "--for", "1h", "-o", file]);
    assert_eq!(code, 1, "{said}");
    assert_says(&said, &[file, "No such file"]);
    let mark = folder.path().join("mark");
    let mark_text = mark.to_str().expect("UTF-8");
    let (code, _) = failure(&["stat", "-o", file, "--", "touch", mark_text]);
    assert_eq!(code, 1);
    assert!(!mark.exists(), "the command was run");
}

#[test]
fn output_file_gets_the_answer_and_not_the_command_output() {
    let _machine = support::shared();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("answer.json");
    let path = file.to_str().expect("UTF-8");
    let args = [
        "stat",
        "--log=error",
        "--json",
        "-o",
        path,
        "--",
        "sh",
        "-c",
        "echo out; echo err >&2",
    ];
    let output = ended(Command::new(NOCTULE).args(args));
    assert!(output.status.success());
    assert_eq!(
        (output.stdout, output.stderr),
        (b"out\n".to_vec(), b"err\n".to_vec())
    );
    let answer = fs::read(&file).expect("the answer");
    let answer: serde_json::Value = serde_json::from_slice(&answer).expect("JSON");
    assert!(!answer["rows"].as_array().expect("rows").is_empty());
}

#[test]
fn a_broken_pipe_is_a_success() {
    let _machine = support::shared();
    let cases: &[&[&str]] = &[
        &["stat", "--for", "500ms", "--by", "process"],
        &["stat", "--for", "500ms", "--by", "process", "--json"],
        &["run", "--for", "500ms", "--listen", "127.0.0.1:0"],
        &["doctor"],
        &["doctor", "--json"],
        &["completions", "zsh"],
        &["man"],
        &["--help"],
    ];
    for args in cases {
        // A warning about hidden processes would be legitimate.
        let mut child = Command::new(NOCTULE)
            .args(["--log", "error"])
            .args(*args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary can be started");
        // Closes the read end of the pipe.
        drop(child.stdout.take());
        let status = wait_for_end(&mut child);
        let output = child.wait_with_output().expect("our child");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            status.success() && said.is_empty(),
            "{args:?}: {status}\n{said}"
        );
    }
    let pipe = format!("{NOCTULE} stat --for 1s --by process | head -1; echo ${{PIPESTATUS[0]}}");
    let output = ended(Command::new("bash").args(["-c", &pipe]));
    let said = String::from_utf8(output.stdout).expect("UTF-8");
    let lines: Vec<&str> = said.lines().collect();
    assert!(
        lines.len() == 2 && lines[0].contains("CPU%") && lines[1] == "0",
        "{said}"
    );
}

#[test]
fn the_commands_own_status_is_passed_on() {
    let _machine = support::shared();
    let cases: &[(&[&str], i32)] = &[
        (&["true"], 0),
        (&["false"], 1),
        (&["sh", "-c", "exit 7"], 7),
        (&["sh", "-c", "exit 255"], 255),
        (&["sh", "-c", "kill -TERM $$"], 143),
        (&["sh", "-c", "kill -KILL $$"], 137),
    ];
    for (command, expected) in cases {
        let args = [&["stat", "--"], *command].concat();
        let output = ended(Command::new(NOCTULE).args(&args));
        assert_eq!(output.status.code(), Some(*expected), "{command:?}");
        let table = String::from_utf8(output.stderr).expect("UTF-8");
        assert_says(&table, &["(exited)", "CPUs"]);
    }
    // noctule passes the status on even if no process reads the output any more.
    let mut child = Command::new(NOCTULE)
        .args(["stat", "--", "sh", "-c", "exit 7"])
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary can be started");
    drop(child.stderr.take());
    assert_eq!(wait_for_end(&mut child).code(), Some(7));
}

/// As with `perf stat`, a pipe after the command gets only what the command prints.
#[test]
fn standard_output_belongs_to_the_command() {
    let _machine = support::shared();
    let cases: &[(&[&str], &str)] = &[
        (&["stat", "--"], "CPU%"),
        (&["stat", "--json", "--"], "\"window_seconds\""),
        (&["waits", "--"], "verdict"),
        (&["waits", "--json", "--"], "\"window_seconds\""),
        (&["events", "--"], "exec"),
        (&["events", "--json", "--"], "\"process.exec\""),
    ];
    for (args, report) in cases {
        let args = [*args, &["sh", "-c", "echo out"]].concat();
        let output = ended(Command::new(NOCTULE).args(&args));
        assert!(output.status.success(), "{args:?}");
        assert_eq!(output.stdout, b"out\n", "{args:?}");
        assert_says(&String::from_utf8_lossy(&output.stderr), &[report]);
    }
}

#[test]
fn unrunnable_command_is_named() {
    let _machine = support::shared();
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str, mode: u32| {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("our file");
        fs::set_permissions(&path, Permissions::from_mode(mode)).expect("our file");
        path.to_str().expect("UTF-8").to_owned()
    };
    let neither = "neither a program nor a script";
    let missing = folder.path().join("none");
    let cases = [
        ("no-such-command-anywhere", 127, "No such file"),
        (missing.to_str().expect("UTF-8"), 127, "No such file"),
        ("/", 126, "Permission denied"),
        (
            &file("not-to-be-run", neither, 0o644),
            126,
            "Permission denied",
        ),
        (
            &file("no-program", neither, 0o755),
            126,
            "Exec format error",
        ),
        (&file("no-shell", "#!/none/sh\n", 0o755), 126, "interpreter"),
    ];
    for (command, status, words) in cases {
        let (code, said) = failure(&["stat", "--", command]);
        assert_eq!(code, status, "{said}");
        assert_says(&said, &[command, words]);
    }
}
