//! Settings and figures of a registry.

use std::path::PathBuf;
use std::time::Duration;

/// How a [`crate::Registry`] works.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where the node's root is: `/`, or its mount in the agent's container.
    pub root: PathBuf,
    /// The mount of the hierarchy that the kernel side reads, as this process sees it, e.g.
    /// `/sys/fs/cgroup` or `/sys/fs/cgroup/cpu`.
    pub cgroup_mount: PathBuf,
    /// How long a removed group is remembered.
    pub remember: Duration,
    /// Removed groups that are remembered at most; the first removed go first.
    pub remember_limit: usize,
    /// Memory of all groups together, in bytes. Groups that nobody asked for give way first, then the dead, then those
    /// that nobody asked for lately. A living group is found again by a walk when somebody asks for it.
    pub most_bytes: usize,
    /// The shortest time between two walks that unknown ids cause.
    pub walk_interval: Duration,
    /// What the thread that reads names does first: it may give up rights.
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

/// What a registry did and holds. Counts are since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Groups that are known now, the dead included.
    pub groups: usize,
    /// Searches for names that are not answered yet. One that does not fall for long means a file
    /// system that hangs; groups then keep their raw ids.
    pub searching: usize,
    /// How often a file system did not answer for ten seconds.
    pub hangs: u64,
    /// Walks of the hierarchy, the first one included.
    pub walks: u64,
    /// Walks that could not read the mount or left a part of the tree out.
    pub walks_incomplete: u64,
    /// Ids that were asked for and that no walk found.
    pub unknown: u64,
    /// Dead groups that were forgotten before their time, for want of room.
    pub forgotten_early: u64,
    /// Living groups that nobody had asked for and that were forgotten for want of room.
    pub left_out: u64,
    /// Living groups that somebody had asked for and that were forgotten for want of room.
    pub given_up: u64,
    /// Searches that met a file of no use (damaged, too large, not readable).
    pub files_unusable: u64,
    /// Searches for names that had to wait because the queue was full.
    pub searches_delayed: u64,
}
