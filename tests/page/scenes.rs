//! Tests of scenes with a known cause.

use crate::page::{agent, assert_clean, click, open, text};
use crate::support;
use crate::support::affinity;
use crate::support::agent::Agent;
use crate::support::browser::Browser;
use crate::support::cgroup::Group;
use crate::support::load::Load;

/// Opens a browser while a load runs on the last CPU.
fn look(agent: &Agent, address: &str) -> Browser {
    affinity::without_cpu(affinity::last_cpu(), || open(agent, address))
}

/// Returns the text of each row of a table that is named like a group.
fn rows(browser: &Browser, table: &str, group: &Group) -> Vec<String> {
    let script = format!(
        "return [...document.querySelectorAll('{table} tbody tr')]\
         .filter((row) => [...row.cells].some((it) => it.title === '{}'))\
         .map((row) => row.textContent)",
        group.path()
    );
    let found = browser.run(&script);
    let found = found.as_array().expect("a list").iter();
    found
        .map(|it| it.as_str().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn throttled_group_is_named_with_advice() {
    let _machine = support::alone();
    needs!("wait_throttle");
    let agent = agent();
    let browser = look(&agent, "");
    let group = Group::new("quota").heavy();
    group.limit(0.2);
    let _load = Load::own(&group, "spin 1");
    let finding = support::wait_for("the page names its quota", || {
        let script = format!(
            "return [...document.querySelectorAll('#now .hurt')].find((row) => \
             row.querySelector('.name').title === '{}')?.textContent ?? ''",
            group.path()
        );
        let found = browser.run(&script);
        let found = found.as_str()?;
        found.contains("held by quota").then(|| found.to_owned())
    });
    assert!(finding.contains("its own limit of 0.2 CPU"), "{finding}");
    assert!(finding.contains("Try: raise its limit"), "{finding}");
    // The waits must have that cause.
    click(&browser, &format!("#now .name[title='{}']", group.path()));
    support::wait_until("its waits are shown", || {
        text(&browser, "#waits h2").contains("show the node")
    });
    let causes = text(&browser, "#waits .legend");
    assert!(causes.contains("its own limit"), "{causes}");
    browser.picture("quota");
    assert_clean(&browser, &agent);
}

#[test]
fn an_oom_kill_is_listed_with_its_group_and_drawn() {
    let _machine = support::shared();
    needs!("oom_events");
    let agent = agent();
    let browser = open(&agent, "#seconds=60&kind=oom.kill");
    let group = Group::with_memory("oom", 32 << 20);
    let mut load = Load::own(&group, "eater");
    load.say("eat");
    load.wait_for_end();
    load.reap();
    let row = support::wait_for("the kill is listed", || {
        rows(&browser, "#events", &group).pop()
    });
    assert!(row.contains("OOM killed"), "{row}");
    assert!(row.contains("limit 32.0MiB"), "{row}");
    // The chart counts all kills on the machine.
    support::wait_until("the kill is counted", || {
        let legend = text(&browser, "#events .legend");
        let count = legend.split("OOM kills").nth(1).unwrap_or_default();
        count.trim_start().starts_with(|it: char| it != '–')
    });
    browser.picture("oom");
    assert_clean(&browser, &agent);
}

#[test]
fn churn_is_counted_and_each_end_is_listed() {
    let _machine = support::shared_but(&[support::Part::LastCpu]);
    needs!("process_events");
    let agent = agent();
    let group = Group::new("churn").heavy();
    let _load = Load::shell(&group, "while :; do /bin/true; /bin/false; done");
    let browser = open(&agent, "#seconds=60&kind=process.exit");
    let failed = support::wait_for("ends are listed", || {
        let mut rows = rows(&browser, "#events", &group);
        rows.retain(|row| row.contains("exit 1 "));
        rows.pop()
    });
    assert!(failed.contains("false ["), "{failed}");
    // There are dozens of starts per second, even on a busy machine.
    support::wait_until("starts are counted", || {
        let legend = text(&browser, "#events .legend");
        let count = legend.split("starts").nth(1).unwrap_or_default();
        let number: String = count
            .trim_start()
            .chars()
            .take_while(|it| it.is_ascii_digit() || *it == '.')
            .collect();
        number.parse::<f64>().is_ok_and(|number| number > 1.0)
    });
    click(&browser, "[role=tab]:nth-of-type(5)");
    support::wait_until("the group has its row", || {
        !rows(&browser, "#tables", &group).is_empty()
    });
    browser.picture("churn");
    assert_clean(&browser, &agent);
}
