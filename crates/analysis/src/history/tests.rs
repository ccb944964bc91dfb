use super::{EventLog, EventLogLimits};

fn event(at: u64, what: noctule_model::What) -> noctule_model::Event {
    noctule_model::Event {
        time_unix_ns: at,
        process: None,
        origin: noctule_model::Origin::Seen,
        what,
    }
}

#[test]
fn a_storm_of_processes_pushes_no_oom_kill_out() {
    use noctule_model::What;
    let mut log = EventLog::new(EventLogLimits {
        events: 10,
        bytes: 1 << 20,
    });
    let kill = What::OomKill {
        rss_bytes: None,
        limit_bytes: None,
    };
    log.add([event(1, kill)]);
    log.add((2..100).map(|at| event(at, What::ProcessStart { parent_pid: 1 })));
    let kept = log.within(0, 1000, 100, |_| true);
    assert_eq!(kept.len(), 11);
    assert_eq!(kept[0].time_unix_ns, 1);
    assert_eq!(log.forgotten(), (88, 89));
    let last: Vec<u64> = log
        .within(0, 95, 3, |_| true)
        .iter()
        .map(|e| e.time_unix_ns)
        .collect();
    assert_eq!(last, [93, 94, 95]);
}
