//! Runs one virtual machine.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use noctule_vm::{JOB, Job, MODULES, Message, PORT};

use super::architecture::Architecture;
use super::cpio::Archive;
use super::emulator::Emulator;
use super::kernel::Fetched;
use super::modules::{self, Module};
use super::report::Report;
use super::sensors::{self, Sensors};

/// How long a machine may be silent before it counts as stuck. A machine sends a message every few
/// seconds of its own time. On a busy host, instruction counting can make its clock twenty times
/// slower.
const STALL: Duration = Duration::from_secs(240);

/// Maximum number of console lines to show if a machine fails.
const CONSOLE: usize = 100;

/// The settings of a machine.
pub(super) struct Setup<'a> {
    pub(super) architecture: &'a Architecture,
    /// The emulator's option for the CPUs.
    pub(super) cpus: &'a str,
    pub(super) emulator: &'a Emulator,
    pub(super) init: &'a Path,
    /// The disk image. The image is read-only, so changes that a machine makes are discarded.
    pub(super) disk: &'a Path,
    /// Temporary files of the machines.
    pub(super) folder: &'a Path,
    pub(super) job: &'a Job,
    /// The modules of this repository, which are loaded after all others.
    pub(super) modules: &'a [Module],
    pub(super) sensors: Option<&'a Sensors>,
    /// Maximum run time of a machine.
    pub(super) limit: Duration,
}

/// Boots the kernel and follows the machine until it ends.
pub(super) fn run(name: &'static str, kernel: &Fetched, setup: &Setup<'_>) -> Result<Report> {
    let began = Instant::now();
    let first = setup.folder.join(format!("{name}.cpio"));
    fs::write(&first, build_initramfs(kernel, setup)?)?;
    let console = setup.folder.join(format!("{name}.console"));
    let monitor = setup.folder.join(format!("{name}.monitor"));
    let files = [&first, &console, &monitor].map(|path| path.display().to_string());
    let mut child = Machine(start(kernel, setup, &files)?);
    let messages = receive_messages(
        child
            .0
            .stdout
            .take()
            .context("the emulator has no output")?,
    );
    let mut report = Report::new(name, &kernel.release);
    let problem = follow(&messages, began + setup.limit, &mut report);
    if problem.is_some() {
        interrupt(&monitor);
    }
    drop(child);
    let text = fs::read(&console).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    report.complete(problem, began.elapsed(), &text, CONSOLE);
    Ok(report)
}

/// A virtual machine. Dropping this value kills and reaps the emulator.
struct Machine(Child);

impl Drop for Machine {
    fn drop(&mut self) {
        // The machine may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn build_initramfs(kernel: &Fetched, setup: &Setup<'_>) -> Result<Vec<u8>> {
    let mut archive = Archive::new();
    archive.file("init", &fs::read(setup.init)?);
    let mut job = setup.job.clone();
    archive.folder(MODULES.trim_start_matches('/'));
    let wanted = setup.sensors.map_or(&[][..], |_| sensors::MODULES);
    let modules = modules::read(&kernel.modules, wanted)?;
    for module in modules.iter().chain(setup.modules) {
        let path = format!("{MODULES}/{}", module.name);
        archive.file(path.trim_start_matches('/'), &module.bytes);
        job.modules.push(match sensors::parameters(&module.name) {
            Some(parameters) => format!("{} {parameters}", module.name),
            None => module.name.clone(),
        });
    }
    let release = ("NOCTULE_RELEASE".to_owned(), kernel.release.clone());
    job.environment.push(release);
    archive.file(JOB.trim_start_matches('/'), &serde_json::to_vec(&job)?);
    Ok(archive.finish())
}

fn start(kernel: &Fetched, setup: &Setup<'_>, files: &[String; 3]) -> Result<Child> {
    let [first, console, monitor] = files;
    let file = |path: &Path| path.display().to_string();
    let disk = format!(
        "file={},if=none,id=disk,format=raw,snapshot=on",
        file(setup.disk)
    );
    // A panic ends the machine immediately, after printing the state of each CPU (panic_print).
    let line = format!(
        "console={} loglevel=5 panic=-1 oops=panic unknown_nmi_panic panic_print=64 \
        tsc=reliable mitigations=off",
        setup.architecture.console
    );
    let mut command = setup.emulator.command()?;
    command
        .args(setup.architecture.machine)
        .args(["-smp", setup.cpus, "-m", "1024M"])
        .args(["-nodefaults", "-no-user-config"])
        .args(["-no-reboot", "-display", "none", "-nic", "none"])
        .args(["-kernel", &file(&kernel.image), "-initrd", first])
        .args(["-append", &line, "-serial", &format!("file:{console}")])
        .args(["-drive", &disk, "-device", "virtio-blk-pci,drive=disk"])
        .args(setup.sensors.iter().flat_map(|it| it.arguments()))
        .args(["-monitor", &format!("unix:{monitor},server=on,wait=off")])
        .args(["-chardev", "stdio,id=results,signal=off"])
        .args(["-device", "virtio-serial-pci", "-device"])
        .arg(format!("virtserialport,chardev=results,name={PORT}"))
        .env("TMPDIR", setup.folder)
        // The emulator would close the port when its input closes.
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command.spawn().context("starting the emulator")
}

/// Makes a stuck machine panic and print the state of its CPUs on the console. Has no effect if the
/// machine has ended.
fn interrupt(monitor: &Path) {
    if let Ok(mut stream) = UnixStream::connect(monitor) {
        let _ = stream.write_all(b"nmi\n");
        thread::sleep(Duration::from_secs(5));
    }
}

fn receive_messages(output: ChildStdout) -> Receiver<Message> {
    // The receiver handles each message immediately, so the channel stays short.
    let (sender, messages) = channel();
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            let message = serde_json::from_str(&line);
            let message = message.unwrap_or(Message::Said(line));
            if sender.send(message).is_err() {
                return;
            }
        }
    });
    messages
}

/// Records the machine's messages until it is done. Returns the problem if it stops earlier.
fn follow(messages: &Receiver<Message>, deadline: Instant, report: &mut Report) -> Option<String> {
    loop {
        if Instant::now() > deadline {
            return Some("took too long".into());
        }
        match messages.recv_timeout(STALL) {
            Ok(Message::Done) => return None,
            Ok(Message::Broken(why)) => return Some(why),
            Ok(message) => report.note(message),
            Err(RecvTimeoutError::Timeout) => {
                return Some(format!("silent for {} s", STALL.as_secs()));
            }
            Err(RecvTimeoutError::Disconnected) => return Some("ended by itself".into()),
        }
    }
}
