//! Options for file events, and functions that prepare the object.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use libbpf_rs::skel::OpenSkel;

use super::ways::Target;
use crate::error::{Context, Error, ErrorKind};
use crate::events::SharedMaps;
use crate::facts::Facts;
use crate::kernel_types;
use crate::settings::configure;
use crate::skel::files::{FilesSkelBuilder, OpenFilesSkel, types};

/// Selects the opens to report. The BPF programs apply all these options.
#[derive(Clone, Copy, Debug)]
pub struct FileOptions<'a> {
    /// Include read-only opens, whether or not they create the file.
    pub reads: bool,
    /// Include failed opens and changes.
    pub failures: bool,
    /// Include devices and kernel interfaces (/proc, /sys and similar). A file that could not be
    /// opened is recognized by its name: below /dev, /proc or /sys.
    pub special: bool,
    /// Only this path and paths below it, as the process sees them. The name of a file that could
    /// not be opened is compared as the process passed it.
    pub prefix: Option<&'a Path>,
    /// Send a record for each open and change. Otherwise opens are only counted, and changes are
    /// not seen.
    pub stream: bool,
    /// Include only processes in the table `followed`.
    pub filter_processes: bool,
    /// Include only cgroups in the table `wanted_cgroups`.
    pub filter_cgroups: bool,
    /// Size of the ring buffer, rounded up to a power of two.
    pub ring_bytes: u32,
    /// Maximum number of cgroup rows.
    pub rows: u32,
}

impl Default for FileOptions<'_> {
    fn default() -> Self {
        Self {
            reads: false,
            failures: false,
            special: false,
            prefix: None,
            stream: true,
            filter_processes: false,
            filter_cgroups: false,
            ring_bytes: 8 << 20,
            rows: 8192,
        }
    }
}

/// Maximum length of the prefix in the BPF program.
const PREFIX_MAX: usize = types::file_prefix::PREFIX_BYTES.0 as usize - 1;

impl FileOptions<'_> {
    /// Returns the prefix without trailing slashes; empty for all paths.
    ///
    /// # Errors
    ///
    /// Fails if the prefix is not absolute, or too long.
    pub fn prefix_bytes(&self) -> Result<Vec<u8>, Error> {
        let Some(path) = self.prefix else {
            return Ok(Vec::new());
        };
        let bytes = path.as_os_str().as_bytes();
        let end = bytes
            .iter()
            .rposition(|&b| b != b'/')
            .map_or(0, |at| at + 1);
        let problem = if !path.is_absolute() {
            "does not start with a slash"
        } else if end > PREFIX_MAX {
            "is longer than 255 bytes"
        } else {
            return Ok(bytes[..end].to_vec());
        };
        let words = format!("the path prefix {} {problem}", path.display());
        Err(Error::new(ErrorKind::Other, words))
    }
}

/// Opens the object with the programs of `targets`, and applies all settings before it is loaded.
pub(super) fn open(
    facts: &Facts,
    options: &FileOptions<'_>,
    prefix: &[u8],
    shared: Option<SharedMaps<'_>>,
    targets: &[Target],
) -> Result<OpenFilesSkel<'static>, Error> {
    let mut open = kernel_types::open::<FilesSkelBuilder>(&facts.kernel_types)
        .context("opening the BPF object `files`")?;
    if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
        set(rodata, facts, options, prefix);
    }
    configure!(open, facts).context("setting up the BPF object `files`")?;
    size(&mut open, options).context("sizing the maps")?;
    if let Some(shared) = shared {
        let reused = open
            .maps
            .followed
            .reuse_fd(shared.followed)
            .and_then(|()| open.maps.wanted_cgroups.reuse_fd(shared.wanted_cgroups));
        reused.context("sharing the filter maps")?;
    }
    for mut program in open.open_object_mut().progs_mut() {
        let chosen = targets.iter().any(|t| program.name() == t.program);
        program.set_autoload(chosen);
    }
    Ok(open)
}

fn set(rodata: &mut types::rodata, facts: &Facts, options: &FileOptions<'_>, prefix: &[u8]) {
    use types::event_kind as kind;
    let kinds = [
        kind::EVENT_FILE_OPEN,
        kind::EVENT_FILE_DELETE,
        kind::EVENT_FILE_RENAME,
        kind::EVENT_FILE_LINK,
        kind::EVENT_FILE_CHMOD,
    ];
    rodata.with_reads = options.reads;
    rodata.with_failures = options.failures;
    rodata.with_special = options.special;
    rodata.filter_processes = options.filter_processes;
    rodata.filter_cgroups = options.filter_cgroups;
    if options.stream {
        rodata.stream_kinds = kinds.iter().fold(0, |bits, one| bits | 1 << one.0);
    }
    for (to, &byte) in rodata.path_prefix.iter_mut().zip(prefix) {
        *to = byte as _;
    }
    rodata.path_prefix_length = prefix.len() as u32;
    // In a pid namespace, the agent's pid differs from the pid that the kernel uses.
    if !facts.pid_namespace {
        rodata.agent_pid = std::process::id() as i32;
    }
}

fn size(
    open: &mut OpenFilesSkel<'static>,
    options: &FileOptions<'_>,
) -> Result<(), libbpf_rs::Error> {
    let page = rustix::param::page_size() as u32;
    let ring = if options.stream {
        options.ring_bytes
    } else {
        page
    };
    open.maps
        .bulk
        .set_max_entries(ring.max(page).next_power_of_two())?;
    open.maps.file_rows.set_max_entries(options.rows.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(prefix: Option<&str>) -> Result<Vec<u8>, Error> {
        let options = FileOptions {
            prefix: prefix.map(Path::new),
            ..FileOptions::default()
        };
        options.prefix_bytes()
    }

    #[test]
    fn trailing_slashes_of_a_prefix_are_removed() {
        let cases: [(&str, &[u8]); 4] = [
            ("/", b""),
            ("/var/log", b"/var/log"),
            ("/var/log//", b"/var/log"),
            ("/a b\n", b"/a b\n"),
        ];
        for (prefix, wanted) in cases {
            let found = bytes(Some(prefix)).expect("a prefix");
            assert_eq!(found, wanted, "{prefix}");
        }
        assert_eq!(bytes(None).expect("none"), b"");
    }

    #[test]
    fn relative_and_long_prefixes_are_refused() {
        for prefix in ["var/log", &format!("/{}", "x".repeat(255))] {
            assert!(bytes(Some(prefix)).is_err(), "{prefix}");
        }
        let longest = format!("/{}/", "x".repeat(254));
        assert!(bytes(Some(&longest)).is_ok());
    }
}
