//! Tests of scenes with a known cause.

use std::process::Command;

use crate::page::{address, agent, assert_clean, click, open, text};
use crate::support::affinity;
use crate::support::agent::Agent;
use crate::support::browser::Browser;
use crate::support::cgroup::Group;
use crate::support::load::Load;
use crate::support::{self, noctule};

/// Opens a browser while a load runs on the last CPU.
fn open_page(agent: &Agent, address: &str) -> Browser {
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
    let browser = open_page(&agent, "");
    let group = Group::new("quota").heavy();
    group.limit(0.2);
    let _load = Load::own(&group, "spin 1");
    let row = format!(
        "[...document.querySelectorAll('#now .hurt')].find((row) => \
         row.querySelector('.name').title === '{}')",
        group.path()
    );
    let words = |script: &str| -> String {
        let found = browser.run(script);
        found.as_str().unwrap_or_default().to_owned()
    };
    let finding = || words(&format!("return {row}?.textContent ?? ''"));
    let expected = [
        "held by a CPU limit",
        "its own limit of 0.2 CPU",
        "raise its limit from 0.2 to",
    ];
    // The load may start within the first window, and then need less than the limit on average.
    support::wait_for_or_explain(
        "the page names its quota and the new limit",
        || {
            let finding = finding();
            expected.iter().all(|it| finding.contains(it)).then_some(())
        },
        finding,
    );
    let title = words("return document.title");
    assert!(title.contains(" hurt - "), "{title}");
    // The pane must show the limit as the cause of the waits.
    click(&browser, &format!("#now .name[title='{}']", group.path()));
    support::wait_until("its waits are shown", || {
        text(&browser, "#waits h2").contains("show the node")
    });
    let causes = text(&browser, "#waits .legend");
    assert!(causes.contains("its own limit"), "{causes}");
    browser.picture("quota");
    assert_pane(&browser, &group);
    // The test runs the command that the advice recommends. In the first window the load may run
    // only some of the time, so the number in the advice is too low.
    support::wait_until("the limit holds it no longer", || {
        let found = finding();
        let command = words(&format!(
            "return {row}?.querySelector('code')?.textContent ?? ''"
        ));
        if !command.is_empty() {
            let done = Command::new("sh").args(["-c", &command]).status();
            assert!(done.expect("a shell").success(), "{command}");
        }
        !found.contains("held by a CPU limit")
    });
    // The episode is over, and a click on it opens it.
    click(
        &browser,
        &format!(".lane:has([title='{}']) .track", group.path()),
    );
    support::wait_until("the address has its time", || {
        address(&browser).contains("at=")
    });
    // The worst window may be the one in which the command raised the limit. Such a window shows
    // the new limit.
    let pane = || text(&browser, ".pane");
    support::wait_for_or_explain(
        "its verdict is shown",
        || {
            let pane = pane();
            pane.contains("by its own limit of ").then_some(())
        },
        pane,
    );
    browser.picture("episode");
    // Escape closes the pane.
    browser.press("\u{e00c}");
    support::wait_until("the pane is closed", || text(&browser, ".pane").is_empty());
    assert!(!address(&browser).contains("owner="));
    assert_clean(&browser, &agent);
}

/// Checks the pane of a group. The pane shows where its time went and its limit, in words instead
/// of keys.
fn assert_pane(browser: &Browser, group: &Group) {
    let pane = || text(browser, ".pane");
    support::wait_for_or_explain(
        "the pane has the account and the settings",
        || {
            let pane = pane();
            let has = |words| pane.contains(words);
            let all = has("running") && has("CPU limit0.2 CPU") && has("may run on");
            (all && has(&format!("noctule why {}", group.path()))).then_some(())
        },
        pane,
    );
    let parts = "return [...document.querySelectorAll('.time-bar span')]\
        .reduce((sum, it) => sum + Number(it.style.flexGrow), 0)";
    let sum = browser.run(parts).as_f64().expect("a number");
    assert!((sum - 1.0).abs() < 1e-6, "{sum}");
    assert!(!pane().contains("process.linux"), "{}", pane());
}

#[test]
fn recording_opens_in_full_with_its_worst_episode() {
    // Without this, a heavy group of another test on the same CPU could be the cause instead of the
    // limit.
    let _machine = support::shared_but(&[support::Part::LastCpu]);
    needs!("wait_throttle");
    let folder = tempfile::tempdir().expect("a folder");
    let tape = folder.path().join("tape");
    let tape = tape.to_str().expect("text");
    let group = Group::new("recorded").heavy();
    group.limit(0.1);
    let load = Load::own(&group, "spin 2");
    let output = noctule(&["record", "-o", tape, "--for", "7s"]);
    assert!(output.status.success(), "{output:?}");
    drop(load);
    let config = folder.path().join("config.toml");
    std::fs::write(&config, "[verdicts]\nwindow_seconds = 2.0\n").expect("a file");
    let config = config.to_str().expect("text");
    let agent = Agent::start(&["--from", tape, "--config", config]);
    let browser = open(&agent, "");
    support::wait_until("the address has all of it, and an episode", || {
        let address = address(&browser);
        ["from=", "to=", "at=", "owner="]
            .iter()
            .all(|it| address.contains(it))
    });
    let lane = format!(".lane:has([title='{}']) .track", group.path());
    click(&browser, &lane);
    let pane = || text(&browser, ".pane");
    support::wait_for_or_explain(
        "the pane has the episode",
        || {
            let pane = pane();
            let all = pane.contains("its own limit of 0.1 CPU") && pane.contains("--from DIR");
            all.then_some(())
        },
        pane,
    );
    // The kernel's files contain the settings. A recording does not.
    assert!(text(&browser, ".pane").contains("not in a recording"));
    assert!(text(&browser, "#now h2").contains("At "));
    browser.picture("recorded-episode");
    // The whole recording is A, and the episode is B.
    let press = |name: &str| {
        let script = format!(
            "[...document.querySelectorAll('nav button')].find((it) => it.textContent === '{name}').click()"
        );
        browser.run(&script);
    };
    press("all");
    press("mark as A");
    support::wait_until("A is in the address", || {
        address(&browser).contains("mark=")
    });
    click(&browser, &lane);
    // The episode can last for the whole recording.
    support::wait_until("both spans are compared", || {
        let compared = text(&browser, "#compare");
        let figures = compared.contains("→") || compared.contains("No group changed");
        figures && compared.contains("noctule diff DIR@")
    });
    press("export");
    let exported = text(&browser, ".export");
    assert!(exported.contains("--to perfetto"), "{exported}");
    assert!(exported.contains(&address(&browser)), "{exported}");
    let picture = "const made = URL.createObjectURL; window.made = 0; \
        URL.createObjectURL = (blob) => { window.made = blob.size; return made(blob); }; \
        [...document.querySelectorAll('.export button')].find((it) => it.textContent.includes('PNG')).click()";
    browser.run(picture);
    support::wait_until("the picture is made", || {
        browser.run("return window.made").as_u64() > Some(1000)
    });
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
    // The headline and the timeline show the kill, and a click on it goes to the moment of the
    // kill.
    support::wait_until("the timeline has it", || {
        let script = format!(
            "return !!document.querySelector(`.lane:has([title='{}']) .mark.kill`)",
            group.path()
        );
        browser.run(&script) == true
    });
    browser.picture("oom");
    click(
        &browser,
        &format!("#now .kills .name[title='{}']", group.path()),
    );
    support::wait_until("the address has its moment", || {
        address(&browser).contains("from=")
    });
    support::wait_until("the pane says what happened", || {
        let pane = text(&browser, ".pane");
        pane.contains("OOM kill at") && pane.contains("memory limit 32.0MiB")
    });
    // The list contains only the group's events, and a click on the time of an event also selects
    // that moment.
    support::wait_until("only its kills are listed", || {
        let all = text(&browser, "#events tbody");
        !rows(&browser, "#events", &group).is_empty() && all.matches("OOM killed").count() == 1
    });
    browser.press("l");
    click(&browser, "#events input[type=checkbox]");
    support::wait_until("the address has the severity", || {
        address(&browser).contains("severity=trouble")
    });
    click(&browser, "#events tbody td button");
    support::wait_until("the time of an event leads there too", || {
        address(&browser).contains("from=")
    });
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
