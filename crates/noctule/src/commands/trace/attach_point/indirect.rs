//! Indirect functions (GNU IFUNC): the implementations that dynamic linkers selected in running
//! processes.

use std::collections::BTreeSet;
use std::fs::{self, File, Metadata};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

use anyhow::{Context as _, Result};
use noctule_trace::elf::IndirectFunction;

/// The selected implementations of a function.
#[derive(Debug, Default)]
pub(super) struct Chosen {
    /// Offsets of the code in the file. Processes can use different code, for example because of
    /// GLIBC_TUNABLES.
    pub(super) offsets: BTreeSet<u64>,
    /// Other functions that resolve to the same code.
    pub(super) shared_with: BTreeSet<String>,
}

/// Reads the selected implementations from processes of root that have the file loaded.
pub(super) fn chosen(path: &Path, function: &IndirectFunction) -> Result<Chosen> {
    let file = fs::metadata(path).with_context(|| path.display().to_string())?;
    let mut chosen = Chosen::default();
    if function.slots.is_empty() {
        return Ok(chosen);
    }
    let processes = fs::read_dir("/proc").context("/proc")?;
    for process in processes.flatten().map(|entry| entry.path()) {
        // Other entries are not processes. A process may have ended or may be unreadable.
        if is_trusted(&process) == Some(true) {
            let _ = add(&mut chosen, &process, &file, function);
        }
    }
    Ok(chosen)
}

/// Returns whether root owns the process, in noctule's mount and user namespaces. The memory of the
/// process determines at which offset the probe is written in all processes. Another user or a
/// container could choose an offset inside an instruction.
fn is_trusted(process: &Path) -> Option<bool> {
    let status = fs::read_to_string(process.join("status")).ok()?;
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    let own = Path::new("/proc/self");
    let shares = |space: &str| {
        let of = |process: &Path| fs::read_link(process.join("ns").join(space)).ok();
        of(process).is_some_and(|theirs| Some(theirs) == of(own))
    };
    let is_root = ids.split_ascii_whitespace().all(|id| id == "0");
    Some(is_root && shares("mnt") && shares("user"))
}

/// Adds the implementation in this process; `None` if the file is not loaded there.
fn add(
    chosen: &mut Chosen,
    process: &Path,
    file: &Metadata,
    function: &IndirectFunction,
) -> Option<()> {
    let maps = fs::read_to_string(process.join("maps")).ok()?;
    let mut mappings: Vec<_> = maps.lines().filter_map(Mapping::parse).collect();
    mappings.retain(|mapping| mapping.inode == file.ino());
    let is_first = |mapping: &&Mapping<'_>| mapping.offset == 0 && mapping.is_of(process, file);
    let first = mappings.iter().find(is_first)?;
    let memory = File::open(process.join("mem")).ok()?;
    let code = |slot: u64| {
        let mut word = [0; 8];
        let at = first.start.checked_add(slot)?;
        memory.read_exact_at(&mut word, at).ok()?;
        let address = u64::from_ne_bytes(word);
        let holds = |one: &&Mapping<'_>| {
            one.is_code && one.device == first.device && (one.start..one.end).contains(&address)
        };
        let mapping = mappings.iter().find(holds)?;
        Some(address - mapping.start + mapping.offset)
    };
    let own: BTreeSet<_> = function
        .slots
        .iter()
        .filter_map(|slot| code(*slot))
        .collect();
    for (name, slot) in &function.others {
        if code(*slot).is_some_and(|other| own.contains(&other)) {
            chosen.shared_with.insert(name.clone());
        }
    }
    chosen.offsets.extend(own);
    Some(())
}

struct Mapping<'a> {
    start: u64,
    end: u64,
    is_code: bool,
    offset: u64,
    device: &'a str,
    inode: u64,
}

impl<'a> Mapping<'a> {
    /// Parses a line such as `7f12a000-7f12c000 r-xp 00001000 fe:01 1234 /usr/lib/libc.so.6`.
    fn parse(line: &'a str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        Some(Self {
            start: hex(start)?,
            end: hex(end)?,
            is_code: words.next()?.contains('x'),
            offset: hex(words.next()?)?,
            device: words.next()?,
            inode: words.next()?.parse().ok()?,
        })
    }

    /// Returns whether the mapping is of this file. On btrfs and overlayfs, the device in `maps`
    /// differs from the device in `stat`.
    fn is_of(&self, process: &Path, file: &Metadata) -> bool {
        let range = format!("{:x}-{:x}", self.start, self.end);
        let mapped = fs::metadata(process.join("map_files").join(range));
        mapped.is_ok_and(|mapped| (mapped.dev(), mapped.ino()) == (file.dev(), file.ino()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_proc_maps_are_parsed() {
        let line = "7f12a000-7f12c000 r-xp 00001000 fe:01 1234    /usr/lib/a b.so";
        let mapping = Mapping::parse(line).unwrap();
        assert_eq!((mapping.start, mapping.end), (0x7f12_a000, 0x7f12_c000));
        assert_eq!((mapping.offset, mapping.inode), (0x1000, 1234));
        assert!(mapping.is_code);
        let anonymous = Mapping::parse("7ffc000-7ffd000 rw-p 00000000 00:00 0 [stack]").unwrap();
        assert!(!anonymous.is_code && anonymous.inode == 0);
        assert!(Mapping::parse("").is_none());
    }
}
