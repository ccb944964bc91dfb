//! Tests the commands in the cookbook and the examples in the output of `--help`.

use std::process::{Command, Output, Stdio};

use super::support::{self, NOCTULE};

const COOKBOOK: &str = include_str!("../docs/trace.md");

/// Runs a shell line for a short time.
fn run(line: &str) -> Output {
    let mut line = line.replace("--for 5s", "--for 200ms");
    if !line.contains("--for") && !line.starts_with("noctule probes") {
        line += " --for 200ms";
    }
    let rest = line.strip_prefix("noctule ").expect("a command of ours");
    let output = Command::new("sh")
        .args(["-c", &format!("exec {NOCTULE} {rest}")])
        .stdin(Stdio::null())
        .output();
    output.expect("there is a shell")
}

/// Checks that the line works, or that it reports missing kprobes on a kernel without them.
fn check(line: &str) {
    let output = run(line);
    let errors = String::from_utf8_lossy(&output.stderr);
    let text = String::from_utf8_lossy(&output.stdout);
    if line.contains("kprobe:") || line.contains("kretprobe:") {
        let none = errors.contains("this kernel has no kprobes");
        assert!(output.status.success() || none, "{line}: {errors}");
        return;
    }
    assert!(output.status.success(), "{line}: {errors}");
    if line.starts_with("noctule hist") && !line.contains("--graph") {
        assert!(text.contains("Totals:"), "{line}: {text}");
    }
}

/// Returns the indented lines that start with `begin`.
fn lines<'a>(text: &'a str, begin: &'a str) -> impl Iterator<Item = &'a str> {
    let indented = text.lines().filter(|line| line.starts_with("  "));
    indented
        .map(str::trim)
        .filter(move |line| line.starts_with(begin))
}

#[test]
fn every_cookbook_command_works() {
    let _machine = support::shared();
    needs!("cpu_time");
    let (_, cookbook) = COOKBOOK.split_once("\n# Cookbook\n").expect("it is there");
    let all: Vec<_> = lines(cookbook, "noctule ").collect();
    let questions = cookbook.lines().filter(|line| line.ends_with('?'));
    assert!(questions.count() >= 30, "{all:?}");
    for line in all {
        check(line);
    }
}

#[test]
fn every_help_example_works() {
    let _machine = support::shared();
    needs!("cpu_time");
    for command in ["hist", "trace", "trigger", "probes"] {
        let output = support::noctule(&[command, "--help"]);
        let help = String::from_utf8_lossy(&output.stdout).into_owned();
        let begin = format!("noctule {command} ");
        let examples: Vec<_> = lines(&help, &begin).collect();
        assert!(examples.len() >= 2, "{command}: {help}");
        for line in examples {
            check(line);
        }
    }
}
