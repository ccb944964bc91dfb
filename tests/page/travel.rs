//! Tests of moving in time, to a group, to a restarted agent, and away from the page.

use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::page::{address, agent, assert_clean, assert_ours, click, open, text};
use crate::support::agent::Agent;
use crate::support::browser::Browser;
use crate::support::cgroup::Group;
use crate::support::load::Load;
use crate::support::{self, NOCTULE};

/// Drags over the middle half of a chart.
fn drag_over(browser: &Browser, selector: &str) {
    let script = format!(
        "const it = document.querySelector('{selector}'); if (!it) return null; \
         it.scrollIntoView({{block: 'center'}}); \
         const place = it.getBoundingClientRect(); \
         return [place.x + place.width / 4, place.x + place.width * 3 / 4, place.y + place.height / 2]"
    );
    let place = browser.run(&script);
    // The chart is not drawn yet.
    if place.is_null() {
        return;
    }
    let pixel = |at: usize| place[at].as_f64().expect("a place").round() as u32;
    browser.drag((pixel(0), pixel(2)), (pixel(1), pixel(2)));
}

/// Whether the page shows half of a minute, rounded to whole seconds and the edges of the chart.
fn shows_half(browser: &Browser) -> bool {
    let span = text(browser, "nav .span");
    let seconds = span.split_once('(').and_then(|(_, it)| it.split_once('.'));
    let seconds = seconds.and_then(|(seconds, _)| seconds.parse::<u32>().ok());
    seconds.is_some_and(|seconds| (24..=40).contains(&seconds))
}

#[test]
fn dragging_over_a_chart_sets_the_span() {
    let _machine = support::shared();
    let agent = agent();
    let browser = open(&agent, "#seconds=60");
    for picture in ["#cpu canvas", "#waits canvas", "#events .u-over"] {
        // On a busy machine the chart may be redrawn while the mouse moves. The drag then sets no
        // span, or another one.
        support::wait_until(&format!("{picture} is the span"), || {
            drag_over(&browser, picture);
            let is_half = address(&browser).contains("from=") && shows_half(&browser);
            if !is_half {
                browser.press("l");
            }
            is_half
        });
        browser.press("l");
        support::wait_until("it is live again", || !address(&browser).contains("from="));
        support::wait_until("it shows a minute", || {
            text(&browser, "nav .span").contains("(1m")
        });
    }
    assert_clean(&browser, &agent);
}

#[test]
fn the_crosshair_is_in_every_panel_and_a_box_has_the_values() {
    let _machine = support::shared();
    let agent = agent();
    let browser = open(&agent, "#seconds=60");
    let boxed = || text(&browser, ".box");
    // On a busy machine a chart may be redrawn under the mouse, so the mouse moves again.
    let over = |selector: &str| {
        let script = format!(
            "const place = document.querySelector('{selector}').getBoundingClientRect(); \
             return [place.x + place.width * 0.9, place.y + place.height / 2]"
        );
        let place = browser.run(&script);
        let pixel = |at: usize| place[at].as_f64().expect("a place").round() as u32;
        browser.hover((pixel(0), pixel(1)));
        browser.hover((pixel(0) - 2, pixel(1)));
    };
    support::wait_until("the values of a chart are in the box", || {
        over("#cpu .u-over");
        boxed().contains("CPU")
    });
    let lines = "return document.querySelectorAll('#cpu .grid .line, #waits .grid .line').length";
    support::wait_until("the heat map and the CPUs have the line", || {
        over("#cpu .u-over");
        browser.run(lines) == 2
    });
    support::wait_until("the values of a cell are in the box", || {
        over("#waits .grid canvas");
        boxed().contains("waits of")
    });
    browser.picture("crosshair");
    assert_clean(&browser, &agent);
}

#[test]
fn filter_keeps_matching_rows_and_is_in_the_link() {
    let _machine = support::shared();
    let agent = agent();
    let (wanted, other) = (Group::new("wanted"), Group::new("other"));
    let _loads = [&wanted, &other].map(|group| Load::own(group, "bursts 2000 50000"));
    let browser = open(&agent, "#table=cgroups");
    let names = |browser: &Browser| -> Vec<String> {
        let names =
            "return [...document.querySelectorAll('#tables tbody th')].map((it) => it.title)";
        let names = browser.run(names);
        let names = names.as_array().expect("a list").iter();
        names
            .filter_map(|it| it.as_str().map(str::to_owned))
            .collect()
    };
    let both = [wanted.path(), other.path()];
    support::wait_until("both are listed", || {
        let names = names(&browser);
        both.iter().all(|path| names.contains(path))
    });
    browser.press("/");
    for letter in "wanted".chars() {
        browser.press(&letter.to_string());
    }
    support::wait_until("one is left", || names(&browser) == [wanted.path()]);
    let other = open(&agent, &address(&browser));
    support::wait_until("a link shows the same", || names(&other) == [wanted.path()]);
    // Containers and everything else that used the CPU during the span.
    click(&browser, "[role=tab]:nth-of-type(1)");
    support::wait_until("the other table has it, too", || {
        names(&browser) == [wanted.path()]
    });
    assert_clean(&browser, &agent);
    assert_clean(&other, &agent);
}

/// Starts an agent at an address that was free a moment ago.
fn at(address: &str) -> Agent {
    let mut command = Command::new(NOCTULE);
    command.args(["run", "--listen", address]);
    Agent::start_unready(command, Stdio::inherit()).0
}

#[test]
fn page_continues_after_an_agent_restart() {
    let _machine = support::shared();
    let place = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr());
    let place = place.expect("a free port").to_string();
    let mut agent = at(&place);
    let browser = open(&agent, "#seconds=60");
    assert_clean(&browser, &agent);
    agent.signal(rustix::process::Signal::KILL);
    agent.end();
    support::wait_until("the page says that nobody answers", || {
        text(&browser, "[role=alert]").contains("no connection to the agent")
    });
    browser.picture("no-connection");
    let shown = text(&browser, "nav .span");
    let agent = at(&place);
    support::wait_until("it shows what is new", || {
        text(&browser, "[role=alert]").is_empty() && text(&browser, "nav .span") != shown
    });
    // The only allowed complaints are about unanswered requests.
    let complaints = browser.complaints();
    let others = complaints.iter().filter(|it| !it.contains("net::ERR_"));
    // The first figures of the new agent need two batches.
    let others = others.filter(|it| !it.contains("status of 503"));
    assert_eq!(others.collect::<Vec<_>>(), Vec::<&String>::new());
    assert_ours(&browser, &agent);
}

/// Returns the number of established client connections to the agent.
fn connections(agent: &Agent) -> usize {
    let address: SocketAddrV4 = agent.address().parse().expect("an address of IPv4");
    // The kernel prints an address as a number in this machine's byte order, and a port in network
    // order.
    let ip = u32::from_ne_bytes(Ipv4Addr::octets(address.ip()));
    let local = format!("{ip:08X}:{:04X}", address.port());
    let sockets = fs::read_to_string("/proc/net/tcp").expect("the sockets of the kernel");
    let is_ours = |line: &&str| {
        let mut words = line.split_whitespace().skip(1);
        // The state after the remote address must be "established".
        words.next() == Some(&local) && words.nth(1) == Some("01")
    };
    sockets.lines().filter(is_ours).count()
}

#[test]
fn hidden_page_holds_no_connection_and_resumes() {
    let _machine = support::shared();
    let agent = agent();
    let browser = open(&agent, "#seconds=60");
    browser.hide();
    // A browser allows six connections to one server. Between two streams there is no connection
    // for half a second, so the test waits for longer than that.
    let mut since = None;
    support::wait_until("the hidden page has none", || {
        let none = connections(&agent) == 0;
        since = none.then(|| since.unwrap_or_else(Instant::now));
        since.is_some_and(|since| since.elapsed() > Duration::from_secs(3))
    });
    let shown = text(&browser, "nav .span");
    browser.show();
    support::wait_until("it has new figures", || {
        text(&browser, "nav .span") != shown
    });
    assert_clean(&browser, &agent);
}
