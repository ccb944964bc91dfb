use super::*;

fn scores(name: &str) -> Vec<Score> {
    let trace = TRACES.iter().find(|trace| trace.name == name);
    judge(trace.expect("a trace of that name"), &mut methods())
}

#[test]
fn noctule_is_right_to_four_percent_where_frequency_and_siblings_differ() {
    for name in ["dvfs", "smt", "two sockets", "duty cycles"] {
        let [ours, others @ ..] = &scores(name)[..] else {
            panic!("no methods");
        };
        assert!(ours.error <= 0.04, "{name}: {ours:?}");
        assert_eq!(others.len(), 3, "the plain ratio and Kepler's two");
        for other in others {
            assert!(ours.error < other.error, "{name}: {ours:?}, {other:?}");
            assert!(ours.shares < other.shares, "{name}: {ours:?}, {other:?}");
        }
    }
}

#[test]
fn noctule_is_right_to_four_percent_on_every_trace_and_knows_idle_power_to_three() {
    for trace in TRACES {
        let ours = judge(trace, &mut methods())[0];
        assert!(ours.error <= 0.04, "{}: {ours:?}", trace.name);
        assert!(ours.idle.abs() <= 0.03, "{}: {ours:?}", trace.name);
    }
}

#[test]
fn processes_of_two_milliseconds_are_lost_where_only_the_living_count() {
    let [ours, _, before, _] = scores("short-lived")[..] else {
        panic!("four methods");
    };
    assert!(ours.error <= 0.04, "{ours:?}");
    assert!(before.error > 0.1, "{before:?}");
}
