use std::os::unix::fs::MetadataExt as _;

use super::*;
use crate::text;
use noctule_model::{CgroupId, ContainerRole};

const A: &str = "aaaaaaaaaaaaaaaa0000000000000000111111111111111122222222222222a1";

/// Files to create below the root directory; `{A}` stands for the container's id.
type Files<'a> = &'a [(&'a str, &'a str)];

/// Returns the finder's result for the path in one line: `<runtime> <role> <name>
/// <namespace>/<pod>`.
fn find(files: Files<'_>, path: &str) -> String {
    let root = tempfile::tempdir().unwrap();
    for (file, content) in files {
        let file = root.path().join(file.replace("{A}", A));
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, content.replace("{A}", A)).unwrap();
    }
    let mut finder = Finder::new(root.path(), &root.path().join("sys/fs/cgroup"));
    let owner = crate::classify(CgroupId(7), &path.replace("{A}", A));
    let query = Query {
        path: owner.path.clone(),
        container: owner.container.as_ref().map(|c| c.id.clone()),
        machine_unit: None,
        user: None,
    };
    let names = match finder.find(&query, true) {
        Ok(Some(names)) => names,
        Ok(None) => return "missing".to_owned(),
        Err(_) => return "unusable".to_owned(),
    };
    let owner = names.applied(&owner, None);
    let Some(container) = owner.container else {
        return "no container".to_owned();
    };
    let role = match container.role {
        ContainerRole::Workload => "",
        ContainerRole::Sandbox => " sandbox",
        ContainerRole::Helper => " helper",
    };
    let id = if text::is_hash(&container.id) {
        ""
    } else {
        &container.id
    };
    let mut said = format!("{}{role} {id}", container.runtime.name());
    said += &container.name.unwrap_or_default();
    if let Some(image) = container.image {
        said += &format!(" of {image}");
    }
    if let Some(pod) = owner.pod {
        let part = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        said += &format!(" {}/{} {}", part(pod.namespace), part(pod.name), pod.qos);
    }
    said
}

fn check(cases: &[(Files<'_>, &str, &str)]) {
    for (files, path, expected) in cases {
        assert_eq!(find(files, path), *expected, "{files:?} {path}");
    }
}

const POD: &str = "/kubepods/besteffort/pod6f0f6d3e-7a1c-4e0b-9d55-0123456789ab/{A}";
const BUNDLE: &str = r#"{"ociVersion":"1.1.0","process":{"args":["x"]},"annotations":{
    "io.kubernetes.cri.container-type":"container","io.kubernetes.cri.container-name":"web",
    "io.kubernetes.cri.image-name":"r.io/web:1","io.kubernetes.cri.sandbox-name":"shop-0","io.kubernetes.cri.sandbox-namespace":"prod"}}"#;

#[test]
fn containerd_bundles_name_containers() {
    let task = "run/containerd/io.containerd.runtime.v2.task/k8s.io/{A}/config.json";
    let k3s = "run/k3s/containerd/io.containerd.runtime.v2.task/k8s.io/{A}/config.json";
    let nerdctl = "run/containerd/io.containerd.runtime.v2.task/default/{A}/config.json";
    let sandbox = r#"{"annotations":{"io.kubernetes.cri.container-type":"sandbox",
        "io.kubernetes.cri.sandbox-name":"shop-0","io.kubernetes.cri.sandbox-namespace":"prod",
        "io.kubernetes.cri.sandbox-uid":"6f0f"}}"#;
    check(&[
        (
            &[(task, BUNDLE)],
            POD,
            "containerd web of r.io/web:1 prod/shop-0 besteffort",
        ),
        (
            &[(k3s, BUNDLE)],
            POD,
            "containerd web of r.io/web:1 prod/shop-0 besteffort",
        ),
        (
            &[(task, sandbox)],
            POD,
            "containerd sandbox  prod/shop-0 besteffort",
        ),
        // The pod is known only from the file, because the path does not contain it.
        (
            &[(task, sandbox)],
            "/{A}",
            "containerd sandbox  prod/shop-0 unknown",
        ),
        (
            &[(nerdctl, r#"{"annotations":{"nerdctl/name":"db"}}"#)],
            "/system.slice/nerdctl-{A}.scope",
            "containerd db",
        ),
        (
            &[(task, r#"{"annotations":null}"#)],
            POD,
            "containerd  -/- besteffort",
        ),
        (&[(task, "{")], POD, "unusable"),
        (&[], POD, "missing"),
    ]);
}

#[test]
fn docker_files_name_containers() {
    let file = "var/lib/docker/containers/{A}/config.v2.json";
    let moved = "data/docker/containers/{A}/config.v2.json";
    let bundle = "run/containerd/io.containerd.runtime.v2.task/moby/{A}/config.json";
    let plain = r#"{"ID":"{A}","Name":"/shop","Config":{"Labels":{},"Image":"shop:2"}}"#;
    let kubernetes = r#"{"Name":"/k8s_web_shop-0_prod_6f0f_0","Config":{"Labels":{
        "io.kubernetes.container.name":"web","io.kubernetes.pod.name":"shop-0",
        "io.kubernetes.pod.namespace":"prod","io.kubernetes.docker.type":"container"}}}"#;
    let pause = r#"{"Name":"/k8s_POD_shop-0_prod_6f0f_0","Config":{"Labels":{
        "io.kubernetes.container.name":"POD","io.kubernetes.pod.name":"shop-0",
        "io.kubernetes.pod.namespace":"prod","io.kubernetes.docker.type":"podsandbox"}}}"#;
    let ecs = r#"{"Name":"/ecs-shop-1-web-a0","Config":{"Labels":{
        "com.amazonaws.ecs.task-arn":"arn","com.amazonaws.ecs.container-name":"web"}}}"#;
    check(&[
        (&[(file, plain)], "/docker/{A}", "docker shop of shop:2"),
        // Several runtimes use this path. The file identifies the runtime.
        (
            &[(file, plain)],
            "/actions_job/{A}",
            "docker shop of shop:2",
        ),
        (
            &[(file, kubernetes)],
            POD,
            "docker web prod/shop-0 besteffort",
        ),
        (
            &[(file, pause)],
            POD,
            "docker sandbox POD prod/shop-0 besteffort",
        ),
        (&[(file, ecs)], "/ecs/t/{A}", "ecs web"),
        (&[(file, ecs)], "/docker/{A}", "ecs web"),
        (
            &[(file, r#"{"Name":null,"Config":null}"#)],
            "/docker/{A}",
            "docker ",
        ),
        // The container's bundle has no names, so other directories are also searched.
        (
            &[(bundle, "{}"), (file, plain)],
            "/docker/{A}",
            "docker shop of shop:2",
        ),
        (&[(bundle, "{}")], "/docker/{A}", "docker "),
        (
            &[
                ("etc/docker/daemon.json", r#"{"data-root":"/data/docker"}"#),
                (moved, plain),
            ],
            "/docker/{A}",
            "docker shop of shop:2",
        ),
        // Docker with `userns-remap`.
        (
            &[(
                "var/lib/docker/231072.231072/containers/{A}/config.v2.json",
                plain,
            )],
            "/docker/{A}",
            "docker shop of shop:2",
        ),
        (
            &[("var/lib/docker/tmp.1/containers/{A}/config.v2.json", plain)],
            "/docker/{A}",
            "missing",
        ),
    ]);
}

#[test]
fn crio_and_podman_files_name_containers() {
    let run = "run/containers/storage/overlay-containers/{A}/userdata/config.json";
    let lib = "var/lib/containers/storage/overlay-containers/{A}/userdata/config.json";
    let list = "var/lib/containers/storage/overlay-containers/containers.json";
    let volatile = "var/lib/containers/storage/overlay-containers/volatile-containers.json";
    let user = "home/u/.local/share/containers/storage/overlay-containers/{A}/userdata/config.json";
    let users = "home/u/.local/share/containers/storage/overlay-containers/containers.json";
    let passwd = (
        "etc/passwd",
        "root:x:0:0:root:/root:/bin/sh\nu:x:1000:1000:U:/home/u:/bin/sh\n",
    );
    let crio = r#"{"annotations":{"io.container.manager":"cri-o","io.kubernetes.container.name":"web",
        "io.kubernetes.cri-o.ContainerType":"container","io.kubernetes.cri-o.ImageName":"r.io/web:1","io.kubernetes.pod.name":"shop-0",
        "io.kubernetes.pod.namespace":"prod","io.kubernetes.cri-o.Name":"k8s_web_shop-0"}}"#;
    let pause = r#"{"annotations":{"io.container.manager":"cri-o","io.kubernetes.container.name":"POD",
        "io.kubernetes.cri-o.ContainerType":"sandbox","io.kubernetes.pod.name":"shop-0"}}"#;
    let podman = r#"{"annotations":{"io.container.manager":"libpod"}}"#;
    let names = r#"[{"id":"other","names":["x"]},{"id":"{A}","names":["db"],"image":"i","metadata":"{\"image-name\":\"r.io/db:3\",\"name\":\"db\"}"}]"#;
    let rootless = "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{A}.scope";
    check(&[
        (
            &[(run, crio)],
            POD,
            "cri-o web of r.io/web:1 prod/shop-0 besteffort",
        ),
        (
            &[(lib, pause)],
            POD,
            "cri-o sandbox POD -/shop-0 besteffort",
        ),
        (
            &[(lib, podman), (list, names)],
            "/machine.slice/libpod-{A}.scope",
            "podman db of r.io/db:3",
        ),
        // A container of `podman run --rm` next to persistent containers.
        (
            &[
                (lib, podman),
                (list, r#"[{"id":"other","names":["x"]}]"#),
                (volatile, names),
            ],
            "/machine.slice/libpod-{A}.scope",
            "podman db of r.io/db:3",
        ),
        (
            &[(lib, podman), (volatile, names)],
            "/machine.slice/libpod-{A}.scope",
            "podman db of r.io/db:3",
        ),
        (
            &[(lib, podman), (list, "[{}]")],
            "/machine.slice/libpod-{A}.scope",
            "podman ",
        ),
        (
            &[passwd, (user, podman), (users, names)],
            rootless,
            "podman db of r.io/db:3",
        ),
        // Another user's home directory is not searched.
        (
            &[passwd, (user, podman), (users, names)],
            "/user.slice/user-1001.slice/user@1001.service/user.slice/libpod-{A}.scope",
            "missing",
        ),
    ]);
}

#[test]
fn machine_in_a_unit_is_named_by_machined() {
    let root = tempfile::tempdir().unwrap();
    let machines = root.path().join(MACHINES);
    std::fs::create_dir_all(&machines).unwrap();
    std::os::unix::fs::symlink("deb", machines.join("unit:guest.service")).unwrap();
    let mut finder = Finder::new(root.path(), &root.path().join("sys/fs/cgroup"));
    let mut name_in = |unit: &str, user| {
        let query = Query {
            path: format!("/system.slice/{unit}/payload"),
            container: Some("guest".to_owned()),
            machine_unit: Some(unit.to_owned()),
            user,
        };
        finder.find(&query, true).unwrap().and_then(|it| it.name)
    };
    assert_eq!(name_in("guest.service", None).as_deref(), Some("deb"));
    assert_eq!(name_in("guest.service", Some(1000)), None);
    assert_eq!(name_in("other.service", None), None);
}

#[test]
fn relocated_runtimes_are_found_by_their_configuration() {
    let podman = r#"{"annotations":{"io.container.manager":"libpod"}}"#;
    let list = r#"[{"id":"{A}","names":["db"]}]"#;
    let storage = "[storage]\ndriver = \"overlay\"\ngraphroot = \"/data/graph\"\n";
    let containerd = "version = 3\nstate = \"/data/state\"\n[plugins]\n";
    check(&[
        (
            &[
                ("etc/containers/storage.conf", storage),
                (
                    "data/graph/overlay-containers/{A}/userdata/config.json",
                    podman,
                ),
                ("data/graph/overlay-containers/containers.json", list),
            ],
            "/machine.slice/libpod-{A}.scope",
            "podman db",
        ),
        (
            &[
                ("etc/containerd/config.toml", containerd),
                (
                    "data/state/io.containerd.runtime.v2.task/k8s.io/{A}/config.json",
                    BUNDLE,
                ),
            ],
            POD,
            "containerd web of r.io/web:1 prod/shop-0 besteffort",
        ),
        (
            &[
                ("etc/containerd/config.toml", "state = 7"),
                ("etc/containers/storage.conf", "[storage]"),
                ("var/lib/nerdctl/1935db59/names/default/other", "x"),
                ("var/lib/nerdctl/1935db59/names/default/db", "{A}"),
            ],
            "/system.slice/nerdctl-{A}.scope",
            "containerd db",
        ),
    ]);
}

#[test]
fn users_can_relocate_rootless_runtimes() {
    let uid = std::fs::metadata(".").unwrap().uid();
    let passwd = format!("u:x:{uid}:1000:U:/home/u:/bin/sh\n");
    let slice = format!("/user.slice/user-{uid}.slice/user@{uid}.service");
    let plain = r#"{"ID":"{A}","Name":"/shop","Config":{"Labels":{}}}"#;
    let podman = r#"{"annotations":{"io.container.manager":"libpod"}}"#;
    let list = r#"[{"id":"{A}","names":["db"]}]"#;
    let check = |files: Files<'_>, path: &str, expected: &str| {
        let files = [&[("etc/passwd", passwd.as_str())], files].concat();
        assert_eq!(find(&files, &format!("{slice}/{path}")), expected);
    };
    check(
        &[
            (
                "home/u/.config/docker/daemon.json",
                r#"{"data-root":"/data/d"}"#,
            ),
            ("data/d/containers/{A}/config.v2.json", plain),
        ],
        "docker-{A}.scope",
        "docker shop",
    );
    let graph = [
        (
            "home/u/graph/overlay-containers/{A}/userdata/config.json",
            podman,
        ),
        ("home/u/graph/overlay-containers/containers.json", list),
    ];
    let own = (
        "home/u/.config/containers/storage.conf",
        "[storage]\ngraphroot = \"$HOME/graph\"",
    );
    let all = (
        "etc/containers/storage.conf",
        "[storage]\nrootless_storage_path = \"$HOME/graph\"",
    );
    for settings in [own, all] {
        check(
            &[settings, graph[0], graph[1]],
            "user.slice/libpod-{A}.scope",
            "podman db",
        );
    }
    check(
        &[(
            "home/u/.local/share/nerdctl/1935db59/names/default/db",
            "{A}",
        )],
        "user.slice/nerdctl-{A}.scope",
        "containerd db",
    );
    // The directory belongs to another user.
    let root = tempfile::tempdir().unwrap();
    let user = User {
        uid: "4294967294",
        home: "/u",
    };
    let settings = root.path().join("u/.config/docker");
    std::fs::create_dir_all(root.path().join("data")).unwrap();
    std::fs::create_dir_all(&settings).unwrap();
    std::fs::write(settings.join("daemon.json"), r#"{"data-root":"/data"}"#).unwrap();
    assert_eq!(user.docker(root.path()), None);
}

#[test]
fn plain_runc_and_crun_containers_are_named() {
    let runc = (
        "run/runc/web/state.json",
        r#"{"id":"web","cgroup_paths":{"":"/sys/fs/cgroup/web"}}"#,
    );
    let ctr = (
        "run/containerd/runc/test/c1/state.json",
        r#"{"id":"c1","cgroup_paths":{"":"/sys/fs/cgroup/test/c1"}}"#,
    );
    let bundle = (
        "run/containerd/io.containerd.runtime.v2.task/test/c1/config.json",
        r#"{"annotations":{"nerdctl/name":"-named"}}"#,
    );
    check(&[
        (&[runc], "/web", "oci web"),
        (&[runc], "/web/inner", "oci web"),
        (&[runc], "/website", "missing"),
        (&[ctr, bundle], "/test/c1", "containerd c1-named"),
        (
            &[("run/crun/w/status", r#"{"cgroup-path":"/a/w"}"#)],
            "/a/w",
            "oci w",
        ),
        (&[("run/runc/web/state.json", "{")], "/web", "missing"),
    ]);
}

#[test]
fn users_are_read_from_the_slice() {
    let cases = [
        ("/user.slice/user-1000.slice/x", Some("1000")),
        ("/user.slice/user-.slice", None),
        ("/user.slice/user-1a.slice", None),
        ("/user.slice/user-../x", None),
        ("/a/user.slice/user-1000.slice", None),
    ];
    for (path, expected) in cases {
        assert_eq!(user_of(path), expected, "{path}");
    }
}

#[test]
fn container_ids_cannot_escape_their_directory() {
    for id in ["", ".", "..", "a/b", "a\0b", &"x".repeat(256)] {
        assert!(!is_file_name(id), "{id:?}");
    }
    assert!(is_file_name(A));
}
