//! A simulated machine: a file tree, a clock, and files that fail.

use std::cell::Cell;
use std::collections::HashMap;
use std::fmt::Display;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use noctule_model::{Energy, Node, ZoneReading};
use tempfile::TempDir;

use super::super::source::{Attribute, Files, Open};
use super::super::{CpuWatts, Meters, Moment};

/// Files below a root, a clock that the test sets, and the errors of files.
pub(super) struct Machine {
    root: TempDir,
    now_ns: Arc<AtomicU64>,
    suspended_ns: Arc<AtomicU64>,
    faults: Arc<Faults>,
    pub(super) model: Cell<Option<CpuWatts>>,
}

#[derive(Default)]
struct Faults {
    errors: Mutex<HashMap<PathBuf, i32>>,
    /// Lock that a test holds to block reads of hardware monitors.
    gate: Mutex<()>,
}

struct Faulty {
    path: PathBuf,
    inner: Box<dyn Attribute>,
    faults: Arc<Faults>,
}

struct Opener(Arc<Faults>);

impl Faults {
    fn check(&self, path: &Path) -> io::Result<()> {
        match self
            .errors
            .lock()
            .expect("no test panics with it")
            .get(path)
        {
            Some(errno) => Err(io::Error::from_raw_os_error(*errno)),
            None => Ok(()),
        }
    }
}

impl Open for Opener {
    fn open(&self, path: &Path) -> io::Result<Box<dyn Attribute>> {
        self.0.check(path)?;
        Ok(Box::new(Faulty {
            path: path.to_owned(),
            inner: Files.open(path)?,
            faults: self.0.clone(),
        }))
    }
}

impl Attribute for Faulty {
    fn text(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.faults.check(&self.path)?;
        if self.path.to_string_lossy().contains("hwmon") {
            drop(self.faults.gate.lock().expect("no test panics with it"));
        }
        self.inner.text(buffer)
    }
}

impl Machine {
    /// Creates files from lines such as `/path = value`. Other lines are ignored.
    pub(super) fn new(tree: &str) -> Self {
        let machine = Self {
            root: TempDir::new().expect("a folder"),
            now_ns: Arc::new(AtomicU64::new(1_000_000_000_000)),
            suspended_ns: Arc::default(),
            faults: Arc::default(),
            model: Cell::default(),
        };
        for line in tree.lines().filter(|line| line.starts_with('/')) {
            let (path, value) = line.split_once(" = ").expect("`/path = value`");
            machine.write(path, value);
        }
        machine
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path.trim_start_matches('/'))
    }

    pub(super) fn write(&self, path: &str, value: impl Display) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("below the root")).expect("a folder");
        fs::write(path, format!("{value}\n")).expect("written");
    }

    pub(super) fn remove(&self, path: &str) {
        fs::remove_dir_all(self.path(path)).expect("it was there");
    }

    /// Makes reads of this file fail with an error, or succeed again.
    pub(super) fn fail(&self, path: &str, errno: Option<i32>) {
        let mut faults = self.faults.errors.lock().expect("no test panics with it");
        match errno {
            Some(errno) => faults.insert(self.path(path), errno),
            None => faults.remove(&self.path(path)),
        };
    }

    pub(super) fn pass(&self, seconds: u64) {
        self.pass_ns(seconds * 1_000_000_000);
    }

    pub(super) fn pass_ns(&self, ns: u64) {
        self.now_ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// Suspends the machine. The clock of the batches does not advance during the suspension.
    pub(super) fn suspend(&self, seconds: u64) {
        let ns = seconds * 1_000_000_000;
        self.suspended_ns.fetch_add(ns, Ordering::Relaxed);
    }

    pub(super) fn now_ns(&self) -> u64 {
        self.now_ns.load(Ordering::Relaxed)
    }

    /// Blocks reads of hardware monitors until the guard is dropped.
    pub(super) fn hang(&self) -> MutexGuard<'_, ()> {
        self.faults.gate.lock().expect("no test panics with it")
    }

    pub(super) fn meters(&self) -> Meters {
        self.meters_by(false)
    }

    /// Searches for the meters, and uses threads for sensors if `threads` is set.
    pub(super) fn meters_by(&self, threads: bool) -> Meters {
        let (now_ns, suspended_ns) = (self.now_ns.clone(), self.suspended_ns.clone());
        let clock = Arc::new(move || Moment {
            at_ns: now_ns.load(Ordering::Relaxed),
            suspended_ns: suspended_ns.load(Ordering::Relaxed),
        });
        Meters::with(
            self.root.path(),
            clock,
            self.model.get(),
            Arc::new(Opener(self.faults.clone())),
            threads,
        )
    }

    /// Returns a path below the root.
    pub(super) fn inside(&self, path: &str) -> String {
        let root = self.root.path().display().to_string();
        path.replace(&root, "")
    }
}

/// Reads a batch of a machine that has no model.
pub(super) fn read(meters: &mut Meters) -> Option<Energy> {
    meters.read(&Node::default(), 0)
}

pub(super) fn reading<'a>(energy: &'a Energy, name: &str) -> &'a ZoneReading {
    let at = energy.zones.iter().position(|zone| zone.name == name);
    &energy.readings[at.expect("the zone is there")]
}
