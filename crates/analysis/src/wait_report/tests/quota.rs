//! Reports of groups with quotas.

use super::*;

/// Returns a pod with two containers. A quota throttles the sidecar in each period. The main
/// container has no quota and waits for a hog. `ids` are the ids of their groups.
fn pod_with_sidecar(ids: [u64; 2], main_ms: u64, level: Level) -> WaitReport {
    let [sidecar, main] = ids;
    let in_pod = |id, container: &str, ran_ms: u64| {
        let mut row = group(id, &format!("/pods/p/{container}"), 0, 0, 0);
        row.owner = Some(Arc::new(Owner {
            pod: Some(noctule_model::Pod {
                uid: "p".into(),
                qos: "burstable",
                name: None,
                namespace: None,
            }),
            ..(*owner(id, &format!("/pods/p/{container}"))).clone()
        }));
        row.counters[Counter::CpuTime] = ran_ms * MS;
        row
    };
    let quota = |periods| QuotaRow {
        cgroup: CgroupId(sidecar),
        path: "/pods/p/sidecar".into(),
        cpus: 0.01,
        period_ns: 100 * MS,
        periods,
        throttled_periods: periods,
        throttled_ns: periods * 99 * MS,
        ended: false,
    };
    let mut builder = ReportBuilder::new(Batch {
        quotas: vec![quota(0)],
        ..Batch::default()
    });
    let mut sidecar = in_pod(sidecar, "sidecar", 10);
    sidecar.counters[Counter::Wait(Cause::Throttle)] = 490 * MS;
    let mut main_row = in_pod(main, "main", main_ms);
    main_row.counters[Counter::Wait(Cause::Neighbour)] = main_ms * MS;
    builder.add(Batch {
        taken_ns: 1000 * MS,
        cgroups: vec![sidecar, main_row, group(40, "/hog", 0, 0, 0)],
        blames: vec![cell(main, of(40), main_ms)],
        quotas: vec![quota(10)],
        ..Batch::default()
    });
    builder.waits(level, false, &Thresholds::default())
}

#[test]
fn sidecar_quota_does_not_clear_the_pods_neighbour() {
    for ids in [[10, 11], [11, 10]] {
        let report = pod_with_sidecar(ids, 500, Level::Pod);
        let pods = report.rows.iter();
        let mut pods = pods.filter(|row| matches!(&row.party, Party::Group(o) if o.pod.is_some()));
        let pod = pods.next().expect("the pod");
        assert_eq!(pod.verdict.kind, VerdictKind::QuotaAndNeighbours);
        let quota = pod.quota.as_ref().expect("it throttled the pod");
        assert_eq!(quota.group.as_deref(), Some("/pods/p/sidecar"));
        // If nearly all runnable time is in the sidecar, the sidecar's quota holds the pod back.
        let report = pod_with_sidecar(ids, 20, Level::Pod);
        assert_eq!(report.rows[0].verdict.kind, VerdictKind::HeldByQuota);
        assert!(report.rows[0].verdict.evidence.quota_binds);
        // By cgroup, only the row of the sidecar has the sidecar's quota.
        let report = pod_with_sidecar(ids, 500, Level::Cgroup);
        let sidecar = row(&report, Level::Cgroup, "/pods/p/sidecar");
        let quota = sidecar.quota.as_ref().expect("its own");
        assert_eq!((quota.cpus, quota.group.as_deref()), (0.01, None));
        assert_eq!(sidecar.verdict.kind, VerdictKind::HeldByQuota);
        let main = row(&report, Level::Cgroup, "/pods/p/main");
        assert_eq!(
            (main.quota.clone(), main.verdict.kind),
            (None, VerdictKind::HurtByNeighbour)
        );
    }
}

/// The sidecar hardly runs and is always throttled. The quota of the pod throttles the other
/// container in each period.
#[test]
fn binding_quota_outranks_longer_throttling() {
    let quota = |id, path: &str, throttled_ns: u64| QuotaRow {
        cgroup: CgroupId(id),
        path: path.into(),
        cpus: 0.5,
        period_ns: 100 * MS,
        periods: throttled_ns.min(10),
        throttled_periods: throttled_ns.min(10),
        throttled_ns,
        ended: false,
    };
    let quotas =
        |outer: u64, inner: u64| vec![quota(1, "/pod", outer), quota(2, "/pod/side", inner)];
    let first = Batch {
        quotas: quotas(0, 0),
        ..Batch::default()
    };
    let last = Batch {
        quotas: quotas(500 * MS, 990 * MS),
        ..Batch::default()
    };
    let throttled = Throttled::between(&first.quotas, last.quotas.iter(), |_| false, &[], SECOND);
    let member = |path: &str, ms| Member {
        path: path.into(),
        wanted_ns: ms * MS,
    };
    let members = [member("/pod/main", 900), member("/pod/side", 5)];
    let row = |id, path| Draft::new(Party::Group(owner(id, path))).finish();
    let pod = throttled.of(&row(1, "/pod"), &members, SECOND);
    let pod = pod.expect("both throttled it");
    assert!(pod.binds() && pod.group.is_none(), "{pod:?}");
    let side = throttled.of(&row(2, "/pod/side"), &members[1..], SECOND);
    assert_eq!(side.expect("its own").group, None);
    // Both quotas bind. The row gets its own quota, because the outer quota would not have granted
    // more.
    let last = Batch {
        quotas: quotas(990 * MS, 500 * MS),
        ..Batch::default()
    };
    let throttled = Throttled::between(&first.quotas, last.quotas.iter(), |_| false, &[], SECOND);
    let side = throttled.of(&row(2, "/pod/side"), &members[1..], SECOND);
    assert_eq!(side.expect("its own").group, None);
}

/// A group with a quota of 0.45 CPUs and a busy neighbour.
struct Limited {
    window_ms: u64,
    periods: [u64; 2],
    cpu_ms: u64,
    throttled_ms: u64,
    neighbour_ms: u64,
    ended: bool,
}

fn judged(scene: &Limited) -> (VerdictKind, QuotaUse) {
    let quota = |[periods, throttled_periods]: [u64; 2], ms: u64, ended| QuotaRow {
        cgroup: CgroupId(10),
        path: "/victim".into(),
        cpus: 0.45,
        period_ns: 100 * MS,
        periods,
        throttled_periods,
        throttled_ns: ms * MS,
        ended,
    };
    let mut builder = ReportBuilder::new(Batch {
        quotas: vec![quota([0; 2], 0, false)],
        ..Batch::default()
    });
    let mut victim = group(10, "/victim", 0, 0, scene.neighbour_ms);
    victim.counters[Counter::CpuTime] = scene.cpu_ms * MS;
    victim.counters[Counter::Wait(Cause::Throttle)] = scene.throttled_ms * MS;
    builder.add(Batch {
        taken_ns: scene.window_ms * MS,
        cgroups: vec![victim, group(20, "/hog", 0, 0, 0)],
        blames: vec![cell(10, of(20), scene.neighbour_ms)],
        quotas: vec![quota(scene.periods, scene.throttled_ms, scene.ended)],
        ..Batch::default()
    });
    let report = builder.waits(Level::Cgroup, false, &Thresholds::default());
    let victim = row(&report, Level::Cgroup, "/victim");
    (victim.verdict.kind, victim.quota.clone().expect("its own"))
}

#[test]
fn quota_is_blamed_if_the_neighbour_hardly_matters() {
    let used_up = Limited {
        window_ms: 4000,
        periods: [40, 39],
        cpu_ms: 1809,
        throttled_ms: 301,
        neighbour_ms: 1890,
        ended: false,
    };
    let (kind, quota) = judged(&used_up);
    assert_eq!((kind, quota.gain), (VerdictKind::HeldByQuota, 0.0));
    // The neighbour leaves the group nearly as much as the quota, which seldom runs out.
    let nearly = Limited {
        periods: [40, 1],
        cpu_ms: 1760,
        throttled_ms: 3,
        neighbour_ms: 2237,
        ..used_up
    };
    let (kind, quota) = judged(&nearly);
    assert_eq!(kind, VerdictKind::HeldByQuota);
    assert!((0.02..0.03).contains(&quota.gain), "{quota:?}");
    // The quota was first read in the window, so its periods are unknown.
    let unread = Limited {
        periods: [0, 0],
        ..nearly
    };
    assert_eq!(judged(&unread).0, VerdictKind::HeldByQuota);
    // The quota runs out while the neighbour sleeps, which is half of the time.
    let bursts = Limited {
        periods: [26, 20],
        cpu_ms: 1000,
        throttled_ms: 1000,
        neighbour_ms: 2000,
        ..used_up
    };
    assert_eq!(judged(&bursts).0, VerdictKind::QuotaAndNeighbours);
    // The neighbour leaves the group much less than the quota.
    let starved = Limited {
        periods: [40, 4],
        cpu_ms: 1200,
        throttled_ms: 20,
        neighbour_ms: 2780,
        ..used_up
    };
    let (kind, quota) = judged(&starved);
    assert_eq!(kind, VerdictKind::HurtByNeighbour);
    assert!((0.45..0.55).contains(&quota.gain), "{quota:?}");
}

#[test]
fn quota_periods_after_the_last_process_do_not_count() {
    let mut job = Limited {
        window_ms: 1000,
        periods: [5, 3],
        cpu_ms: 145,
        throttled_ms: 20,
        neighbour_ms: 170,
        ended: false,
    };
    assert_eq!(judged(&job).0, VerdictKind::HurtByNeighbour);
    job.ended = true;
    let (kind, quota) = judged(&job);
    assert_eq!((quota.periods, quota.throttled_periods), (3, 3));
    assert_eq!(kind, VerdictKind::HeldByQuota);
}

/// Two services share the quota of a slice, and something else runs outside the slice.
#[test]
fn only_users_of_a_shared_limit_are_blamed() {
    let limited = |periods| QuotaRow {
        cgroup: CgroupId(1),
        path: "/slice".into(),
        cpus: 1.0,
        period_ns: 100 * MS,
        periods,
        throttled_periods: periods,
        throttled_ns: periods * 90 * MS,
        ended: false,
    };
    let judged = |culprits: &[(&str, u64)]| {
        let mut builder = ReportBuilder::new(Batch {
            quotas: vec![limited(0)],
            ..machine()
        });
        let mut victim = group(10, "/slice/a", 0, 0, 0);
        victim.counters[Counter::CpuTime] = 300 * MS;
        victim.counters[Counter::Wait(Cause::Throttle)] = 300 * MS;
        let waited = culprits.iter().map(|(_, ms)| ms * MS).sum();
        victim.counters[Counter::Wait(Cause::Neighbour)] = waited;
        let others = (20..).zip(culprits);
        let groups = others
            .clone()
            .map(|(id, (path, _))| group(id, path, 0, 0, 0));
        builder.add(Batch {
            taken_ns: 1000 * MS,
            cgroups: [victim].into_iter().chain(groups).collect(),
            blames: others.map(|(id, (_, ms))| cell(10, of(id), *ms)).collect(),
            quotas: vec![limited(10)],
            ..machine()
        });
        let report = builder.waits(Level::Cgroup, false, &Thresholds::default());
        let row = row(&report, Level::Cgroup, "/slice/a");
        let culprit = row.verdict.culprit.as_ref();
        let culprit = culprit.map(|it| it.name(Level::Cgroup));
        let named = report.reason(row, Level::Cgroup).culprits;
        let named: Vec<String> = named.into_iter().map(|it| it.name).collect();
        (row.verdict.kind, culprit, named.join(", "))
    };
    let (kind, culprit, named) = judged(&[("/slice/b", 150), ("/hog", 250)]);
    assert_eq!(kind, VerdictKind::QuotaAndNeighbours);
    assert_eq!(
        (culprit.as_deref(), &*named),
        (Some("/slice/b"), "/slice/b")
    );
    let (kind, culprit, named) = judged(&[("/slice/b", 20), ("/hog", 250)]);
    assert_eq!((kind, culprit), (VerdictKind::HeldByQuota, None));
    assert_eq!(named, "/hog", "what cost it nothing");
    // Jobs below the quota count as one culprit.
    let jobs: Vec<String> = (0..10).map(|n| format!("/slice/ci/{n}")).collect();
    let mut jobs: Vec<(&str, u64)> = jobs.iter().map(|job| (&**job, 30)).collect();
    let of_jobs = "slice/ci/*: 10 jobs".to_owned();
    let all_jobs = (
        VerdictKind::QuotaAndNeighbours,
        Some(of_jobs.clone()),
        of_jobs,
    );
    assert_eq!(judged(&jobs), all_jobs);
    // The verdict is the same if a group outside `slice/ci` had the CPU for longer.
    jobs.push(("/hog", 900));
    assert_eq!(judged(&jobs), all_jobs);
}
