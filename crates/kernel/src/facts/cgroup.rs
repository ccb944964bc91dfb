//! Finds the cgroup hierarchy to count: v2 if it controls the CPU, otherwise the hierarchy of the
//! v1 cpu controller.

use std::fs;
use std::path::{Path, PathBuf};

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{Composite, Enum, MemberAttr};

use crate::error::{Context as _, Error, ErrorKind};

/// Version of the cgroup hierarchy that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupVersion {
    /// The unified hierarchy.
    V2,
    /// The hierarchy of the v1 cpu controller (also on hybrid hosts).
    V1,
}

/// The hierarchy whose cgroups are counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    pub version: CgroupVersion,
    /// Id as in /proc/self/cgroup; 0 for v2.
    pub id: i32,
    /// Mount point. If it is `None`, cgroups have ids but no paths.
    pub mount: Option<PathBuf>,
}

impl Hierarchy {
    /// Reads the mounts and /proc/self/cgroup from this mount of procfs, and determines the
    /// hierarchy. On hybrid hosts every task can be in the root of v2, so v2 is used only if no v1
    /// hierarchy has the cpu controller.
    pub fn probe(proc: &Path) -> Self {
        let membership = fs::read_to_string(proc.join("self/cgroup")).unwrap_or_default();
        let mounts = fs::read_to_string(proc.join("self/mountinfo")).unwrap_or_default();
        Self::decide(&membership, &mounts)
    }

    /// Returns the offsets that lead from `struct task_struct` to the id of the thread's cgroup in
    /// the hierarchy of the cpu controller. Each offset except the last leads to the next pointer.
    ///
    /// # Errors
    ///
    /// Fails if the kernel lacks BTF, or has other types.
    pub fn id_from_thread() -> Result<Vec<u32>, Error> {
        let btf = Btf::from_vmlinux().context("reading the kernel's BTF")?;
        let missing = || {
            let words = "the kernel's BTF does not lead from a thread to its cgroup";
            Error::new(ErrorKind::Kernel, words)
        };
        // The path in the kernel: task->cgroups->subsys[cpu]->cgroup->kn->id.
        let steps = [
            ("task_struct", "cgroups", 0),
            (
                "css_set",
                "subsys",
                cpu_controller(&btf).ok_or_else(missing)?,
            ),
            ("cgroup_subsys_state", "cgroup", 0),
            ("cgroup", "kn", 0),
            ("kernfs_node", "id", 0),
        ];
        let offsets = steps.into_iter().map(|(composite, member, element)| {
            let composite = btf.type_by_name::<Composite<'_>>(composite)?;
            Some(offset(&btf, &composite, member)? + 8 * element)
        });
        offsets.collect::<Option<_>>().ok_or_else(missing)
    }

    /// Returns the version and the mount point of the hierarchy with a controller. Reads them from
    /// procfs, which is mounted at `proc`.
    pub fn mount_of(proc: &Path, controller: &str) -> Option<(CgroupVersion, PathBuf)> {
        let mounts = fs::read_to_string(proc.join("self/mountinfo")).unwrap_or_default();
        let has_it = |options: &str| options.split(',').any(|option| option == controller);
        let v1 = mount(&mounts, "cgroup", has_it).map(|path| (CgroupVersion::V1, path));
        let v2 = || mount(&mounts, "cgroup2", |_| true).map(|path| (CgroupVersion::V2, path));
        v1.or_else(v2)
    }

    fn decide(membership: &str, mounts: &str) -> Self {
        let cpu = membership.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':');
            let id: i32 = parts.next()?.parse().ok()?;
            parts.next()?.split(',').any(|c| c == "cpu").then_some(id)
        });
        match cpu {
            Some(id) => {
                let has_cpu = |options: &str| options.split(',').any(|o| o == "cpu");
                Self {
                    version: CgroupVersion::V1,
                    id,
                    mount: mount(mounts, "cgroup", has_cpu),
                }
            }
            None => {
                let mount = mount(mounts, "cgroup2", |_| true);
                Self {
                    version: CgroupVersion::V2,
                    id: 0,
                    mount,
                }
            }
        }
    }
}

/// Returns the index of the cpu controller among all controllers.
fn cpu_controller(btf: &Btf<'_>) -> Option<u32> {
    let controllers = btf.type_by_name::<Enum<'_>>("cgroup_subsys_id")?;
    let cpu = controllers
        .iter()
        .find(|controller| controller.name.is_some_and(|name| name == "cpu_cgrp_id"))?;
    u32::try_from(cpu.value).ok()
}

/// Returns the offset of a member in bytes. The member may be inside anonymous members.
fn offset(btf: &Btf<'_>, composite: &Composite<'_>, name: &str) -> Option<u32> {
    composite.iter().find_map(|member| {
        let MemberAttr::Normal { offset: bits } = member.attr else {
            return None;
        };
        let inside = match member.name {
            Some(found) => (found == name).then_some(0),
            None => {
                let part = btf.type_by_id::<Composite<'_>>(member.ty)?;
                offset(btf, &part, name)
            }
        };
        Some(inside? + bits / 8)
    })
}

/// Returns the mount point of the first mount of that type whose super options match. A mount that
/// shows more of the hierarchy is preferred.
fn mount(mountinfo: &str, fstype: &str, fits: impl Fn(&str) -> bool) -> Option<PathBuf> {
    let mut best: Option<(Option<usize>, PathBuf)> = None;
    for line in mountinfo.lines() {
        let Some((fields, tail)) = line.split_once(" - ") else {
            continue;
        };
        let mut tail = tail.split(' ');
        let (kind, options) = (tail.next(), tail.nth(1).unwrap_or_default());
        let mut fields = fields.split(' ').skip(3);
        let (Some(within), Some(at)) = (fields.next(), fields.next()) else {
            continue;
        };
        let height = height(within);
        if kind == Some(fstype)
            && fits(options)
            && best.as_ref().is_none_or(|(best, _)| height > *best)
        {
            best = Some((height, PathBuf::from(unescape(at))));
        }
    }
    best.map(|(_, place)| place)
}

/// Returns whether this mount of procfs hides processes from other users.
pub fn hides_processes(proc: &Path) -> bool {
    let mounts = fs::read_to_string(proc.join("self/mountinfo")).unwrap_or_default();
    hidepid(&mounts, proc)
}

/// The last mount at a mount point hides the earlier ones. The kernel shows the option only if it
/// is not 0.
fn hidepid(mountinfo: &str, proc: &Path) -> bool {
    let mut options = mountinfo.lines().filter_map(|line| {
        let (fields, tail) = line.split_once(" - ")?;
        let at = unescape(fields.split(' ').nth(4)?);
        let is_there = Path::new(&at) == proc && tail.starts_with("proc ");
        is_there.then(|| tail.rsplit(' ').next())?
    });
    let last = options.next_back().unwrap_or_default();
    last.split(',').any(|it| it.starts_with("hidepid="))
}

/// Returns how many levels the root of a mount is above the root of our cgroup namespace; `None` if
/// the root of the mount is below. A mount from outside the namespace is shown as `/../..`.
fn height(within: &str) -> Option<usize> {
    let mut above = 0;
    for part in within.split('/').filter(|part| !part.is_empty()) {
        if part != ".." {
            return None;
        }
        above += 1;
    }
    Some(above)
}

/// Decodes mountinfo, which escapes space, tab, newline and backslash in octal.
fn unescape(text: &str) -> String {
    let octal = [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ];
    octal
        .into_iter()
        .fold(text.to_owned(), |text, (escape, plain)| {
            text.replace(escape, plain)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_procfs_mount_decides_about_hidepid() {
        let open = "22 28 0:21 / /proc rw,nosuid shared:5 - proc proc rw";
        let names = "23 28 0:22 / /proc rw - proc proc rw,gid=4,hidepid=invisible";
        let number = "24 28 0:23 / /proc rw - proc proc rw,hidepid=2";
        let elsewhere = "25 28 0:24 / /mnt/proc rw - proc proc rw,hidepid=2";
        let cases = [
            (vec![open], false),
            (vec![names], true),
            (vec![number], true),
            (vec![open, elsewhere], false),
            (vec![open, names], true),
            (vec![names, open], false),
            (vec![], false),
        ];
        for (lines, hidden) in cases {
            let mounts = lines.join("\n");
            assert_eq!(hidepid(&mounts, Path::new("/proc")), hidden, "{mounts}");
        }
    }

    fn check(membership: &str, mounts: &str, version: CgroupVersion, id: i32, at: Option<&str>) {
        let expected = Hierarchy {
            version,
            id,
            mount: at.map(PathBuf::from),
        };
        assert_eq!(Hierarchy::decide(membership, mounts), expected);
    }

    #[test]
    fn the_hierarchy_follows_the_cpu_controller() {
        let v2 = "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";
        check(
            "0::/user.slice\n",
            v2,
            CgroupVersion::V2,
            0,
            Some("/sys/fs/cgroup"),
        );

        let hybrid = "31 30 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n\
            32 30 0:28 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
            33 30 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n";
        let at = Some("/sys/fs/cgroup/cpu,cpuacct");
        check(
            "4:cpuset:/\n3:cpu,cpuacct:/\n0::/\n",
            hybrid,
            CgroupVersion::V1,
            3,
            at,
        );

        // A hybrid system with the cpu controller in v2.
        let at = Some("/sys/fs/cgroup/unified");
        check("4:cpuset:/\n0::/\n", hybrid, CgroupVersion::V2, 0, at);

        check("", "", CgroupVersion::V2, 0, None);
    }

    #[test]
    fn full_mount_wins_over_a_partial_one() {
        let mounts = "1 0 0:1 /docker/x /part rw - cgroup2 c rw\n\
            2 0 0:1 / /a\\040space rw shared:1 - cgroup2 c rw\n";
        check("0::/\n", mounts, CgroupVersion::V2, 0, Some("/a space"));
    }
    #[test]
    fn host_mount_wins_over_the_namespaces_own() {
        let own = "1 0 0:1 / /own rw - cgroup2 c rw\n";
        let host = "2 0 0:1 /../.. /host rw - cgroup2 c rw\n\
            3 0 0:1 /../../other /part rw - cgroup2 c rw\n";
        let mounts = format!("{own}{host}");
        check("0::/\n", &mounts, CgroupVersion::V2, 0, Some("/host"));
        let mounts = format!("{host}{own}");
        check("0::/\n", &mounts, CgroupVersion::V2, 0, Some("/host"));
        check("0::/\n", own, CgroupVersion::V2, 0, Some("/own"));
    }
}
