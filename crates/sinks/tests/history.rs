//! The JSON of a time span.
#![allow(clippy::unwrap_used, reason = "clippy takes helpers of tests for code")]

use std::collections::HashMap;
use std::sync::Arc;

use noctule_analysis::{
    Accounts, Hurt, JudgedWindow, NodePoint, OwnerPoint, PackedRows, Party, PointRows, Power,
    TimePoint, TimeSpanQuery, TimelineView, WaitedFor,
};
use noctule_model::{Cause, CgroupId, Counter, Measured, Owner, Reason, VerdictKind};
use noctule_sinks::json::{
    GroupFacts, GroupSettings, HistoryRows, HistorySort, OomKill, episodes_json, group_json,
    history_json,
};
use serde_json::{Value, json};

const SECOND: u64 = 1_000_000_000;
const NAMES: [&str; 3] = ["listed.service", "quiet.service", "unlisted.service"];

fn party(id: u32) -> Party {
    Party::Group(Arc::new(Owner {
        unit: Some(NAMES[id as usize - 1].into()),
        ..Owner::unknown(CgroupId(u64::from(id)))
    }))
}

/// Three owners. The first and the third are slowed down, but the view has room for only one
/// finding.
fn view(judged: bool, measured: Measured) -> TimelineView {
    with_power(judged, measured, Power::Unknown)
}

fn with_power(judged: bool, measured: Measured, power: Power) -> TimelineView {
    let owners = (1..=3).map(|id| OwnerPoint {
        id,
        energy_uj: 3_500_000,
        ..OwnerPoint::default()
    });
    let rows = PointRows {
        owners: owners.collect(),
        ..PointRows::default()
    };
    let point = TimePoint {
        time_unix_ns: 10 * SECOND,
        length_ns: SECOND,
        node: NodePoint {
            measured,
            ..NodePoint::default()
        },
        rows: PackedRows::new(&rows, &[]),
        power,
        ..TimePoint::default()
    };
    let window = JudgedWindow {
        time_unix_ns: 10 * SECOND,
        window_ns: 5 * SECOND,
        findings: vec![Hurt {
            party: party(1),
            id: Some(1),
            culprit_id: None,
            kind: VerdictKind::HurtByHost,
            culprit: None,
            reason: Reason::default(),
            wait_ns: SECOND,
            hurt_ns: SECOND,
            behind: vec![WaitedFor {
                party: party(2),
                id: Some(2),
                wait_ns: SECOND / 2,
            }],
            since_unix_ns: 5 * SECOND,
        }],
        more: 1,
        unlisted: [(3, VerdictKind::HeldByQuota)].into(),
        accounts: Accounts::default(),
    };
    TimelineView {
        points: vec![Arc::new(point)],
        judged: judged.then(|| Arc::new(window)).into_iter().collect(),
        parties: Arc::new(HashMap::from([1, 2, 3].map(|id| (id, party(id))))),
        restarts: Vec::new(),
    }
}

fn answer(view: &TimelineView) -> Value {
    let query = TimeSpanQuery {
        from_unix_ns: 5 * SECOND,
        to_unix_ns: 10 * SECOND,
        steps: 5,
        waits_of: None,
        pair: Some((1, 2)),
        strips: 0,
    };
    let rows = HistoryRows {
        sort: HistorySort::Name,
        owners: 10,
        ..HistoryRows::default()
    };
    serde_json::from_str(&history_json(view, &query, &rows, &[])).unwrap()
}

/// Returns the name and the verdict of each owner's row.
fn verdicts(judged: bool) -> Vec<(Value, Value)> {
    let waits = Measured::NONE.with(Counter::Wait(Cause::Neighbour));
    let json = answer(&view(judged, waits));
    let rows = json["owners"].as_array().unwrap().iter();
    rows.map(|row| (row["name"].clone(), row["verdict"].clone()))
        .collect()
}

#[test]
fn unlisted_hurt_group_is_not_called_quiet() {
    let kinds = ["hurt_by_host", "quiet", "held_by_quota"];
    let rows = NAMES.iter().zip(kinds);
    let expected: Vec<(Value, Value)> = rows
        .map(|(name, kind)| (json!(name), json!({"kind": kind})))
        .collect();
    assert_eq!(verdicts(true), expected);
}

#[test]
fn without_a_judged_window_there_is_no_verdict() {
    let verdicts = verdicts(false).into_iter();
    assert!(verdicts.into_iter().all(|(_, it)| it == Value::Null));
}

#[test]
fn unmeasured_waits_have_no_keys() {
    let keys = |json: &Value| -> Vec<String> {
        let of = |value: &Value| value.as_object().unwrap().clone();
        of(json)
            .into_iter()
            .chain(of(&json["owners"][0]))
            .map(|(key, _)| key)
            .filter(|key| {
                let about = ["waits", "pairs", "pair", "now", "verdict", "causes"];
                about.contains(&key.as_str())
                    || key.ends_with("wait.seconds")
                    || key.starts_with("hurts")
            })
            .collect()
    };
    let without = answer(&view(true, Measured::NONE.with(Counter::CpuTime)));
    assert_eq!(keys(&without), Vec::<String>::new());
    let with = Measured::NONE.with(Counter::Wait(Cause::Neighbour));
    assert_eq!(keys(&answer(&view(true, with))).len(), 8);
}

#[test]
fn episodes_list_hurt_groups_and_oom_kills() {
    let view = view(true, Measured::NONE.with(Counter::Wait(Cause::Neighbour)));
    let kills = [OomKill {
        time_unix_ns: 9 * SECOND,
        party: party(3),
    }];
    let json = |most, kills| -> Value {
        serde_json::from_str(&episodes_json(&view, (0, u64::MAX), most, kills)).unwrap()
    };
    let all = json(5, Some(&kills));
    assert_eq!(all["rows"][0]["name"], NAMES[0]);
    let episode = &all["rows"][0]["episodes"][0];
    assert_eq!(episode["kind"], "hurt_by_host");
    assert_eq!(episode["from_unix_nano"], 5 * SECOND);
    assert_eq!(episode["wait.seconds"], 1.0);
    assert_eq!(episode["hurt.seconds"], 1.0);
    let kill = json!({"time_unix_nano": 9 * SECOND, "id": 3, "name": NAMES[2]});
    assert_eq!(all["oom_kills"], json!([kill]));
    assert_eq!(
        (&all["from_unix_nano"], &all["to_unix_nano"]),
        (&json!(9 * SECOND), &json!(10 * SECOND)),
        "the first point began there"
    );
    let none = json(0, None);
    assert_eq!((&none["rows"], &none["more"]), (&json!([]), &json!(1)));
    assert_eq!(none["oom_kills"], Value::Null, "events are not kept");
}

#[test]
fn episodes_before_the_first_point_are_left_out() {
    let mut view = view(true, Measured::NONE.with(Counter::Wait(Cause::Neighbour)));
    let mut point = TimePoint::clone(&view.points[0]);
    point.time_unix_ns = 20 * SECOND;
    view.points = vec![Arc::new(point)];
    let kills = [10, 20].map(|at| OomKill {
        time_unix_ns: at * SECOND,
        party: party(3),
    });
    let json = episodes_json(&view, (0, u64::MAX), 5, Some(&kills));
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["rows"], &json["more"]), (&json!([]), &json!(0)));
    let kills = json["oom_kills"].as_array().unwrap();
    assert_eq!(kills.len(), 1, "{kills:?}");
}

#[test]
fn group_answer_omits_facts_that_were_not_read() {
    let waits = Measured::NONE.with(Counter::Wait(Cause::Neighbour));
    let query = TimeSpanQuery {
        from_unix_ns: 5 * SECOND,
        to_unix_ns: 10 * SECOND,
        steps: 1,
        waits_of: None,
        pair: None,
        strips: 0,
    };
    let json = |id, facts: &GroupFacts| {
        let power = match facts.is_model {
            true => Power::Charged,
            false => Power::Unknown,
        };
        let view = with_power(true, waits, power);
        let json = group_json(&view, id, &query, facts, |_| Vec::new());
        json.map(|json| serde_json::from_str::<Value>(&json).unwrap())
    };
    let bare = json(1, &GroupFacts::default()).unwrap();
    assert_eq!(bare["hurt"]["verdict"]["kind"], "hurt_by_host");
    assert_eq!(bare["hurt"]["behind"][0]["name"], NAMES[1]);
    assert_eq!(bare["verdict"]["kind"], "hurt_by_host");
    let verdict = |id| json(id, &GroupFacts::default()).unwrap()["verdict"]["kind"].clone();
    assert_eq!(verdict(2), "quiet");
    assert_eq!(verdict(3), "held_by_quota", "its finding is not listed");
    for key in ["settings", "processes", "account", "energy.watts"] {
        assert_eq!(bare[key], Value::Null, "{key}");
    }
    let facts = GroupFacts {
        settings: Some(GroupSettings {
            limit: Some(0.2),
            ..GroupSettings::default()
        }),
        is_model: true,
        has_processes: true,
        judged_unix_ns: Some(4 * SECOND),
    };
    let read = json(1, &facts).unwrap();
    assert_eq!(read["settings"], json!({"cpu.limit": 0.2}));
    assert_eq!(read["processes"], json!([]));
    assert_eq!(read["energy.watts"], 3.5);
    assert_eq!(read["energy.is_model"], true);
    let owner = |power| answer(&with_power(true, waits, power))["owners"][0].clone();
    assert_eq!(owner(Power::Charged)["energy.watts"], 3.5);
    assert_eq!(owner(Power::Still)["energy.watts"], Value::Null);
    for key in ["hurt", "verdict"] {
        assert_eq!(read[key], Value::Null, "no window was judged by then");
    }
    assert_eq!(json(7, &facts), None, "no owner has this number");
}
