//! Hostile names of processes and groups.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::atomic::{AtomicU32, Ordering};

use super::burner::Burner;
use super::cgroup;
use super::folders::Made;
use super::hierarchies;

/// Command names of at most 15 bytes: quotes, escapes, control characters, a label, C1 codes,
/// invalid UTF-8, a direction override, and text that resembles other formats' escapes.
pub(crate) const NAMES: &[&[u8]] = &[
    b"quo\"te",
    b"back\\slash\\n",
    b"line\nfeed",
    b"tab\tcr\r",
    b"\x1b[31mred",
    b"\\u{1b}[31mred",
    b"{a=\"b\"} 1",
    b"# EOF",
    b" blank ",
    b"bell\x07del\x7f",
    b"csi\xc2\x9b31m",
    b"bidi\xe2\x80\xaeoverride",
    b"line\xe2\x80\xa8sep",
    b"not\xffutf8",
];

/// Returns whether a terminal must never get the character: controls, and characters that change
/// how a line is drawn.
pub(crate) fn obeyed(c: char) -> bool {
    let unseen = "\u{61c}\u{200b}\u{200e}\u{200f}\u{2028}\u{2029}\u{202a}\u{202b}\u{202c}\u{202d}\
        \u{202e}\u{2066}\u{2067}\u{2068}\u{2069}\u{feff}";
    (c.is_control() && c != '\n') || unseen.contains(c)
}

/// A process and a group with each of the names, ended and removed when dropped. The processes use
/// only CPU time that would otherwise be idle.
pub(crate) struct Hostile {
    burners: Vec<(&'static [u8], Burner)>,
    /// The names that have a group.
    pub(crate) groups: Vec<&'static [u8]>,
    /// Prefix of each group's name.
    pub(crate) prefix: String,
    // This field is dropped after the processes, because they must have ended when the groups are
    // removed.
    made: Made,
}

impl Hostile {
    pub(crate) fn start() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let mut hostile = Self {
            burners: Vec::new(),
            groups: Vec::new(),
            prefix: format!("noctule-test-{}-hostile-{number}-", std::process::id()),
            made: Made::default(),
        };
        let mount = hierarchies::with("cpu").mount;
        for name in NAMES {
            let burner = Burner::named(name).last();
            let group = [hostile.prefix.as_bytes(), *name].concat();
            let folder = mount.join(OsStr::from_bytes(&group));
            // The kernel accepts all names except those with a line feed.
            if name.contains(&b'\n') {
                let made = fs::create_dir(&folder);
                made.expect_err("names of cgroups have no line feed");
            } else {
                hostile.made.make(&folder);
                cgroup::weigh(&folder, 1);
                let pid = burner.pid().to_string();
                fs::write(folder.join("cgroup.procs"), pid).expect("it can be moved");
                hostile.groups.push(name);
            }
            hostile.burners.push((name, burner));
        }
        hostile
    }

    /// Returns name and pid of each process.
    pub(crate) fn processes(&self) -> impl Iterator<Item = (&'static [u8], u32)> {
        self.burners
            .iter()
            .map(|(name, burner)| (*name, burner.pid()))
    }
}
