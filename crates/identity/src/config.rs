//! Settings and statistics of a registry.

use std::path::PathBuf;
use std::time::Duration;

/// Settings of a [`crate::Registry`].
#[derive(Clone, Debug)]
pub struct Config {
    /// Root of the node: `/`, or its mount point in the agent's container.
    pub root: PathBuf,
    /// Mount point of the hierarchy that the kernel side reads, as this process sees it, e.g.
    /// `/sys/fs/cgroup` or `/sys/fs/cgroup/cpu`.
    pub cgroup_mount: PathBuf,
    /// How long a removed group is remembered.
    pub remember: Duration,
    /// Maximum number of removed groups that are remembered. When the limit is reached, the group
    /// that was removed first is dropped first.
    pub remember_limit: usize,
    /// Memory limit of all groups together, in bytes. Live groups that were never requested are
    /// dropped first. Removed groups follow, and then the groups whose last request is longest ago.
    /// A live group that was dropped is found again by a walk when it is requested.
    pub most_bytes: usize,
    /// Minimum time between two walks caused by unknown ids.
    pub walk_interval: Duration,
    /// Called by each thread that reads names, before anything else. The function may drop
    /// privileges.
    pub on_thread: fn(),
}

impl Default for Config {
    fn default() -> Self {
        Self {
            root: "/".into(),
            cgroup_mount: "/sys/fs/cgroup".into(),
            remember: Duration::from_secs(300),
            remember_limit: 16_384,
            most_bytes: 8 << 20,
            walk_interval: Duration::from_secs(1),
            on_thread: || {},
        }
    }
}

/// Statistics of a registry. Counts start at the creation of the registry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Groups that are known, including removed ones.
    pub groups: usize,
    /// Pending searches for names. If this number stays high for long, a file system hangs, and
    /// groups keep their raw ids.
    pub searching: usize,
    /// How often a file system did not respond for ten seconds.
    pub hangs: u64,
    /// Walks of the hierarchy, including the first one.
    pub walks: u64,
    /// Walks that could not read the mount or had to skip a subtree.
    pub walks_incomplete: u64,
    /// Ids that were requested but that no walk found.
    pub unknown: u64,
    /// Removed groups that were dropped early for lack of room.
    pub forgotten_early: u64,
    /// Live groups that were never requested and were dropped for lack of room.
    pub left_out: u64,
    /// Live groups that had been requested and were dropped for lack of room.
    pub given_up: u64,
    /// Searches that found an unusable file (damaged, too large, not readable).
    pub files_unusable: u64,
    /// Searches for names that had to wait because the queue was full.
    pub searches_delayed: u64,
}
