//! The JSON of a span of time.
#![allow(clippy::unwrap_used, reason = "clippy takes helpers of tests for code")]

use std::collections::HashMap;
use std::sync::Arc;

use noctule_analysis::{
    Hurt, JudgedWindow, OwnerPoint, Party, TimePoint, TimeSpanQuery, TimelineView,
};
use noctule_model::{CgroupId, Owner, Reason, VerdictKind};
use noctule_sinks::json::{HistoryRows, HistorySort, history_json};
use serde_json::{Value, json};

const SECOND: u64 = 1_000_000_000;
const NAMES: [&str; 3] = ["listed.service", "quiet.service", "unlisted.service"];

fn party(id: u32) -> Party {
    Party::Group(Arc::new(Owner {
        unit: Some(NAMES[id as usize - 1].into()),
        ..Owner::unknown(CgroupId(u64::from(id)))
    }))
}

/// Three owners; the first and the third are hurt, and there was a place for the finding of one.
fn view(judged: bool) -> TimelineView {
    let owners = (1..=3).map(|id| OwnerPoint {
        id,
        ..OwnerPoint::default()
    });
    let point = TimePoint {
        time_unix_ns: 10 * SECOND,
        length_ns: SECOND,
        owners: owners.collect(),
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
            since_unix_ns: 5 * SECOND,
        }],
        more: 1,
        unlisted: [(3, VerdictKind::HeldByQuota)].into(),
    };
    TimelineView {
        points: vec![Arc::new(point)],
        judged: judged.then(|| Arc::new(window)).into_iter().collect(),
        parties: Arc::new(HashMap::from([1, 2, 3].map(|id| (id, party(id))))),
    }
}

/// The rows of owners by name: each with its verdict.
fn verdicts(judged: bool) -> Vec<(Value, Value)> {
    let query = TimeSpanQuery {
        from_unix_ns: 5 * SECOND,
        to_unix_ns: 10 * SECOND,
        steps: 5,
        waits_of: None,
        pair: None,
        strips: 0,
    };
    let rows = HistoryRows {
        sort: HistorySort::Name,
        owners: 10,
        ..HistoryRows::default()
    };
    let text = history_json(&view(judged), &query, &rows, &[]);
    let json: Value = serde_json::from_str(&text).unwrap();
    let rows = json["owners"].as_array().unwrap().iter();
    rows.map(|row| (row["name"].clone(), row["verdict"].clone()))
        .collect()
}

#[test]
fn who_is_hurt_and_not_listed_is_not_called_quiet() {
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
