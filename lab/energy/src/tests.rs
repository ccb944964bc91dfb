use super::*;

fn scores(name: &str) -> Vec<Score> {
    let trace = TRACES.iter().find(|trace| trace.name == name);
    judge(trace.expect("a trace of that name"), &mut methods())
}

#[test]
fn error_is_below_four_percent_with_dvfs_and_smt() {
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
fn error_is_small_on_every_trace() {
    for trace in TRACES {
        let ours = judge(trace, &mut methods())[0];
        assert!(ours.error <= 0.04, "{}: {ours:?}", trace.name);
        assert!(ours.idle.abs() <= 0.03, "{}: {ours:?}", trace.name);
    }
}

#[test]
fn methods_without_ended_processes_lose_short_ones() {
    let [ours, _, before, _] = scores("short-lived")[..] else {
        panic!("four methods");
    };
    assert!(ours.error <= 0.04, "{ours:?}");
    assert!(before.error > 0.1, "{before:?}");
}

#[test]
fn truth_is_within_the_error_and_closer_than_other_methods() {
    let scores = CLASSES.iter().map(|class| (class, judge_class(class, 1)));
    let mut nodes = 0;
    for (class, score) in scores {
        nodes += score.nodes;
        assert!(
            score.contained * 100 >= score.nodes * 95,
            "{}: {score:?}",
            class.name
        );
        let [ours, others @ ..] = &score.errors[..] else {
            panic!("no methods");
        };
        assert_eq!(others.len(), 3, "Kepler's two and Scaphandre's");
        for other in others {
            assert!(ours < other, "{}: {score:?}", class.name);
        }
    }
    assert_eq!(nodes, 200);
}
