//! The kernel's own tracing, as a reference. tracefs is mounted where only the test sees it.

use std::fs;
use std::io::Write as _;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::thread;

use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

/// A mount of tracefs that is in no directory tree, unmounted when dropped.
pub(crate) struct Tracefs(OwnedFd);

impl Tracefs {
    pub(crate) fn mount() -> Self {
        let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC).expect("tracefs");
        fsconfig_create(context.as_fd()).expect("tracefs");
        let flags = FsMountFlags::FSMOUNT_CLOEXEC;
        let mount = fsmount(context.as_fd(), flags, MountAttrFlags::empty());
        Self(mount.expect("the test runs as root"))
    }

    /// Returns the path of a file in the mount. The path is valid until this value is dropped.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        Path::new(&format!("/proc/self/fd/{}", self.0.as_raw_fd())).join(path)
    }

    pub(crate) fn read(&self, path: &str) -> String {
        let text = fs::read(self.path(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
        String::from_utf8_lossy(&text).into_owned()
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        fs::write(self.path(path), text).unwrap_or_else(|e| panic!("{path}: {text}: {e}"));
    }

    /// Appends a line to a file that holds a list of commands.
    pub(crate) fn append(&self, path: &str, line: &str) {
        let file = fs::OpenOptions::new().append(true).open(self.path(path));
        // A single write is needed, because some of these files parse each write as a command.
        let written = file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
        written.unwrap_or_else(|e| panic!("{path}: {line}: {e}"));
    }
}

/// A buffer of the kernel's own tracing for one test, removed when dropped.
pub(crate) struct Instance<'a> {
    tracefs: &'a Tracefs,
    name: String,
}

impl<'a> Instance<'a> {
    pub(crate) fn make(tracefs: &'a Tracefs, name: &str) -> Self {
        let name = format!("instances/{name}-{}", std::process::id());
        fs::create_dir(tracefs.path(&name)).expect("an instance");
        let instance = Self { tracefs, name };
        // Shows raw addresses. Since 5.12 the kernel hashes addresses.
        if instance.read("trace_options").contains("hash-ptr") {
            instance.write("trace_options", "nohash-ptr");
        }
        instance.write("buffer_size_kb", "8192");
        instance
    }

    /// Returns the name of the instance's directory in tracefs.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        self.tracefs.write(&format!("{}/{path}", self.name), text);
    }

    pub(crate) fn read(&self, path: &str) -> String {
        self.tracefs.read(&format!("{}/{path}", self.name))
    }

    /// Returns event and text of each line of the trace, in the kernel's order. For a system call,
    /// the kernel prints a single text without an event name.
    pub(crate) fn lines(&self) -> Vec<String> {
        let text = |line: &str| {
            // `   comm-pid   [001] d..1.  123.456789: event: text`. A name can contain anything.
            let cpu = line.find(" [0")?;
            let (_, text) = line[cpu..].split_once(": ")?;
            Some(text.trim_end().to_owned())
        };
        let trace = self.read("trace");
        let lines = trace.lines().filter(|line| !line.starts_with('#'));
        lines.filter_map(text).collect()
    }
}

impl Drop for Instance<'_> {
    fn drop(&mut self) {
        let _ = fs::write(self.tracefs.path(&format!("{}/set_event", self.name)), "");
        let removed = fs::remove_dir(self.tracefs.path(&self.name));
        if !thread::panicking() {
            removed.expect("the instance goes with its triggers");
        }
    }
}
