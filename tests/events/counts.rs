//! Tests of event counts in `stat` and `/metrics` against the kernel's own counters.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde_json::Value;

use super::support;
use super::support::agent::Agent;
use super::support::cgroup::Group;
use super::support::load::Load;
use super::support::netns::Link;
use super::support::openmetrics;
use super::support::prometheus::promtool;
use super::support::reading::Reading;
use super::support::window::Window;
use super::{end, port};

/// Returns the only row of a group.
fn row<'a>(answer: &'a Value, group: &Group) -> &'a Value {
    let path = group.path();
    let rows = support::rows(answer, |row| row["process.linux.cgroup"] == path.as_str());
    assert_eq!(rows.len(), 1, "{path}: {rows:?}");
    rows[0]
}

/// Returns the cell of a group's line below a heading of the table.
fn cell(table: &str, group: &Group, title: &str) -> String {
    let mut lines = table.lines();
    let head = lines.next().expect("a head");
    let end = head
        .find(&format!(" {title}"))
        .map(|at| at + 1 + title.len());
    let end = end.unwrap_or_else(|| panic!("no {title}: {head}"));
    let line = lines.find(|line| line.split(' ').next() == Some(&group.path()));
    let line = line.unwrap_or_else(|| panic!("no {}: {table}", group.path()));
    // The heading is ASCII only, but a line can contain `µs` before this cell.
    let until: String = line.chars().take(end).collect();
    until.rsplit(' ').next().expect("a cell").to_owned()
}

#[test]
#[expect(clippy::too_many_lines, reason = "one scene, in its order")]
fn stat_counts_events_as_the_kernel_does() {
    let _machine = support::shared();
    needs!("tcp_events");
    let link = Link::new();
    let (servers, clients) = (Group::new("server"), Group::new("client"));
    let mut server = Load::in_namespace(&link.far, "sockets");
    let mut client = Load::in_namespace(&link.near, "sockets");
    servers.add(server.pid());
    clients.add(client.pid());
    let kernel = |name| [link.near.tcp(name), link.far.tcp(name)];
    const NAMES: [&str; 4] = ["ActiveOpens", "PassiveOpens", "AttemptFails", "RetransSegs"];
    let before = NAMES.map(kernel);
    let window = Window::open("cgroup");
    let table = Window::printed(&["stat", "--by", "cgroup", "--top", "9999"]);

    let address = server.ask(&format!("listen {}:0", Link::FAR));
    for _ in 0..5 {
        client.ask(&format!("connect {address}"));
        server.ask("accept");
        client.ask("send 100");
        server.ask("receive 100");
        server.ask("send 40");
        client.ask("receive 40");
        client.ask("close");
        server.ask("close");
    }
    for _ in 0..3 {
        assert_eq!(client.ask(&format!("connect {}:9", Link::FAR)), "error 111");
    }
    assert_eq!(
        client.ask(&format!("connect {}:9", Link::UNREACHABLE)),
        "error 113"
    );
    assert_eq!(
        client.ask(&format!("try {}:9 100", Link::SILENT)),
        "error TimedOut"
    );
    // This connection stays open and has to retransmit some segments.
    client.ask(&format!("connect {address}"));
    server.ask("accept");
    link.drop_packets_to(Link::FAR);
    client.say("send 50");
    let sent_again = link.near.retransmits();
    support::wait_until("it is sent again", || link.near.retransmits() > sent_again);
    link.restore();
    assert_eq!(server.ask("receive 50"), "50");
    assert_eq!(client.next_message(), "50");
    let script = "for i in 1 2 3 4 5 6 7; do ( : ); done; ( exit 3 ); ( exit 3 ); \
                  sh -c 'kill -KILL $$'; :";
    let mut shell = Load::shell(&clients, script);
    shell.wait_for_end();
    shell.reap();

    let text = table.close_printed();
    let answer = window.close().answer;
    let after = NAMES.map(kernel);
    let growth = |name: &str, at: usize| {
        let place = NAMES.iter().position(|n| *n == name).expect("a name");
        after[place][at] - before[place][at]
    };
    let (s, c) = (row(&answer, &servers), row(&answer, &clients));
    // The shell was started elsewhere, but ended in the group.
    assert_eq!(c["process.starts"], 10, "{c}");
    let exits = serde_json::json!({"completed": 8, "failed": 2, "killed": 1, "oom": 0});
    assert_eq!(c["process.exits"], exits);
    let failures = &c["tcp.connect_failures"];
    let failed = |why: &str| failures[why].as_u64().expect("a count");
    let expected = serde_json::json!(
        {"refused": 3, "timeout": 0, "abandoned": 1, "unreachable": 1, "other": 0}
    );
    assert_eq!(*failures, expected);
    assert_eq!(c["tcp.connects"], 6);
    assert_eq!(6 + 5, growth("ActiveOpens", 0), "attempts");
    // The kernel does not count an abandoned connection as a failure.
    assert_eq!(
        failed("refused") + failed("unreachable"),
        growth("AttemptFails", 0)
    );
    assert_eq!(s["tcp.accepts"], growth("PassiveOpens", 1));
    assert_eq!(c["tcp.retransmits"], growth("RetransSegs", 0));
    assert_eq!(s["tcp.retransmits"], growth("RetransSegs", 1));
    for (row, sent, received) in [(c, 550, 200), (s, 200, 550)] {
        assert_eq!(row["tcp.bytes_sent"], sent, "{row}");
        assert_eq!(row["tcp.bytes_received"], received, "{row}");
        assert_eq!(row["tcp.connections"], 1, "{row}");
    }
    assert_eq!(
        (&c["tcp.listeners"], &s["tcp.listeners"]),
        (&0.into(), &1.into())
    );
    // File opens were not requested.
    assert!(
        c["file.opens"].is_null() && c["file.open_failures"].is_null(),
        "{c}"
    );

    let cells = [
        (&clients, "starts", "10"),
        (&clients, "conns", "6"),
        (&clients, "received", "200B"),
        (&clients, "sent", "550B"),
        (&servers, "conns", "6"),
        (&servers, "received", "550B"),
        (&servers, "sent", "200B"),
        (&servers, "starts", "-"),
    ];
    for (group, title, expected) in cells {
        assert_eq!(cell(&text, group, title), expected, "{title}: {text}");
    }
    end(&mut client);
    end(&mut server);
}

/// Increases of a group's destination series, as Prometheus computes them. A series that ends keeps
/// its increase. A series whose value drops has restarted. Other groups of the machine may take
/// slots.
#[derive(Default)]
struct Increases(BTreeMap<String, (f64, f64)>);

impl Increases {
    fn see(&mut self, reading: &Reading, cgroup: &str) {
        let ours = reading.samples.iter().filter(|s| {
            s.name == "noctule_cgroup_tcp_destination_connects_total"
                && s.labels["cgroup"] == cgroup
                && s.labels["result"] == "ok"
        });
        for sample in ours {
            let place = sample.labels["destination"].clone();
            let (before, last) = self.0.entry(place).or_default();
            if sample.value < *last {
                *before += *last;
            }
            *last = sample.value;
        }
    }

    fn sum(&self) -> f64 {
        self.0.values().map(|(before, last)| before + last).sum()
    }
}

#[test]
fn destinations_beyond_the_bound_keep_the_sums_closed() {
    const DESTINATIONS: u32 = 300;
    const SHOWN: usize = 50;
    let _machine = support::shared();
    needs!("tcp_events");
    // Enough kernel-side rows, and too few.
    for rows in [4096, 128] {
        let config = tempfile::NamedTempFile::new().expect("a file of our own");
        let text = format!("[events]\ndestinations = {rows}\n[metrics]\ndestinations = {SHOWN}\n");
        fs::write(config.path(), text).expect("it can be written");
        let config = config.path().to_str().expect("in UTF-8");
        let agent = Agent::start(&["--interval", "200ms", "--config", config]);
        let (servers, clients) = (Group::new("server"), Group::new("client"));
        let mut server = Load::own(&servers, "sockets");
        let mut client = Load::own(&clients, "sockets");
        let at = port(&server.ask("listen 0.0.0.0:0"));
        server.ask("serve");
        let path = clients.path();
        let value = |reading: &Reading, name: &str, label: &[(&str, &str)]| {
            let labels = [&[("cgroup", path.as_str())], label].concat();
            reading.value(&format!("noctule_cgroup_tcp_{name}"), &labels)
        };
        const OK: [(&str, &str); 1] = [("result", "ok")];
        let seen = RefCell::new(Increases::default());
        for round in 1..=2 {
            assert_eq!(client.ask(&format!("spread {at} {DESTINATIONS}")), "done");
            let expected = f64::from(round * DESTINATIONS);
            let counted = support::now();
            // The test must look at each scrape, because a restarted series shows 0 in only one of
            // them.
            let sum = support::wait_for_or_explain(
                "all are counted",
                || {
                    let reading = Reading::scraped(&agent);
                    // A series shows 0 until the first scrape that includes it.
                    let mut seen = seen.borrow_mut();
                    seen.see(&reading, &path);
                    let connects = value(&reading, "connects_total", &OK)?;
                    let is_fresh = reading.taken.0 > counted;
                    let all = connects == expected && seen.sum() >= expected;
                    (is_fresh && all).then(|| seen.sum())
                },
                || format!("{} of {expected} by destination", seen.borrow().sum()),
            );
            assert_eq!(sum, expected, "{rows} rows, round {round}");
        }
        let places = |reading: &Reading| -> BTreeSet<String> {
            let samples = reading.samples.iter();
            let own = samples
                .filter(|s| s.name == "noctule_cgroup_tcp_destination_connects_total")
                .filter(|s| s.labels["cgroup"] == path);
            own.map(|s| s.labels["destination"].clone()).collect()
        };
        // A destination that loses its place keeps its series for five minutes. There are at most as
        // many of these as places.
        let reading = Reading::fresh(&agent);
        let places = places(&reading);
        assert!(places.len() <= 2 * SHOWN + 1, "{places:?}");
        assert!(places.contains("_other"), "{places:?}");
        assert!(places.len() > 1, "{places:?}");
        let sum = value(&reading, "connect_seconds_sum", &[]).expect("a sum");
        let by_place = value(&reading, "destination_connect_seconds_total", &[]);
        assert!(
            by_place.expect("a sum") <= sum + 1e-6,
            "{by_place:?} of {sum}"
        );
        let losses = reading.losses();
        let lost = losses.iter().any(|(kind, _)| *kind == "destination_row");
        assert_eq!(lost, rows < DESTINATIONS, "{losses:?}");
        // Virtual machines have no promtool, and the text does not depend on the kernel.
        if std::env::var_os("NOCTULE_EXPECT").is_none() {
            let (_, classic) = agent.get("/metrics", "text/plain");
            assert_eq!(promtool(&classic), (true, String::new()));
        }
        let (_, open) = agent.get("/metrics", "application/openmetrics-text;version=1.0.0");
        assert!(openmetrics::check(&open) > places.len());
        a_late_group_gets_a_place(&agent, at);
        let sum = Reading::fresh_with(&agent, "what ended is with others", |reading| {
            seen.borrow_mut().see(reading, &path);
            let sum = seen.borrow().sum();
            (sum >= f64::from(2 * DESTINATIONS)).then_some(sum)
        });
        assert_eq!(sum, f64::from(2 * DESTINATIONS), "{rows} rows");
        end(&mut client);
        end(&mut server);
    }
}

/// Checks that a late group gets a series, although another group occupies all rows and series.
fn a_late_group_gets_a_place(agent: &Agent, port: u64) {
    let group = Group::new("late");
    let mut load = Load::own(&group, "sockets");
    let path = group.path();
    support::wait_until("the late group has a place", || {
        assert_eq!(load.ask(&format!("spread {port} 1")), "done");
        let reading = Reading::fresh(agent);
        reading.samples.iter().any(|s| {
            s.name == "noctule_cgroup_tcp_destination_connects_total"
                && s.labels["cgroup"] == path
                && s.labels["destination"] != "_other"
                && s.value > 0.0
        })
    });
    end(&mut load);
}

#[test]
fn destination_keeps_its_place_after_its_group() {
    let _machine = support::shared();
    needs!("tcp_events");
    let agent = Agent::start(&["--interval", "200ms"]);
    let (servers, clients) = (Group::new("server"), Group::new("client"));
    let mut server = Load::own(&servers, "sockets");
    let mut client = Load::own(&clients, "sockets");
    let at = port(&server.ask("listen 0.0.0.0:0"));
    server.ask("serve");
    assert_eq!(client.ask(&format!("spread {at} 3")), "done");
    let path = clients.path();
    let places = |reading: &Reading| {
        let samples = reading.samples.iter();
        let ours = samples
            .filter(|s| s.name == "noctule_cgroup_tcp_destination_connects_total")
            .filter(|s| s.labels["cgroup"] == path && s.labels["result"] == "ok");
        ours.map(|s| (s.labels["destination"].clone(), s.value))
            .collect::<Vec<_>>()
    };
    let first = Reading::fresh_with(&agent, "all are counted", |reading| {
        let all = places(reading);
        let sum: f64 = all.iter().map(|(_, connects)| connects).sum();
        (sum > 0.0).then_some(all)
    });
    assert_eq!(first.len(), 4, "{first:?}");
    for (place, connects) in &first {
        let expected = if place == "_other" { 0.0 } else { 1.0 };
        assert_eq!(*connects, expected, "{first:?}");
    }
    end(&mut client);
    let folder = clients.folder().to_owned();
    drop(clients);
    assert!(!folder.exists(), "the group is gone");
    // Takes several batches, because the first implementation dropped the series within a second.
    for _ in 0..15 {
        assert_eq!(places(&Reading::fresh(&agent)), first);
    }
    end(&mut server);
}

/// The socket stores its peer's address in IPv6 form.
#[test]
fn ipv4_destination_has_one_name_for_any_socket() {
    let _machine = support::shared();
    needs!("tcp_events");
    let agent = Agent::start(&["--interval", "200ms"]);
    let group = Group::new("dual");
    let mut server = Load::own(&group, "sockets");
    let mut load = Load::own(&group, "sockets");
    let at = port(&server.ask("listen 127.0.0.1:0"));
    load.ask(&format!("connect [::ffff:127.0.0.1]:{at}"));
    load.ask(&format!("connect 127.0.0.1:{at}"));
    end(&mut server);
    // The listener no longer exists.
    let refused = load.ask(&format!("connect [::ffff:127.0.0.1]:{at}"));
    assert_eq!(refused, "error 111");
    let path = group.path();
    let places = Reading::fresh_with(&agent, "all are counted", |reading| {
        let samples = reading.samples.iter();
        let ours = samples
            .filter(|s| s.name == "noctule_cgroup_tcp_destination_connects_total")
            .filter(|s| s.labels["cgroup"] == path && s.value > 0.0)
            .map(|s| {
                (
                    s.labels["destination"].clone(),
                    s.labels["result"].clone(),
                    s.value,
                )
            });
        let mut all: Vec<_> = ours.collect();
        all.sort_by(|a, b| a.1.cmp(&b.1));
        let sum: f64 = all.iter().map(|(_, _, connects)| connects).sum();
        (sum == 3.0).then_some(all)
    });
    let place = format!("127.0.0.1:{at}");
    assert_eq!(places.len(), 2, "{places:?}");
    assert_eq!(places[0], (place.clone(), "failed".into(), 1.0));
    assert_eq!(places[1], (place, "ok".into(), 2.0));
    end(&mut load);
}
