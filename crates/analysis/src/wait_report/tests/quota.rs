//! Reports of groups with quotas.

use super::*;

/// A pod of a sidecar, which its limit holds back in each period, and a main container without a limit, which
/// waits behind a hog; `ids` are those of their groups.
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
fn the_quota_of_one_container_clears_no_neighbour_of_another_one_in_the_pod() {
    for ids in [[10, 11], [11, 10]] {
        let report = pod_with_sidecar(ids, 500, Level::Pod);
        let pods = report.rows.iter();
        let mut pods = pods.filter(|row| matches!(&row.party, Party::Group(o) if o.pod.is_some()));
        let pod = pods.next().expect("the pod");
        assert_eq!(pod.verdict.kind, VerdictKind::QuotaAndNeighbours);
        let quota = pod.quota.as_ref().expect("it throttled the pod");
        assert_eq!(quota.group.as_deref(), Some("/pods/p/sidecar"));
        // Where nearly all that wanted the CPU is in that container, its limit is what holds the pod.
        let report = pod_with_sidecar(ids, 20, Level::Pod);
        assert_eq!(report.rows[0].verdict.kind, VerdictKind::HeldByQuota);
        assert!(report.rows[0].verdict.evidence.quota_binds);
        // By itself the container has its own limit.
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

/// The sidecar hardly runs, and is throttled all the time; the limit of all holds the other one in each period.
#[test]
fn a_quota_that_binds_comes_before_one_that_throttled_for_longer() {
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
    let throttled = Throttled::between(&first.quotas, last.quotas.iter(), |_| false);
    let member = |path: &str, ms| Member {
        path: path.into(),
        wanted_ns: ms * MS,
    };
    let members = [member("/pod/main", 900), member("/pod/side", 5)];
    let pod = throttled.of(&Party::Group(owner(1, "/pod")), &members);
    let pod = pod.expect("both throttled it");
    assert!(pod.binds() && pod.group.is_none(), "{pod:?}");
    let side = throttled.of(&Party::Group(owner(2, "/pod/side")), &members[1..]);
    assert_eq!(side.expect("its own").group, None);
    // Both bind: the limit above would not have given it what its own denies.
    let last = Batch {
        quotas: quotas(990 * MS, 500 * MS),
        ..Batch::default()
    };
    let throttled = Throttled::between(&first.quotas, last.quotas.iter(), |_| false);
    let side = throttled.of(&Party::Group(owner(2, "/pod/side")), &members[1..]);
    assert_eq!(side.expect("its own").group, None);
}

/// Two services share the limit of a slice, and something else runs beside the slice.
#[test]
fn who_uses_up_a_shared_limit_is_accused_and_who_is_outside_is_not() {
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
    // Jobs below the limit are one culprit.
    let jobs: Vec<String> = (0..10).map(|n| format!("/slice/ci/{n}")).collect();
    let mut jobs: Vec<(&str, u64)> = jobs.iter().map(|job| (&**job, 30)).collect();
    let of_jobs = "slice/ci/*: 10 jobs".to_owned();
    let all_jobs = (
        VerdictKind::QuotaAndNeighbours,
        Some(of_jobs.clone()),
        of_jobs,
    );
    assert_eq!(judged(&jobs), all_jobs);
    // Also where who is outside had the CPU for longer.
    jobs.push(("/hog", 900));
    assert_eq!(judged(&jobs), all_jobs);
}
