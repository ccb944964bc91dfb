use super::*;
use crate::labels::Names;
use noctule_model::{CgroupRow, ProcessRow};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::Instant;

const A: &str = "aaaaaaaaaaaaaaaa0000000000000000111111111111111122222222222222a1";
const SECOND: u64 = 1_000_000_000;

/// A simulated node in a directory: a hierarchy below `cgroup`, and files of runtimes.
struct Node {
    root: tempfile::TempDir,
}

impl Node {
    fn new(groups: &[&str]) -> Self {
        let root = tempfile::tempdir().unwrap();
        let node = Self { root };
        fs::create_dir(node.mount()).unwrap();
        for group in groups {
            node.make(group);
        }
        node
    }

    fn mount(&self) -> PathBuf {
        self.root.path().join("cgroup")
    }

    fn make(&self, group: &str) -> CgroupId {
        let directory = self.mount().join(group.trim_start_matches('/'));
        fs::create_dir_all(&directory).unwrap();
        id_of(&directory)
    }

    fn write(&self, file: &str, content: &str) {
        let file = self.root.path().join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, content).unwrap();
    }

    fn config(&self) -> Config {
        Config {
            root: self.root.path().to_owned(),
            cgroup_mount: self.mount(),
            ..Config::default()
        }
    }

    /// Creates a registry that treats the mount as a whole hierarchy, and looks up names with
    /// `find`.
    fn registry(
        &self,
        config: Config,
        mut find: impl FnMut(&Query, bool) -> Answer + Send + 'static,
    ) -> Registry {
        let mut registry = with_finder(config, move |query, fresh| find(query, fresh));
        registry.partial = false;
        registry
    }
}

fn id_of(directory: &Path) -> CgroupId {
    use std::os::unix::fs::MetadataExt;
    CgroupId(fs::metadata(directory).unwrap().ino())
}

/// Creates a registry with the same finder for all lanes.
fn with_finder(
    config: Config,
    find: impl FnMut(&Query, bool) -> Answer + Send + 'static,
) -> Registry {
    let find = Arc::new(Mutex::new(find));
    let finders = Lane::ALL.map(|_| {
        let find = find.clone();
        move |query: &Query, fresh: bool| find.lock().unwrap()(query, fresh)
    });
    Registry::with_finders(config, finders)
}

fn nothing(_: &Query, _: bool) -> Answer {
    Ok(None)
}

fn made(id: u64, path: &str) -> CgroupEvent {
    CgroupEvent::Made {
        id: CgroupId(id),
        path: path.to_owned(),
    }
}

fn removed(id: u64) -> CgroupEvent {
    CgroupEvent::Removed { id: CgroupId(id) }
}

/// Waits until the condition holds. The registry's time does not advance during the wait.
fn settle(registry: &mut Registry, now_ns: u64, what: &str, done: impl Fn(&Registry) -> bool) {
    let start = Instant::now();
    loop {
        registry.tick(now_ns);
        if done(registry) {
            return;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "never: {what}");
        thread::yield_now();
    }
}

fn idle(registry: &mut Registry, now_ns: u64) {
    settle(registry, now_ns, "all questions answered", |r| {
        r.stats().searching == 0
    });
}

fn name_of(registry: &mut Registry, id: CgroupId) -> Option<String> {
    registry.owner(id).container.as_ref()?.name.clone()
}

#[test]
fn paths_come_from_the_first_walk_and_events() {
    let node = Node::new(&["/a/b"]);
    let mut registry = node.registry(node.config(), nothing);
    let b = node.make("/a/b");
    assert_eq!(registry.owner(b).path, "/a/b");
    assert_eq!(registry.owner(id_of(&node.mount())).path, "/");
    let events = [
        made(1 << 40, &format!("/docker/{A}")),
        made(2 << 40, &format!("/docker/{A}/sub")),
        CgroupEvent::Renamed {
            id: CgroupId(1 << 40),
            path: "/moved".to_owned(),
        },
    ];
    registry.apply(&events[..2], 0);
    let owner = registry.owner(CgroupId(2 << 40));
    assert_eq!(owner.container.as_ref().map(|c| c.id.as_str()), Some(A));
    registry.apply(&events[2..], 0);
    let owner = registry.owner(CgroupId(2 << 40));
    assert_eq!(
        (owner.path.as_str(), &owner.container),
        ("/moved/sub", &None)
    );
    assert_eq!(registry.stats().walks, 1, "nothing was unknown");
    let again = registry.owner(CgroupId(2 << 40));
    assert!(Arc::ptr_eq(&owner, &again), "the same allocation");
}

#[test]
fn unknown_ids_cause_a_limited_number_of_walks() {
    let node = Node::new(&[]);
    let mut registry = node.registry(node.config(), nothing);
    let x = node.make("/x");
    registry.tick(SECOND);
    assert_eq!(registry.owner(x).path, "/x");
    let y = node.make("/y");
    let raw = format!("#{}", y.0);
    assert_eq!(registry.owner(y).path, raw, "too soon after the last walk");
    assert_eq!(registry.stats().walks, 2);
    registry.tick(2 * SECOND);
    assert_eq!(registry.owner(y).path, "/y");
    assert_eq!(registry.stats().walks, 3);
    // An unknown id is searched only once.
    for second in 3..100 {
        registry.tick(second * SECOND);
        assert_eq!(
            registry.owner(CgroupId(1 << 40)).path,
            format!("#{}", 1u64 << 40)
        );
        assert_eq!(registry.owner(CgroupId(0)).path, "#0");
    }
    let stats = registry.stats();
    assert_eq!((stats.walks, stats.unknown), (4, 1));
    // The event of the group arrived late.
    registry.apply(&[made(1 << 40, "/late")], 100 * SECOND);
    assert_eq!(registry.owner(CgroupId(1 << 40)).path, "/late");
}

#[test]
fn walk_finds_removed_and_moved_groups() {
    let node = Node::new(&["/a", "/b/c"]);
    let mut registry = node.registry(node.config(), nothing);
    let (a, c) = (node.make("/a"), node.make("/b/c"));
    fs::remove_dir(node.mount().join("a")).unwrap();
    fs::rename(node.mount().join("b"), node.mount().join("d")).unwrap();
    registry.resync(SECOND);
    assert_eq!(registry.owner(c).path, "/d/c");
    assert_eq!(registry.owner(a).path, "/a", "remembered");
    let forgotten = SECOND + 300 * SECOND;
    registry.tick(forgotten);
    assert_eq!(registry.owner(a).path, format!("#{}", a.0));
}

#[test]
fn unrequested_groups_are_evicted_and_found_again() {
    let node = Node::new(&[]);
    let config = Config {
        most_bytes: 100 << 10,
        ..node.config()
    };
    let mut registry = node.registry(config, nothing);
    let late = node.make("/late");
    let asked = made(1 << 40, "/asked");
    registry.apply(&[asked], SECOND);
    assert_eq!(registry.owner(CgroupId(1 << 40)).path, "/asked");
    let long = "x".repeat(200);
    for id in 1..5000_u64 {
        registry.apply(&[made(id + (1 << 41), &format!("/{long}/{id}"))], SECOND);
        assert!(registry.bytes <= 100 << 10, "{}", registry.bytes);
    }
    let stats = registry.stats();
    assert!(stats.groups < 200 && stats.left_out > 4000, "{stats:?}");
    assert_eq!(registry.owner(CgroupId(1 << 40)).path, "/asked");
    // Walks are less frequent now, and only happen for groups that are requested.
    let walks = stats.walks;
    registry.tick(2 * SECOND);
    assert_eq!(registry.owner(late).path, "/late");
    for second in 3..20 {
        registry.tick(second * SECOND);
        registry.owner(CgroupId((1 << 42) + second));
    }
    assert_eq!(registry.stats().walks, walks + 1);
    registry.tick(40 * SECOND);
    registry.owner(CgroupId(1 << 43));
    assert_eq!(registry.stats().walks, walks + 2);
}

#[test]
fn latest_requested_groups_stay_within_the_bound() {
    let node = Node::new(&[]);
    let config = Config {
        most_bytes: 100 << 10,
        ..node.config()
    };
    let mut registry = node.registry(config, nothing);
    let id = |number: u64| CgroupId(number + (1 << 41));
    let long = "x".repeat(200);
    for number in 0..5000 {
        let path = format!("/{long}/{number}");
        registry.apply(&[made(id(number).0, &path)], number * SECOND);
        // The first group is requested repeatedly.
        for number in [0, number] {
            let owner = registry.owner(id(number));
            assert_eq!(owner.path, format!("/{long}/{number}"));
        }
        assert!(registry.bytes <= 100 << 10, "{}", registry.bytes);
    }
    let stats = registry.stats();
    assert!(stats.groups < 200 && stats.given_up > 4000, "{stats:?}");
}

#[test]
fn removed_groups_are_remembered_within_a_bound() {
    let node = Node::new(&[]);
    let config = Config {
        remember_limit: 1000,
        ..node.config()
    };
    let mut registry = node.registry(config, nothing);
    registry.apply(&[made(1 << 40, "/a.service"), removed(1 << 40)], SECOND);
    registry.tick(300 * SECOND);
    assert_eq!(registry.owner(CgroupId(1 << 40)).path, "/a.service");
    registry.tick(301 * SECOND);
    assert_eq!(registry.stats().groups, 1, "the root is left");
    for id in (1 << 40)..(1 << 40) + 10_000 {
        let path = format!("/docker/{A}/{id}");
        registry.apply(&[made(id, &path), removed(id), removed(id)], 400 * SECOND);
        assert!(registry.groups.len() <= 1001 && registry.dead.len() <= 1000);
        assert!(registry.due.iter().flatten().count() <= registry.groups.len());
    }
    assert_eq!(registry.stats().forgotten_early, 9000);
    assert_eq!(
        registry.owner(CgroupId((1 << 40) + 9_999)).path,
        format!("/docker/{A}/{}", (1u64 << 40) + 9_999)
    );
    registry.tick(700 * SECOND);
    assert_eq!(
        (
            registry.groups.len(),
            registry.dead.len(),
            registry.due.iter().flatten().count()
        ),
        (1, 0, 0)
    );
}

#[test]
fn groups_whose_removal_was_lost_do_not_pile_up() {
    let node = Node::new(&[]);
    let mut registry = node.registry(node.config(), nothing);
    for step in 0..100u64 {
        let ids = (step * 1000..(step + 1) * 1000).map(|n| (1 << 40) + n);
        let events: Vec<CgroupEvent> = ids.map(|id| made(id, &format!("/g{id}"))).collect();
        registry.apply(&events, (step + 1) * 100 * SECOND);
        assert!(registry.groups.len() < 20_000, "{}", registry.groups.len());
    }
}

#[test]
fn late_names_are_found_and_retries_end() {
    let node = Node::new(&[]);
    let mut registry = Registry::new(node.config());
    registry.partial = false;
    let id = CgroupId(1 << 40);
    let bundle = format!("run/containerd/io.containerd.runtime.v2.task/k8s.io/{A}/config.json");
    registry.apply(&[made(id.0, &format!("/k8s.io/{A}"))], SECOND);
    idle(&mut registry, SECOND);
    assert_eq!(name_of(&mut registry, id), None, "no bundle yet");
    node.write(
        &bundle,
        r#"{"annotations":{"io.kubernetes.cri.container-name":"web"}}"#,
    );
    let raw = registry.owner(id);
    settle(&mut registry, 2 * SECOND, "a name", |r| {
        r.due_ns().is_none() && r.stats().searching == 0
    });
    assert_eq!(name_of(&mut registry, id).as_deref(), Some("web"));
    assert!(!Arc::ptr_eq(&raw, &registry.owner(id)));
    assert_eq!(
        raw.container.as_ref().map(|c| &c.name),
        Some(&None),
        "who kept it keeps it"
    );

    // The other container never gets a bundle.
    let other = CgroupId(2 << 40);
    registry.apply(
        &[made(other.0, &format!("/docker/{}", A.replace('a', "c")))],
        3 * SECOND,
    );
    for minute in 1..10 {
        idle(&mut registry, minute * 60 * SECOND);
    }
    assert!(registry.due_ns().is_none());
    assert_eq!(registry.groups[&other].tries, RETRY.len() + 1);
    assert_eq!(name_of(&mut registry, other), None);
}

#[test]
fn plain_runc_container_is_found_by_its_state() {
    let node = Node::new(&["/web/inner", "/other"]);
    node.write(
        "run/runc/web/state.json",
        r#"{"id":"web","cgroup_paths":{"cpu":"/cgroup/web","pids":"/elsewhere"}}"#,
    );
    let mut registry = Registry::new(node.config());
    idle(&mut registry, 1);
    let inner = registry.owner(node.make("/web/inner"));
    let container = inner.container.as_ref().unwrap();
    assert_eq!(
        (container.id.as_str(), container.runtime),
        ("web", noctule_model::Runtime::Oci)
    );
    assert_eq!(registry.owner(node.make("/other")).container, None);
}

#[test]
fn catch_up_finds_names_that_arrived_just_before() {
    let node = Node::new(&["/old"]);
    let mut registry = Registry::new(node.config());
    idle(&mut registry, SECOND);
    let (old, young) = (node.make("/old"), node.make("/young"));
    registry.apply(&[made(young.0, "/young")], SECOND);
    settle(&mut registry, SECOND, "a fruitless search", |r| {
        r.groups[&young].tries == 1
    });
    for id in ["old", "young"] {
        node.write(
            &format!("run/runc/{id}/state.json"),
            &format!(r#"{{"id":"{id}","cgroup_paths":{{"cpu":"/cgroup/{id}"}}}}"#),
        );
    }
    registry.catch_up(Duration::from_secs(60));
    let container = |registry: &mut Registry, id| {
        let owner = registry.owner(id);
        owner.container.as_ref().map(|c| c.id.clone())
    };
    assert_eq!(container(&mut registry, young).as_deref(), Some("young"));
    // A group that existed before is searched when its search is due, not earlier.
    assert_eq!(container(&mut registry, old), None);
    assert_eq!(
        registry.due_ns(),
        Some(registry.due.iter().flatten().next().unwrap().0)
    );
}

#[test]
fn hanging_search_is_awaited_no_longer_than_allowed() {
    let node = Node::new(&[]);
    let (release, gate) = mpsc::channel::<()>();
    let find = move |_: &Query, _: bool| {
        let _ = gate.recv();
        Ok(None)
    };
    let mut registry = node.registry(node.config(), find);
    registry.apply(&[made(1 << 40, &format!("/docker/{A}"))], SECOND);
    registry.catch_up(Duration::from_millis(10));
    assert_eq!(registry.stats().searching, 1);
    drop(release);
}

#[test]
fn hanging_search_does_not_block_others() {
    let node = Node::new(&[]);
    let (release, gate) = mpsc::channel::<()>();
    let find = move |_: &Query, _: bool| {
        // Hangs until the test ends, like a mount whose server is unreachable.
        let _ = gate.recv();
        Ok(Some(Names {
            name: Some("late".to_owned()),
            ..Names::default()
        }))
    };
    let mut registry = node.registry(node.config(), find);
    for id in 0..6000u64 {
        let id = (1 << 40) + id;
        registry.apply(&[made(id, &format!("/docker/{A}/{id}"))], SECOND);
    }
    let first = CgroupId(1 << 40);
    assert_eq!(name_of(&mut registry, first), None);
    let stats = registry.stats();
    assert!(
        stats.searching > 0 && stats.searches_delayed > 0,
        "{stats:?}"
    );
    drop(release);
    settle(&mut registry, SECOND, "all names", |r| {
        r.due_ns().is_none() && r.stats().searching == 0
    });
    assert_eq!(name_of(&mut registry, first).as_deref(), Some("late"));
}

#[test]
fn batch_rows_get_their_owners() {
    let node = Node::new(&["/a.service"]);
    let mut registry = node.registry(node.config(), nothing);
    let id = node.make("/a.service");
    let process = |cgroup| ProcessRow {
        cgroup,
        ..ProcessRow::default()
    };
    let mut batch = Batch {
        taken_ns: SECOND,
        processes: vec![process(id)],
        exited: vec![process(CgroupId(0))],
        cgroups: vec![CgroupRow {
            id,
            ..CgroupRow::default()
        }],
        ..Batch::default()
    };
    registry.join(&mut batch);
    let path = |owner: &Option<Arc<Owner>>| owner.as_ref().map(|o| o.path.clone());
    assert_eq!(
        path(&batch.processes[0].owner).as_deref(),
        Some("/a.service")
    );
    assert_eq!(path(&batch.exited[0].owner).as_deref(), Some("#0"));
    assert_eq!(path(&batch.cgroups[0].owner).as_deref(), Some("/a.service"));
}

#[test]
fn a_group_that_was_not_searched_has_no_owner_yet() {
    const MS: u64 = 1_000_000;
    let node = Node::new(&["/a.service"]);
    let mut registry = with_finder(node.config(), nothing);
    let mut owner = |taken_ns, id| {
        let row = CgroupRow {
            id: CgroupId(id),
            ..CgroupRow::default()
        };
        let mut batch = Batch {
            taken_ns,
            cgroups: vec![row],
            ..Batch::default()
        };
        registry.join(&mut batch);
        batch.cgroups[0].owner.as_ref().map(|o| o.path.clone())
    };
    assert_eq!(
        owner(5000 * MS, 1 << 60).as_deref(),
        Some("#1152921504606846976")
    );
    assert_eq!(owner(5500 * MS, 2 << 60), None);
    assert_eq!(
        owner(6500 * MS, 2 << 60).as_deref(),
        Some("#2305843009213693952")
    );
}

#[test]
fn partial_mount_does_not_override_events() {
    let node = Node::new(&["/part"]);
    let mut registry = with_finder(node.config(), nothing);
    assert!(
        registry.partial,
        "a directory is not the root of a hierarchy"
    );
    let part = node.make("/part");
    let events = [
        made(part.0, "/docker/x/part"),
        made(1 << 40, "/system.slice/a.service"),
    ];
    registry.apply(&events, SECOND);
    registry.resync(2 * SECOND);
    assert_eq!(registry.owner(part).path, "/docker/x/part");
    let live = |r: &Registry| r.groups[&CgroupId(1 << 40)].life == Life::Live;
    assert!(live(&registry), "the mount cannot show it");
}

#[test]
fn unreadable_mount_is_survived() {
    let node = Node::new(&[]);
    let config = Config {
        cgroup_mount: "/nowhere".into(),
        ..node.config()
    };
    let mut registry = node.registry(config, nothing);
    registry.apply(&[made(7, "/a.service")], SECOND);
    registry.resync(2 * SECOND);
    assert_eq!(registry.owner(CgroupId(7)).path, "/a.service");
    assert_eq!(registry.owner(CgroupId(8)).path, "#8");
    assert_eq!(registry.stats().walks_incomplete, 2);
}

fn container_of(registry: &mut Registry, id: CgroupId) -> Option<String> {
    Some(registry.owner(id).container.as_ref()?.id.clone())
}

#[test]
fn group_with_a_copied_container_id_is_not_merged() {
    let real = format!("/docker/{A}");
    let false_one = format!("/system.slice/a.service/docker-{A}.scope");
    let sub = format!("{false_one}/sub");
    let node = Node::new(&[&real, &false_one, &sub]);
    let (real_id, false_id, sub_id) = (node.make(&real), node.make(&false_one), node.make(&sub));
    let mut registry = node.registry(node.config(), nothing);
    registry.resync(SECOND);
    // Unlike the inodes of cgroups, the inodes of this file system are not ascending.
    let holder = registry.claims.holder(A).expect("a holder");
    registry.apply(&[CgroupEvent::Removed { id: holder }], 2 * SECOND);
    for (id, path) in [(real_id, &real), (false_id, &false_one), (sub_id, &sub)] {
        registry.apply(&[CgroupEvent::Removed { id }], 2 * SECOND);
        registry.apply(&[made(id.0, path)], 2 * SECOND);
    }
    assert_eq!(container_of(&mut registry, real_id).as_deref(), Some(A));
    for id in [false_id, sub_id] {
        let owner = registry.owner(id);
        assert_eq!(owner.container, None);
        assert_eq!(owner.unit.as_deref(), Some("a.service"));
    }
    // The container restarts elsewhere, and the removal of its group was not reported.
    fs::remove_dir(node.mount().join(real.trim_start_matches('/'))).unwrap();
    let again = format!("/moved/docker/{A}");
    let again_id = node.make(&again);
    registry.apply(&[made(again_id.0, &again)], 3 * SECOND);
    assert_eq!(container_of(&mut registry, again_id).as_deref(), Some(A));
}

#[test]
fn container_in_a_plain_runc_container_belongs_to_it() {
    let node = Node::new(&["/web", &format!("/web/docker-{A}.scope")]);
    node.write(
        "run/runc/web/state.json",
        r#"{"id":"web","cgroup_paths":{"":"/cgroup/web"}}"#,
    );
    let mut registry = Registry::new(node.config());
    idle(&mut registry, 1);
    let inner = registry.owner(node.make(&format!("/web/docker-{A}.scope")));
    let container = inner.container.as_ref().unwrap();
    assert_eq!(
        (container.id.as_str(), inner.unit.as_deref()),
        ("web", None)
    );
}

#[test]
fn second_plain_container_of_a_name_is_not_merged() {
    let node = Node::new(&["/a/web", "/b/web"]);
    for (runtime, file, text) in [
        (
            "runc",
            "state.json",
            r#"{"id":"web","cgroup_paths":{"":"/cgroup/a/web"}}"#,
        ),
        ("crun", "status", r#"{"cgroup-path":"/b/web"}"#),
    ] {
        node.write(&format!("run/{runtime}/web/{file}"), text);
    }
    let mut registry = Registry::new(node.config());
    idle(&mut registry, 1);
    let both = ["/a/web", "/b/web"].map(|path| {
        let id = node.make(path);
        container_of(&mut registry, id)
    });
    assert_eq!(both.iter().flatten().count(), 1, "{both:?}");
}

/// A privileged container made by kind, and a container that only has the label, which an image can
/// set.
#[test]
fn containers_inside_a_kind_node_keep_their_own_id() {
    for (privileged, expected) in [(true, true), (false, false)] {
        let pod = "kubelet/kubepods/besteffort/pod5f0f6d3e-7a1c-4e0b-9d55-0123456789ab";
        let inner_id = A.replace('a', "b");
        let inner = format!("/docker/{A}/{pod}/{inner_id}");
        let node = Node::new(&[&inner]);
        let folder = format!("var/lib/docker/containers/{A}");
        node.write(
            &format!("{folder}/config.v2.json"),
            r#"{"Name":"/kind","Config":{"Labels":{"io.x-k8s.kind.role":"worker"}}}"#,
        );
        node.write(
            &format!("{folder}/hostconfig.json"),
            &format!(r#"{{"Privileged":{privileged}}}"#),
        );
        let mut registry = Registry::new(node.config());
        registry.partial = false;
        idle(&mut registry, 1);
        let late = format!("{inner}/docker/{A}");
        registry.apply(&[made(1 << 40, &late)], SECOND);
        for id in [node.make(&inner), CgroupId(1 << 40)] {
            let owner = registry.owner(id);
            let container = owner.container.as_ref().unwrap();
            assert_eq!(container.id == inner_id, expected, "{owner:?}");
            assert_eq!(container.chain == [A], expected, "{owner:?}");
            assert_eq!(owner.pod.is_some(), expected, "{owner:?}");
        }
        let id = node.make(&format!("/docker/{A}"));
        assert_eq!(container_of(&mut registry, id).as_deref(), Some(A));
    }
}

#[test]
fn node_in_a_container_starts_at_the_mount() {
    let pod = "kubelet/kubepods/besteffort/pod5f0f6d3e-7a1c-4e0b-9d55-0123456789ab";
    let inner = A.replace('a', "b");
    let node = Node::new(&["/kubelet"]);
    let mut registry = with_finder(node.config(), nothing);
    let around = format!("/docker/{A}");
    let path = format!("{around}/{pod}/{inner}");
    registry.apply(&[made(1 << 40, &path)], SECOND);
    assert_eq!(
        container_of(&mut registry, CgroupId(1 << 40)).as_deref(),
        Some(A)
    );
    let known = node.make(&format!("/{pod}"));
    let events = [
        made(known.0, &format!("{around}/{pod}")),
        made(2 << 40, &format!("{path}/docker/{A}")),
    ];
    registry.apply(&events, SECOND);
    let owner = registry.owner(CgroupId(2 << 40));
    assert_eq!(owner.path, format!("{path}/docker/{A}"));
    assert_eq!(owner.container.as_ref().unwrap().id, inner);
}

/// A user's file system never responds, and 150 groups of that user come first.
#[test]
fn hanging_user_files_do_not_delay_other_names() {
    let node = Node::new(&[]);
    let (release, held) = mpsc::channel::<()>();
    let held = Arc::new(Mutex::new(held));
    let finders = Lane::ALL.map(|_| {
        let held = held.clone();
        move |query: &Query, _: bool| match query.reads_of() {
            Some(_) => {
                let _ = held.lock().unwrap().recv();
                Ok(None)
            }
            None => Ok(Some(Names {
                name: Some("real".into()),
                ..Names::default()
            })),
        }
    });
    let mut registry = Registry::with_finders(node.config(), finders);
    registry.partial = false;
    let id = "4f1c9a5e0c1b4b5a9c0d8a7e6f5b4c3d2e1f00112233445566778899aabbccdd";
    let slice = "/user.slice/user-1000.slice/user@1000.service/user.slice";
    let mut events: Vec<CgroupEvent> = (0..150)
        .map(|n| made(100 + n, &format!("{slice}/libpod-{n:064x}.scope")))
        .collect();
    events.push(made(7, &format!("/system.slice/docker-{id}.scope")));
    registry.apply(&events, SECOND);
    let begun = Instant::now();
    loop {
        registry.tick(SECOND);
        let owner = registry.owner(CgroupId(7));
        if owner.container.as_ref().is_some_and(|it| it.name.is_some()) {
            break;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "it waits for the user's files"
        );
        thread::yield_now();
    }
    assert_eq!(registry.stats().hangs, 0);
    registry.tick(30 * SECOND);
    assert_eq!(registry.stats().hangs, 1, "it is said that it hangs");
    drop(release);
}
