//! The JSON of `stat` and `doctor`.
#![allow(clippy::unwrap_used, reason = "clippy takes helpers of tests for code")]

mod fixture;

use std::collections::BTreeSet;
use std::sync::Arc;

use fixture::{CONTAINER, SECOND, container, measured, owner, process, ran, small, unit};
use noctule_analysis::{
    EnergyReport, IdleEnergy, KindReport, Report, ReportBuilder, Row, Thresholds, ZoneReport,
};
use noctule_model::{
    Batch, ByPackage, Driver, EnergySource, EventCounter, EventFamily, Events, FeatureState,
    Joules, Level, Loss, Measured, Node, Owner, Sockets, Unread, UnreadZone, Zone, ZoneAccount,
    ZoneKind,
};
use noctule_sinks::json::{
    AgentFacts, CgroupMount, Recorded, doctor_json, energy_json, node_json, pairs_json, stat_json,
    waits_json,
};
use serde_json::{Value, json};

fn row(owner: Owner, ns: u64) -> Row {
    Row {
        process: None,
        command: None,
        owner: Arc::new(owner),
        counters: ran(ns),
        joules: Joules::default(),
        packages: ByPackage::default(),
        events: None,
    }
}

fn report(rows: Vec<Row>) -> Report {
    Report {
        window_ns: 5_500_000_000,
        from_unix_ns: 1_700_000_094_500_000_000,
        time_unix_ns: 1_700_000_100 * SECOND,
        boot_unix_ns: 1_700_000_000 * SECOND,
        node: Node {
            cpus: 4,
            elapsed_ns: 22 * SECOND,
            idle_ns: 20 * SECOND,
            steal_ns: Some(SECOND / 2),
            idle_switches: 0,
            total: ran(SECOND),
            nominal_hertz: Some(2_000_000_000),
            ..Node::default()
        },
        sockets: Sockets::default(),
        packages: Vec::new(),
        measured: measured(),
        rows,
        unrecorded_ns: SECOND / 4,
        energy: None,
        losses: vec![Loss {
            kind: "exit_record",
            place: "exits",
            count: 7,
        }],
        features: small().features,
    }
}

fn rows(report: &Report, level: Level) -> Vec<Value> {
    let stat: Value = serde_json::from_str(&stat_json(report, level)).unwrap();
    stat["rows"].as_array().unwrap().clone()
}

#[test]
fn stat_json_has_the_documented_shape_by_process() {
    let mut process_row = process(4711, "a\"\n\x1b", container(71, Some("cart")), SECOND);
    process_row.exited = true;
    let mut row = row(container(71, Some("cart")), SECOND);
    row.process = Some(process_row);
    let text = stat_json(&report(vec![row]), Level::Process);
    assert!(!text.contains('\n') && !text.contains('\x1b'), "{text}");
    let expected = json!({
        "window_seconds": 5.5,
        "from_unix_nano": 1_700_000_094_500_000_000_u64,
        "to_unix_nano": 1_700_000_100_000_000_000_u64,
        "cpus": 4,
        "idle_seconds": 20.0,
        "rows": [{
            "process.pid": 4711,
            "process.creation.time_unix_nano": 1_700_000_005_250_000_000_u64,
            "process.parent_pid": 1,
            "process.executable.name": "a\"\n\u{1b}",
            "process.linux.cgroup": format!("/kubepods.slice/cri-containerd-{CONTAINER}.scope"),
            "cgroup.id": 71,
            "container.id": CONTAINER,
            "container.name": "cart",
            "container.runtime.name": "containerd",
            "k8s.pod.uid": "0f6a5bd4-1d8c-4f7b-9d6e-5a4b3c2d1e0f",
            "k8s.pod.name": "shop-5c9",
            "k8s.namespace.name": "prod",
            "systemd.unit": format!("cri-containerd-{CONTAINER}.scope"),
            "cpu.seconds": 1.0,
            "cpu.cycles": 3_000_000_000_u64,
            "cpu.reference_cycles": 2_000_000_000_u64,
            "cpu.frequency_hertz": 3e9,
            "page_cache.reads": 1000,
            "softirqs": {"timer": 0, "net_rx": 5},
            "switches.voluntary": 7,
            "switches.preempted": 2,
            "exited": true,
        }],
        "remainder_seconds": 1.0,
        "steal_seconds": 0.5,
        "unrecorded_seconds": 0.25,
        "losses": {"exit_record": 7},
        "features": [
            {"name": "cpu_time", "state": "on", "reason": "se.sum_exec_runtime"},
            {"name": "cache_misses", "state": "off", "reason": "perf_event_open: \"ENOENT\""},
        ],
    });
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), expected);
}

#[test]
fn the_row_of_a_command_has_the_number_of_processes() {
    let rows_of = |processes: [u32; 2]| {
        let row = |pid| {
            let mut row = row(container(71, Some("cart")), SECOND);
            let owner = container(71, Some("cart"));
            row.process = Some(process(pid, "true", owner, SECOND));
            row
        };
        rows(
            &report(processes.map(row).into()).by_command(),
            Level::Process,
        )
    };
    let [row] = &rows_of([7, 8])[..] else {
        panic!("one row");
    };
    let fields = [
        "process.executable.name",
        "processes",
        "kernel_thread",
        "name",
        "cpu.seconds",
    ];
    let expected = [
        json!("true"),
        json!(2),
        json!(false),
        json!("prod/shop-5c9/cart"),
        json!(2.0),
    ];
    assert_eq!(fields.map(|field| row[field].clone()), expected);
    assert_eq!(row.get("process.pid"), None);
}

#[test]
fn measured_events_have_keys() {
    let mut events = Events {
        sockets: Sockets {
            connections: 3,
            listeners: 1,
        },
        ..Events::default()
    };
    for (i, counter) in (1..).zip(EventCounter::all()) {
        events.counters[counter] = i;
    }
    let mut row = row(owner(1, "/"), SECOND);
    row.events = Some(events);
    let mut report = report(vec![row]);
    report.node.events = events.counters;
    report.sockets = events.sockets;
    report.measured = EventCounter::all().collect();
    let reported = |report: &Report| {
        let stat: Value = serde_json::from_str(&stat_json(report, Level::Cgroup)).unwrap();
        let row = stat["rows"][0].as_object().unwrap().clone();
        let of_event = |key: &str| !["name", "process.linux.cgroup", "cgroup.id"].contains(&key);
        let row = row.into_iter().filter(|(key, _)| of_event(key)).collect();
        (stat.get("node").cloned(), Value::Object(row))
    };
    let expected = json!({
        "process.starts": 1,
        "process.exits": {"completed": 2, "failed": 3, "killed": 4, "oom": 5},
        "oom.kills": 6,
        "tcp.connects": 7,
        "tcp.connect_failures":
            {"refused": 8, "timeout": 9, "abandoned": 10, "unreachable": 11, "other": 12},
        "tcp.accepts": 14,
        "tcp.retransmits": 15,
        "tcp.bytes_sent": 16,
        "tcp.bytes_received": 17,
        "tcp.connections": 3,
        "tcp.listeners": 1,
        "file.opens": {"read": 18, "write": 19},
        "file.open_failures": 20,
    });
    assert_eq!(reported(&report), (Some(expected.clone()), expected));

    report.measured = EventFamily::Files.counters().collect();
    let files = json!({"file.opens": {"read": 18, "write": 19}, "file.open_failures": 20});
    assert_eq!(reported(&report), (Some(files.clone()), files));
    report.rows[0].events = None;
    report.measured = Measured::NONE;
    assert_eq!(reported(&report), (None, json!({})));
}

#[test]
fn control_characters_are_escaped_without_changing_values() {
    let path = "/\u{9b}31m\u{7f}\u{202e}\u{feff}größe\u{fffd}";
    let text = stat_json(&report(vec![row(owner(1, path), 1)]), Level::Cgroup);
    let obeyed = |c: char| c.is_control() || "\u{202e}\u{feff}".contains(c);
    assert!(!text.contains(obeyed), "{text:?}");
    assert!(text.contains("größe\u{fffd}"), "nothing else: {text}");
    let stat: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(stat["rows"][0]["process.linux.cgroup"], path);
}

#[test]
fn unmeasured_values_have_no_key() {
    let mut report = report(vec![row(owner(1, "/"), SECOND)]);
    report.measured = Measured::NONE;
    let text = stat_json(&report, Level::Cgroup);
    let stat: Value = serde_json::from_str(&text).unwrap();
    let expected = json!({"name": "(root)", "process.linux.cgroup": "/", "cgroup.id": 1});
    assert_eq!(stat["rows"][0], expected);
    assert_eq!(stat.get("remainder_seconds"), None);
    assert!(!text.contains("null"));
}

#[test]
fn row_that_did_not_run_has_no_frequency() {
    let report = report(vec![row(owner(1, "/"), 0)]);
    let row = &rows(&report, Level::Cgroup)[0];
    assert_eq!(row.get("cpu.frequency_hertz"), None);
    assert_eq!(row["cpu.seconds"], 0.0);
}

#[test]
fn row_has_only_keys_common_to_all_its_groups() {
    let report = report(vec![row(container(71, Some("cart")), SECOND)]);
    let has = |level, key: &str| rows(&report, level)[0].get(key).is_some();
    let cases = [
        (Level::Container, "container.id", true),
        (Level::Container, "k8s.pod.uid", true),
        (Level::Pod, "k8s.pod.uid", true),
        (Level::Pod, "container.id", false),
        (Level::Pod, "cgroup.id", false),
        (Level::Unit, "systemd.unit", true),
        (Level::Unit, "container.id", false),
        (Level::Cgroup, "container.id", true),
        (Level::Cgroup, "process.pid", false),
        (Level::Cgroup, "exited", false),
    ];
    for (level, key, expected) in cases {
        assert_eq!(has(level, key), expected, "{level:?} {key}");
    }
}

#[test]
fn helper_has_no_container_id_and_unknown_group_no_path() {
    let mut helper = container(71, Some("cart"));
    helper.container.as_mut().unwrap().role = noctule_model::ContainerRole::Helper;
    let unknown = Owner::unknown(noctule_model::CgroupId(9));
    let report = report(vec![
        row(helper, 2),
        row(unit(72, "u.service"), 1),
        row(unknown, 1),
    ]);
    for level in [Level::Container, Level::Cgroup] {
        let rows = rows(&report, level);
        assert_eq!(rows[0].get("container.id"), None);
        assert_eq!(rows[1]["systemd.unit"], "u.service");
        assert_eq!(rows[2].get("process.linux.cgroup"), None);
        assert_eq!(rows[2]["cgroup.id"], 9);
    }
}

#[test]
fn doctor_gives_advice_where_a_fix_exists() {
    let doctor: Value = serde_json::from_str(&doctor_json(&small().features, &[], &[])).unwrap();
    let expected = json!({"features": [
        {"name": "cpu_time", "state": "on", "reason": "se.sum_exec_runtime"},
        {"name": "cache_misses", "state": "off", "reason": "perf_event_open: \"ENOENT\"",
         "mend": "run on hardware with a PMU"},
    ], "meters": []});
    assert_eq!(doctor, expected);
}

/// A package that used 30 J, 10.000001 J of which were charged.
fn energy() -> EnergyReport {
    let account = ZoneAccount {
        total_uj: 30_000_001,
        idle_uj: 20_000_000,
        active_uj: 10_000_001,
        driver: Driver::Cycles,
        idle_watts: Some(3.5),
        ..ZoneAccount::default()
    };
    let zone = Zone {
        socket: Some(0),
        path: "/sys/class/powercap/intel-rapl:0".into(),
        ..Zone::powercap(ZoneKind::Package, "package-0")
    };
    EnergyReport {
        zones: vec![ZoneReport {
            zone,
            account,
            error_ratio: Some(0.02),
            state: FeatureState::On,
            reason: None,
            still: false,
            gaps: 0,
            failed_ns: 0,
        }],
        kinds: vec![KindReport {
            kind: ZoneKind::Package,
            source: EnergySource::Powercap,
            root: true,
        }],
        unrecorded: Joules::default(),
    }
}

#[test]
fn energy_is_exact_to_the_microjoule() {
    let mut cart = row(container(71, Some("cart")), SECOND);
    cart.joules[ZoneKind::Package] = 10_000_001;
    let mut report = report(vec![cart]);
    report.energy = Some(energy());
    let text = energy_json(&report, Level::Container, IdleEnergy::Node);
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(answer["idle"], "node");
    assert_eq!(
        answer["zones"],
        json!([{
            "zone": "package", "name": "package-0", "socket": 0, "source": "powercap",
            "path": "/sys/class/powercap/intel-rapl:0", "joules": 30.000001,
            "watts": 30_000_001.0 * 1e3 / 5.5e9, "idle_joules": 20.0, "active_joules": 10.000001,
            "interrupt_joules": 0.0, "other_joules": 0.0, "unattributed_joules": 0.0,
            "idle_watts": 3.5, "shared_by": "cycles", "error_ratio": 0.02, "in_total": true, "gaps": 0, "gap_seconds": 0.0, "state": "on",
        }])
    );
    let row = &answer["rows"][0];
    assert_eq!(row["container.id"], CONTAINER);
    assert_eq!(row["energy.joules"], json!({"package": 10.000001}));
    assert!(answer.get("unrecorded_joules").is_none());
    let process: Value =
        serde_json::from_str(&energy_json(&report, Level::Process, IdleEnergy::Node)).unwrap();
    assert_eq!(process["unrecorded_joules"], json!({"package": 0.0}));
}

#[test]
fn stat_has_joules_only_with_a_meter() {
    let mut report = report(vec![row(unit(3, "a.service"), SECOND)]);
    let stat = |report: &Report| -> Value {
        serde_json::from_str(&stat_json(report, Level::Unit)).unwrap()
    };
    assert!(stat(&report).get("energy").is_none());
    assert!(stat(&report)["rows"][0].get("energy.joules").is_none());
    report.energy = Some(energy());
    assert_eq!(stat(&report)["energy"]["zones"][0]["joules"], 30.000001);
    assert_eq!(
        stat(&report)["rows"][0]["energy.joules"],
        json!({"package": 0.0})
    );
}

#[test]
fn doctor_lists_energy_zones_and_reasons_for_unread_ones() {
    let zone = |name: &str, socket, parent| Zone {
        socket,
        parent,
        path: format!("/sys/{name}"),
        ..Zone::powercap(ZoneKind::Package, name)
    };
    let unread = |why| UnreadZone {
        zone: zone("other", None, None),
        why,
    };
    let read = [
        zone("psys", None, None),
        zone("package-1", Some(1), Some(0)),
    ];
    let others = [
        unread(Unread::Refused("Permission denied".into())),
        unread(Unread::Covered("/sys/psys".into())),
    ];
    let doctor: Value = serde_json::from_str(&doctor_json(&[], &read, &others)).unwrap();
    let meters = doctor["meters"].as_array().unwrap();
    assert_eq!(meters[0].get("part_of"), None);
    assert_eq!(meters[1]["part_of"], 0);
    assert_eq!(meters[1]["socket"], 1);
    assert_eq!(meters[1]["source"], "powercap");
    assert_eq!(meters[1]["resolution_microjoules"], 61);
    assert_eq!(meters[2]["refused"], "Permission denied");
    assert_eq!(meters[3]["covered_by"], "/sys/psys");
    assert!(meters[..2].iter().all(|it| it.get("refused").is_none()));
}

const DESCRIPTION: &str = include_str!("../../../docs/openapi.json");

/// Returns outputs with all optional keys, each with the name of its schema.
fn answers() -> Vec<(&'static str, String)> {
    let mut full = report(vec![row(container(71, Some("cart")), SECOND)]);
    full.measured = measured().or(EventCounter::all().collect());
    full.node.interrupt_ns = Some(1);
    full.node.steal_included_ns = Some(1);
    full.energy = Some(energy());
    let recorded = Recorded {
        from_unix_nano: 1,
        to_unix_nano: 2,
    };
    let cgroups = CgroupMount {
        mount: "/sys/fs/cgroup".into(),
        unified: true,
    };
    let facts = AgentFacts {
        sequence: 1,
        stalled_since: Some(1),
        host: "h",
        version: "1",
        recorded: Some(recorded),
        verdict_window_seconds: 10.0,
        cgroups: Some(&cgroups),
        cost: &noctule_model::AgentCost::default(),
        losses: &full.losses,
    };
    let mut window = ReportBuilder::new(Batch::default());
    window.add(fixture::waiting());
    let mut waits = window.waits(Level::Container, false, &Thresholds::default());
    waits.disks = Some(Vec::new());
    vec![
        ("Stat", stat_json(&full, Level::Process)),
        (
            "Energy",
            energy_json(&full, Level::Process, IdleEnergy::Node),
        ),
        ("Node", node_json(&full, &facts)),
        ("Doctor", doctor_json(&full.features, &[], &[])),
        ("Waits", waits_json(&waits, Level::Container)),
        ("Pairs", pairs_json(&waits, Level::Container)),
    ]
}

#[test]
fn openapi_description_has_every_sent_key() {
    let description: Value = serde_json::from_str(DESCRIPTION).unwrap();
    for (name, answer) in answers() {
        let schema = &description["components"]["schemas"][name];
        let described: BTreeSet<&String> =
            schema["properties"].as_object().unwrap().keys().collect();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let sent: BTreeSet<&String> = answer.as_object().unwrap().keys().collect();
        assert_eq!(described, sent, "{name}");
        // Otherwise the test of the running agent would accept unknown keys.
        assert_eq!(schema["additionalProperties"], false, "{name}");
    }
}
