//! A terminal for `noctule top`, in a separate tmux server.

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// The shell's prompt.
pub(crate) const PROMPT: &str = "ready>";

/// A terminal with a shell. Dropping it ends everything in the terminal.
pub(crate) struct Terminal {
    /// The directory of the socket and the configuration.
    folder: TempDir,
}

impl Terminal {
    /// Creates a terminal of this size, and waits for the shell's prompt.
    pub(crate) fn new(width: u16, height: u16) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = "set -g status off\nset -g default-terminal screen-256color\n";
        fs::write(folder.path().join("conf"), settings).expect("a file");
        let terminal = Self { folder };
        let (width, height) = (width.to_string(), height.to_string());
        let shell = format!("exec env PS1='{PROMPT} ' ENV= sh");
        terminal.tmux(&["new-session", "-d", "-x", &width, "-y", &height, &shell]);
        terminal.wait_for_prompt();
        terminal
    }

    /// Types text and presses Enter.
    pub(crate) fn line(&self, text: &str) {
        self.text(text);
        self.keys(&["Enter"]);
    }

    /// Types text.
    pub(crate) fn text(&self, text: &str) {
        self.tmux(&["send-keys", "-l", "--", text]);
    }

    /// Presses keys, given by tmux's names.
    pub(crate) fn keys(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    /// Returns the screen as text.
    pub(crate) fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Resizes the terminal.
    pub(crate) fn resize(&self, width: u16, height: u16) {
        let (width, height) = (width.to_string(), height.to_string());
        self.tmux(&["resize-window", "-x", &width, "-y", &height]);
    }

    /// Returns a tmux variable of the terminal.
    pub(crate) fn variable(&self, name: &str) -> String {
        let format = format!("#{{{name}}}");
        let value = self.tmux(&["display-message", "-p", &format]);
        value.trim().to_owned()
    }

    /// Waits until the screen satisfies `fits`, and returns it.
    #[track_caller]
    pub(crate) fn wait_for(&self, what: &str, fits: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + Duration::from_secs(120);
        loop {
            let screen = self.screen();
            if fits(&screen) {
                return screen;
            }
            assert!(
                Instant::now() < deadline,
                "no {what} on the screen:\n{screen}"
            );
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until the shell prompts for the next line.
    #[track_caller]
    pub(crate) fn wait_for_prompt(&self) {
        self.wait_for("prompt", |screen| {
            let last = screen.lines().rfind(|line| !line.trim().is_empty());
            last.is_some_and(|line| line.trim_end().ends_with(PROMPT))
        });
    }

    /// Returns the output of a command. The output goes through a file because the screen may be
    /// too narrow.
    pub(crate) fn output_of(&self, command: &str) -> String {
        let done = self.folder.path().join("done");
        let folder = self.folder.path().display();
        self.line(&format!(
            "{command} >{folder}/out 2>&1; mv {folder}/out {folder}/done"
        ));
        self.wait_for(&format!("end of {command}"), |_| done.exists());
        let text = fs::read_to_string(&done).expect("its output");
        fs::remove_file(&done).expect("ours");
        text
    }

    /// Returns the process in the foreground of the shell.
    pub(crate) fn child(&self) -> u32 {
        let shell = self.variable("pane_pid");
        let list = fs::read_to_string(format!("/proc/{shell}/task/{shell}/children"));
        let list = list.expect("CONFIG_PROC_CHILDREN");
        let first = list.split_whitespace().next();
        let first = first.expect("the shell runs something");
        first.parse().expect("a pid")
    }

    fn tmux(&self, args: &[&str]) -> String {
        let output = self.command(args).output().expect("tmux is installed");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "tmux {args:?}: {errors}");
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("tmux");
        command
            .arg("-u")
            .arg("-S")
            .arg(self.folder.path().join("socket"))
            .arg("-f")
            .arg(self.folder.path().join("conf"))
            .args(args)
            .env_remove("TMUX")
            .env("LC_ALL", "C.UTF-8")
            .stdin(Stdio::null());
        command
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The server may have ended by itself.
        let _ = self.command(&["kill-server"]).output();
    }
}
