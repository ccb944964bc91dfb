//! Tests that a user with a delegated subtree cannot keep noctule from naming the containers of
//! other users.

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use serde_json::json;

use crate::support::agent::Agent;
use crate::support::burner::Burner;
use crate::support::cgroup::{Below, Group};
use crate::support::container::{Bundle, hex_id, pod_uid};
use crate::support::reading::Reading;
use crate::support::{self, wait_until};

/// User ids that do not exist on this machine.
const USERS: [u32; 2] = [4_000_001, 4_000_002];

/// Number of cgroups of the first user, each with its own file to read.
const GROUPS: usize = 150;

/// Maximum size of a user's file.
const FILE_BYTES: usize = 500 << 10;

/// The directory for files of a user's rootless containers, removed when dropped.
struct Files(PathBuf);

impl Files {
    fn new(user: u32) -> Self {
        let this = Self(PathBuf::from(format!("/run/user/{user}")));
        // An earlier test that was killed may have left the file system mounted.
        if is_mounted(&this.silent()) {
            unmount(&this.silent());
        }
        fs::create_dir_all(this.store()).expect("root may");
        this
    }

    fn store(&self) -> PathBuf {
        self.silent().join("overlay-containers")
    }

    /// Returns the mount point of the second user's unresponsive file system.
    fn silent(&self) -> PathBuf {
        self.0.join("containers")
    }
}

fn is_mounted(at: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/mounts").expect("mounts");
    mounts
        .lines()
        .any(|line| line.split(' ').nth(1) == at.to_str())
}

/// The unmount works even while the agent is reading the file system.
fn unmount(at: &Path) {
    let _ = Command::new("umount").arg("-l").arg(at).status();
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A file system that never replies, unmounted when dropped.
struct Silent(Child, PathBuf);

impl Silent {
    fn mount(at: &Path) -> Self {
        let options = "fd=9,rootmode=40000,user_id=0,group_id=0";
        // The process that has the device open would have to reply.
        let script = format!(
            "exec 9<>/dev/fuse && mount -i -t fuse none \"$0\" -o {options} && exec sleep 1000"
        );
        let mut command = Command::new("sh");
        let child = command.args(["-c", &script]).arg(at).spawn();
        let child = child.expect("a shell");
        let at = at.to_owned();
        wait_until("it is mounted", || is_mounted(&at));
        Self(child, at)
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        // Processes that are blocked in the file system get an error once its server is gone.
        let _ = self.0.kill();
        let _ = self.0.wait();
        unmount(&self.1);
    }
}

/// Creates a cgroup that belongs to a user. `container` adds a cgroup named like a container.
fn part(user: u32) -> Group {
    let part = Group::new(&format!("part-{user}"));
    chown(part.folder(), Some(user), Some(user)).expect("our group");
    part
}

fn container(part: &Group, id: &str) -> Group {
    let part = part.path();
    let part = part.trim_start_matches('/');
    Group::named(&format!("{part}/libpod-{id}.scope"))
}

/// Checks that a new container of the machine's runtime is named.
fn is_named(agent: &Agent, name: &str) {
    let id = hex_id();
    let annotations = json!({
        "io.kubernetes.cri.container-name": name,
        "io.kubernetes.cri.container-type": "container",
        "io.kubernetes.cri.sandbox-name": "shop",
        "io.kubernetes.cri.sandbox-namespace": "default",
    });
    let _bundle = Bundle::write(&id, &annotations);
    let real = Below::new(&format!("kubepods/pod{}/{id}", pod_uid()));
    let _burner = Burner::within(&real.group);
    wait_until("the container has its name", || {
        let metrics = agent.metrics();
        let mut ours = metrics
            .iter()
            .filter(|s| s.labels.get("container_id") == Some(&id));
        ours.any(|s| s.labels.get("container").map(String::as_str) == Some(name))
    });
}

#[test]
fn user_files_do_not_block_container_names() {
    let _machine = support::shared_but(&[support::Part::Groups]);
    let agent = Agent::start(&["--interval", "200ms"]);
    let files = USERS.map(Files::new);
    let large = files[0].0.join("large.json");
    let padding = "x".repeat(FILE_BYTES);
    let text = json!({"annotations": {"padding": padding}}).to_string();
    fs::write(&large, text).expect("our folder");
    let parts = USERS.map(part);
    let groups: Vec<Group> = (0..GROUPS)
        .map(|_| {
            let id = hex_id();
            let folder = files[0].store().join(&id).join("userdata");
            fs::create_dir_all(&folder).expect("our folder");
            fs::hard_link(&large, folder.join("config.json")).expect("our file");
            container(&parts[0], &id)
        })
        .collect();
    for group in &groups {
        assert!(group.command("true").status().expect("a shell").success());
    }
    is_named(&agent, "beside-many");

    let _silent = Silent::mount(&files[1].silent());
    let asks = container(&parts[1], &hex_id());
    assert!(asks.command("true").status().expect("a shell").success());
    is_named(&agent, "beside-silence");
    Reading::fresh_with(&agent, "the silence is reported", |reading| {
        let hangs = reading.value("noctule_self_losses_total", &[("kind", "names_hang")]);
        (hangs? >= 1.0).then_some(())
    });
}
