use super::*;

const A: &str = "aaaaaaaaaaaaaaaa0000000000000000111111111111111122222222222222a1";
const B: &str = "bbbbbbbbbbbbbbbb0000000000000000111111111111111122222222222222b2";
const U: &str = "6f0f6d3e-7a1c-4e0b-9d55-0123456789ab";

/// Replaces placeholders: `{A}` and `{B}` by container ids, `{U}` by a pod's UID, and `{u}` by the
/// UID as systemd writes it.
fn fill(text: &str) -> String {
    text.replace("{A}", A)
        .replace("{B}", B)
        .replace("{U}", U)
        .replace("{u}", &U.replace('-', "_"))
}

/// Returns the result in one line, without empty parts.
fn show(owner: &Owner) -> String {
    let mut parts = Vec::new();
    if let Some(c) = &owner.container {
        let mut text = format!("{} {}", c.runtime.name(), c.id);
        if let Some(name) = &c.name {
            text += &format!(" ({name})");
        }
        if c.role != ContainerRole::Workload {
            text += &format!(" {:?}", c.role);
        }
        parts.push(text);
        if !c.chain.is_empty() {
            parts.push(format!("in {}", c.chain.join(" ")));
        }
    }
    if let Some(p) = &owner.pod {
        parts.push(format!("pod {} {}", p.uid, p.qos));
    }
    if let Some(unit) = &owner.unit {
        parts.push(format!("unit {unit}"));
    }
    parts.join(" | ")
}

fn check(cases: &[(&str, &str)]) {
    for (path, expected) in cases {
        let (path, expected) = (fill(path), fill(expected));
        let owner = classify(CgroupId(7), &path);
        assert_eq!(show(&owner), expected, "{path}");
        assert_eq!((owner.cgroup, &owner.path), (CgroupId(7), &path));
    }
}

#[test]
fn docker_paths_are_classified() {
    check(&[
        ("/docker/{A}", "docker {A}"),
        ("/docker/{A}/init", "docker {A}"),
        (
            "/system.slice/docker-{A}.scope",
            "docker {A} | unit docker-{A}.scope",
        ),
        // systemd in a container: its services are not units of this node.
        (
            "/system.slice/docker-{A}.scope/system.slice/cron.service",
            "docker {A} | unit docker-{A}.scope",
        ),
        ("/system.slice:docker:{A}", "docker {A}"),
        ("/actions_job/{A}", "oci {A}"),
        (
            "/docker/buildkit/k3v0q6fzrl6xqk7uk0bpy9a1t",
            "oci k3v0q6fzrl6xqk7uk0bpy9a1t",
        ),
        (
            "/system.slice/docker-k3v0q6fzrl6xqk7uk0bpy9a1t.scope",
            "docker k3v0q6fzrl6xqk7uk0bpy9a1t | unit docker-k3v0q6fzrl6xqk7uk0bpy9a1t.scope",
        ),
        (
            "/user.slice/user-1000.slice/user@1000.service/user.slice/docker-{A}.scope",
            "docker {A} | unit 1000:docker-{A}.scope",
        ),
        ("/system.slice/docker.service", "unit docker.service"),
        // The names of the mount of an image layer and of a health check also contain hex digits.
        ("/system.slice/var-lib-docker-overlay2-{A}-merged.mount", ""),
        ("/system.slice/{A}-1f.service", "unit {A}-1f.service"),
    ]);
}

#[test]
fn kubernetes_paths_are_classified() {
    check(&[
        (
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{u}.slice/cri-containerd-{A}.scope",
            "containerd {A} | pod {U} burstable | unit cri-containerd-{A}.scope",
        ),
        (
            "/kubepods.slice/kubepods-pod{u}.slice/cri-containerd-{A}.scope",
            "containerd {A} | pod {U} guaranteed | unit cri-containerd-{A}.scope",
        ),
        (
            "/kubepods/besteffort/pod{U}/{A}",
            "containerd {A} | pod {U} besteffort",
        ),
        (
            "/kubepods/pod{U}/{A}",
            "containerd {A} | pod {U} guaranteed",
        ),
        (
            "/kubepods/burstable/pod{U}/{A}/kube-proxy",
            "containerd {A} | pod {U} burstable",
        ),
        (
            "/system.slice/containerd.service/kubepods-burstable-pod{u}.slice:cri-containerd:{A}",
            "containerd {A} | pod {U} burstable | unit containerd.service",
        ),
        (
            "/kubepods-pod{u}.slice:crio:{A}",
            "cri-o {A} | pod {U} guaranteed",
        ),
        (
            "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{u}.slice/docker-{A}.scope",
            "docker {A} | pod {U} besteffort | unit docker-{A}.scope",
        ),
        (
            "/kubelet/kubepods/besteffort/pod{U}/{A}",
            "containerd {A} | pod {U} besteffort",
        ),
        // A static pod, whose UID is a hash, and a pod whose UID was set manually.
        (
            "/kubepods/burstable/pod0123456789abcdef0123456789abcdef/{A}",
            "containerd {A} | pod 0123456789abcdef0123456789abcdef burstable",
        ),
        (
            "/kubepods/burstable/podmine/{A}",
            "containerd {A} | pod mine burstable",
        ),
        // The pod's own group, and the levels above it.
        ("/kubepods/burstable/pod{U}", "pod {U} burstable"),
        ("/kubepods/burstable", ""),
        ("/kubepods.slice/kubepods-burstable.slice", ""),
        ("/podruntime/kubelet", ""),
        // The agent's cgroup namespace hides the components of the path that show the level.
        ("/../../pod{U}/{A}", "containerd {A} | pod {U} unknown"),
        (
            "/../../../../system.slice/docker-{A}.scope",
            "docker {A} | unit docker-{A}.scope",
        ),
        ("/k8s.io/{A}", "containerd {A}"),
        ("/default/{A}", "containerd {A}"),
        ("/kubepods/pod{U}/kata_{A}", "oci {A} | pod {U} guaranteed"),
        ("/kata_overhead/{A}", "oci {A} Helper"),
    ]);
}

#[test]
fn crio_and_podman_paths_are_classified() {
    check(&[
        (
            "/kubepods.slice/kubepods-pod{u}.slice/crio-{A}.scope",
            "cri-o {A} | pod {U} guaranteed | unit crio-{A}.scope",
        ),
        (
            "/kubepods.slice/kubepods-pod{u}.slice/crio-{A}.scope/container",
            "cri-o {A} | pod {U} guaranteed | unit crio-{A}.scope",
        ),
        (
            "/kubepods.slice/kubepods-pod{u}.slice/crio-conmon-{A}.scope",
            "cri-o {A} Helper | pod {U} guaranteed | unit crio-conmon-{A}.scope",
        ),
        (
            "/kubepods/pod{U}/crio-{A}",
            "cri-o {A} | pod {U} guaranteed",
        ),
        (
            "/kubepods/pod{U}/crio-conmon-{A}",
            "cri-o {A} Helper | pod {U} guaranteed",
        ),
        (
            "/machine.slice/libpod-{A}.scope/container",
            "podman {A} | unit libpod-{A}.scope",
        ),
        (
            "/machine.slice/libpod-{A}.scope/container/system.slice/cron.service",
            "podman {A} | unit libpod-{A}.scope",
        ),
        (
            "/machine.slice/libpod-conmon-{A}.scope",
            "podman {A} Helper | unit libpod-conmon-{A}.scope",
        ),
        (
            "/machine.slice/machine-libpod_pod_{B}.slice/libpod-{A}.scope",
            "podman {A} | unit libpod-{A}.scope",
        ),
        ("/libpod_parent/libpod-{A}", "podman {A}"),
        ("/libpod_parent/{B}/libpod-{A}", "podman {A}"),
        (
            "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{A}.scope",
            "podman {A} | unit 1000:libpod-{A}.scope",
        ),
        (
            "/system.slice/x.service/libpod-payload-{A}",
            "podman {A} | unit x.service",
        ),
        ("/system.slice/x.service/runtime", "unit x.service"),
    ]);
}

const KIND: &str = "/system.slice/docker-{A}.scope";
const KIND_POD: &str = "/system.slice/docker-{A}.scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-pod{u}.slice/cri-containerd-{B}.scope";

#[test]
fn paths_inside_a_container_are_ignored() {
    check(&[
        (KIND_POD, "docker {A} | unit docker-{A}.scope"),
        ("/docker/{A}/docker/{B}", "docker {A}"),
        ("/docker/{A}/docker-{B}.scope", "docker {A}"),
        ("/docker/{A}/kubepods/besteffort/pod{U}/{B}", "docker {A}"),
        ("/docker/{A}/libpod-conmon-{B}.scope", "docker {A}"),
        ("/docker/{A}/slurm/uid_1/job_12/step_0", "docker {A}"),
        (
            "/system.slice/docker-{A}.scope/kubelet.slice/kubelet.service",
            "docker {A} | unit docker-{A}.scope",
        ),
        (
            "/kubepods/pod{U}/{A}/docker/{B}",
            "containerd {A} | pod {U} guaranteed",
        ),
        (
            "/kubepods/pod{U}/{A}/kubepods/burstable/pod{B}/{B}",
            "containerd {A} | pod {U} guaranteed",
        ),
        (
            "/lxc.payload.web/system.slice/docker-{A}.scope",
            "lxc web (web)",
        ),
        ("/ecs/{U}/{A}/docker/{B}", "ecs {A}"),
        // A job contains steps, and a step contains no further levels.
        ("/slurm/uid_1/job_12/step_0/step_1", "slurm 12.0"),
        ("/slurm/uid_1/job_12/step_0/docker/{B}", "slurm 12.0"),
        ("/slurm/uid_1/job_12/job_13", "slurm 12"),
        // The runtime creates the group of a helper, so a container below that group is recognized.
        (
            "/machine.slice/libpod-conmon-{A}.scope/docker/{B}",
            "docker {B} | unit libpod-conmon-{A}.scope",
        ),
    ]);
}

#[test]
fn containers_inside_a_kind_node_are_distinguished() {
    let cases = [
        (
            KIND_POD.to_owned(),
            "containerd {B} | in {A} | pod {U} besteffort | unit cri-containerd-{B}.scope",
        ),
        (
            format!("{KIND_POD}/docker/{U}/docker/{A}"),
            "containerd {B} | in {A} | pod {U} besteffort | unit cri-containerd-{B}.scope",
        ),
        (
            format!("{KIND}/kubelet.slice/kubelet.service"),
            "docker {A} | unit docker-{A}.scope",
        ),
        (KIND.to_owned(), "docker {A} | unit docker-{A}.scope"),
    ];
    for (path, expected) in cases {
        let claim = read(CgroupId(7), &fill(&path), &fill(KIND)).owner;
        assert_eq!(show(&claim), fill(expected), "{path}");
    }
}

#[test]
fn container_group_is_the_path_up_to_its_id() {
    let cases = [
        ("/docker/{A}/init", Some("/docker/{A}")),
        ("//docker/./{A}//x", Some("//docker/./{A}")),
        ("/docker/{A}/docker/{B}", Some("/docker/{A}")),
        (
            "/slurm/uid_1/job_12/step_0/x",
            Some("/slurm/uid_1/job_12/step_0"),
        ),
        ("/system.slice/ssh.service", None),
        ("", None),
    ];
    for (path, expected) in cases {
        let path = fill(path);
        let top = read(CgroupId(7), &path, "").top;
        assert_eq!(top, expected.map(fill).as_deref(), "{path}");
    }
}

#[test]
fn nspawn_and_libvirt_paths_are_classified() {
    check(&[
        (
            "/machine.slice/systemd-nspawn@deb\\x2d12.service/payload/init.scope",
            "systemd-nspawn deb-12 (deb-12) | unit systemd-nspawn@deb\\x2d12.service",
        ),
        (
            "/machine.slice/systemd-nspawn@deb.service/supervisor",
            "systemd-nspawn deb (deb) Helper | unit systemd-nspawn@deb.service",
        ),
        (
            "/machine.slice/machine-deb.scope/payload",
            "systemd-nspawn deb (deb) | unit machine-deb.scope",
        ),
        // A machine that is not registered with machined.
        (
            "/machine.slice/deb\\x2d12.scope/payload/init.scope",
            "systemd-nspawn deb-12 (deb-12) | unit deb\\x2d12.scope",
        ),
        (
            "/machine.slice/deb.scope/supervisor",
            "systemd-nspawn deb (deb) Helper | unit deb.scope",
        ),
        (
            "/system.slice/guest.service/payload/system.slice/cron.service",
            "systemd-nspawn guest (guest) | unit guest.service",
        ),
        // The conmon of podman is also in such a group.
        ("/system.slice/web.service/supervisor", "unit web.service"),
        ("/a/payload", ""),
        (
            "/machine.slice/machine-qemu\\x2d1\\x2dmy\\x2dvm.scope/libvirt/vcpu0",
            "libvirt qemu-1-my-vm (my-vm) | unit machine-qemu\\x2d1\\x2dmy\\x2dvm.scope",
        ),
        (
            "/machine/qemu-3-vm.libvirt-qemu/emulator",
            "libvirt qemu-3-vm (vm)",
        ),
    ]);
}

#[test]
fn paths_of_other_runtimes_are_classified() {
    check(&[
        ("/ecs/{U}/{A}", "ecs {A}"),
        (
            "/ecs/cluster/0123456789abcdef0123456789abcdef/{A}",
            "ecs {A}",
        ),
        (
            "/ecstasks.slice/ecstasks-0123456789abcdef0123456789abcdef.slice/docker-{A}.scope",
            "ecs {A} | unit docker-{A}.scope",
        ),
        (
            "/ecs/0123456789abcdef0123456789abcdef/0123456789abcdef0123456789abcdef-1234",
            "ecs 0123456789abcdef0123456789abcdef-1234",
        ),
        ("/lxc.payload.web/init.scope", "lxc web (web)"),
        ("/lxc.payload/web/ns", "lxc web (web)"),
        ("/lxc/101/ns/system.slice/ssh.service", "lxc 101 (101)"),
        ("/lxc.monitor.web", "lxc web (web) Helper"),
        ("/lxc.monitor/101", "lxc 101 (101) Helper"),
        ("/lxc", ""),
        (
            "/nomad.slice/share.slice/{U}.web.scope",
            "nomad {U}.web (web) | unit {U}.web.scope",
        ),
        ("/nomad/reserved/{U}.web", "nomad {U}.web (web)"),
        (
            "/nomad.slice/docker-{A}.scope",
            "docker {A} | unit docker-{A}.scope",
        ),
        ("/nomad.slice/share.slice", ""),
        (
            "/garden/e91ae9ae-4cbf-4a7d-5f8d-6da1",
            "garden e91ae9ae-4cbf-4a7d-5f8d-6da1",
        ),
        ("/slurm/uid_1000/job_12/step_0/task_1", "slurm 12.0"),
        ("/slurm_node1/uid_1000/job_12/step_batch", "slurm 12.batch"),
        ("/slurm/uid_1000/job_12", "slurm 12"),
        (
            "/system.slice/slurmstepd.scope/job_12/step_extern/user/task_special",
            "slurm 12.extern | unit slurmstepd.scope",
        ),
        (
            "/system.slice/n1_slurmstepd.scope/job_12/step_0/slurm",
            "slurm 12.0 Helper | unit n1_slurmstepd.scope",
        ),
        (
            "/system.slice/slurmstepd.scope/s5K1KKYAYG5D00/step_0/user",
            "slurm s5K1KKYAYG5D00.0 | unit slurmstepd.scope",
        ),
        (
            "/system.slice/slurmstepd.scope/system",
            "unit slurmstepd.scope",
        ),
        ("/job_12/step_0", ""),
        (
            "/system.slice/runc-job-7.scope",
            "oci job-7 (job-7) | unit runc-job-7.scope",
        ),
        ("/plain-runc-name", ""),
    ]);
}

#[test]
fn unit_and_daemon_paths_are_classified() {
    check(&[
        ("/system.slice/nginx.service", "unit nginx.service"),
        (
            "/system.slice/system-postgresql.slice/postgresql@15-main.service",
            "unit postgresql@15-main.service",
        ),
        (
            "/user.slice/user-1000.slice/session-2.scope",
            "unit session-2.scope",
        ),
        (
            "/user.slice/user-1000.slice/user@1000.service/app.slice/app-vim\\x2d9.scope",
            "unit 1000:app-vim\\x2d9.scope",
        ),
        // The managers of the system and of root have a unit of this name, and the directories of
        // root's own manager belong to root.
        ("/system.slice/dbus.service", "unit dbus.service"),
        (
            "/user.slice/user-0.slice/user@0.service/app.slice/dbus.service",
            "unit 0:dbus.service",
        ),
        (
            "/user.slice/user-0.slice/user@0.service/init.scope",
            "unit 0:init.scope",
        ),
        (
            "/user.slice/user-0.slice/user@0.service",
            "unit user@0.service",
        ),
        ("/system.slice/user@x.service/a.service", "unit a.service"),
        ("/init.scope", "unit init.scope"),
        ("/system.slice/_cpu.service", "unit cpu.service"),
        (
            "/system.slice/nginx.service/delegated/leaf",
            "unit nginx.service",
        ),
        ("/system.slice/home.mount", ""),
        ("/system.slice/.service", ""),
        (
            "/runtime.slice/containerd.service",
            "unit containerd.service",
        ),
        ("/runtime.slice", ""),
        ("/kube.slice/kubelet.service", "unit kubelet.service"),
        ("/kube.slice", ""),
        (
            "/azure.slice/walinuxagent.service",
            "unit walinuxagent.service",
        ),
        ("/podruntime.slice/kubelet.service", "unit kubelet.service"),
        ("/system/apid", ""),
        ("/", ""),
        ("//..//system.slice/./a.service//", "unit a.service"),
    ]);
}

#[test]
fn an_empty_path_is_the_root() {
    assert_eq!(classify(CgroupId(1), "").path, "/");
}

/// A small random number generator that yields the same paths in each run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides as u64) as usize
    }

    fn path(&mut self) -> String {
        #[rustfmt::skip]
        const PARTS: [&str; 46] = [
            "/", "/", "/", "/", "/", "/", "{A}", "{B}", "{U}", "{u}", "docker", "docker-", ".scope",
            ".service", ".slice", "kubepods", "-pod", "pod", "burstable", "crio-", "conmon-", ":",
            "libpod_parent", "cri-containerd", "lxc.payload.", "machine.slice", "machine-", "\\x2d",
            "\\x", "\\xff", "..", ".", "\n", "\0", "\u{fffd}", "\u{202e}", "é", "-", "_", "job_",
            "step_", "1", "slurm", "nomad", "qemu-1-", "\u{1f980}",
        ];
        let len = self.roll(24);
        (0..len)
            .map(|_| fill(PARTS[self.roll(PARTS.len())]))
            .collect()
    }
}

#[test]
fn random_paths_never_panic_and_keep_their_container() {
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    for _ in 0..50_000 {
        let path = dice.path();
        let owner = classify(CgroupId(7), &path);
        if let Some(container) = &owner.container {
            assert!(!container.id.is_empty(), "{path:?}");
            let below = match container.role {
                ContainerRole::Helper => format!("{path}/0/sub.service"),
                _ => fill(&format!("{path}/0/docker/{B}")),
            };
            let below = classify(CgroupId(7), &below);
            assert_eq!(below.container, owner.container, "{path:?}");
            assert_eq!((below.pod, below.unit), (owner.pod, owner.unit), "{path:?}");
        }
    }
    for huge in [
        "/x".repeat(1 << 20),
        "docker-".repeat(1 << 20),
        format!("/docker/{A}").repeat(999),
    ] {
        classify(CgroupId(7), &huge);
    }
}
