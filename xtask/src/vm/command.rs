//! Runs system programs.

use std::process::{Command, Output, Stdio};

use anyhow::{Context as _, Result, bail};

/// Runs the command and shows its output only if it fails.
pub(super) fn quiet(command: &mut Command) -> Result<()> {
    run(command).map(|_| ())
}

/// Runs the command and returns its output.
pub(super) fn output(command: &mut Command) -> Result<String> {
    let output = run(command)?;
    String::from_utf8(output.stdout).with_context(|| name(command))
}

/// Runs the command and returns its output as bytes.
pub(super) fn bytes(command: &mut Command) -> Result<Vec<u8>> {
    Ok(run(command)?.stdout)
}

fn run(command: &mut Command) -> Result<Output> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("starting {}", name(command)))?;
    if !output.status.success() {
        let words = [output.stdout, output.stderr].concat();
        let words = String::from_utf8_lossy(&words);
        bail!("{}: {}\n{}", name(command), output.status, words.trim());
    }
    Ok(output)
}

fn name(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}
