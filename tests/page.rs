//! Tests of the page in a real browser, with real cgroups. Screenshots are saved in `tmp/pictures`
//! of the target directory.

mod access;
mod figures;
mod scenes;
mod travel;

use serde_json::Value;

use crate::support;
use crate::support::affinity;
use crate::support::agent::Agent;
use crate::support::browser::Browser;
use crate::support::cgroup::Group;
use crate::support::http;
use crate::support::load::Load;

fn agent() -> Agent {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "[verdicts]\nwindow_seconds = 2.0\n").expect("a file");
    Agent::start(&["--config", file.path().to_str().expect("text")])
}

/// Checks that the console has no complaints and that no request went to another host.
fn assert_clean(browser: &Browser, agent: &Agent) {
    assert_eq!(browser.complaints(), Vec::<String>::new());
    assert_ours(browser, agent);
}

/// Checks that no request went to another host.
fn assert_ours(browser: &Browser, agent: &Agent) {
    let ours = format!("http://{}/", agent.address());
    for url in browser.requests() {
        let inside = url.starts_with(&ours) || url.starts_with("data:");
        assert!(inside, "asked {url}");
    }
}

fn open(agent: &Agent, address: &str) -> Browser {
    // The API responds with 503 before the second batch, and the page asks again.
    support::wait_until("there are figures", || {
        http::request(agent.address(), "GET", "/api/v1/node", None).status == 200
    });
    let browser = Browser::open(1400, 1000);
    browser.go(&format!("http://{}/{address}", agent.address()));
    support::wait_until("the page has figures", || {
        browser.run("return !!document.querySelector('#cpu canvas')") == true
    });
    browser
}

/// Returns the text of the first element that matches a selector.
fn text(browser: &Browser, selector: &str) -> String {
    let script = format!("return document.querySelector(`{selector}`)?.textContent ?? ''");
    browser.run(&script).as_str().unwrap_or_default().to_owned()
}

/// Clicks the first element that matches a selector, if there is one.
fn click(browser: &Browser, selector: &str) {
    let script = format!(
        "const found = document.querySelector(`{selector}`); found?.click(); return !!found"
    );
    support::wait_until(&format!("there is {selector}"), || {
        browser.run(&script) == true
    });
}

/// Returns the fragment of the address.
fn address(browser: &Browser) -> String {
    let hash = browser.run("return location.hash");
    hash.as_str().unwrap_or_default().to_owned()
}

#[test]
fn page_names_the_neighbour_and_a_link_restores_it() {
    // On a machine with other loads a browser takes minutes to start.
    let _machine = support::alone();
    needs!("cpu_waits");
    let agent = agent();
    // On the last CPU, the browser's threads would wait behind both loads and never start.
    let browser = affinity::without_cpu(affinity::last_cpu(), || open(&agent, ""));
    let victim = Group::new("victim").heavy();
    let neighbour = Group::new("neighbour").heavy();
    let _victim = Load::own(&victim, "spin 1");
    let _neighbour = Load::own(&neighbour, "spin 1");
    let named = |name: &str| -> Value {
        browser.run(&format!(
            "const found = [...document.querySelectorAll('#now .hurt')].find((row) => \
             row.querySelector('.name').title === '{name}'); \
             return found?.closest('.blamed').querySelector('.culprit')?.title ?? null"
        ))
    };
    support::wait_until("the victim and its neighbour are named", || {
        named(&victim.path()) == neighbour.path().as_str()
    });
    // A click on the cell of the matrix shows the pair over time, and the address contains the
    // pair.
    let cell = format!(
        "const cell = [...document.querySelectorAll('#matrix .cell')].find((cell) => \
         cell.ariaLabel.startsWith('{} waited behind {}: ')); \
         cell?.click(); return !!cell",
        victim.path(),
        neighbour.path()
    );
    support::wait_until("the pair is in the matrix", || browser.run(&cell) == true);
    let pair = "return document.querySelectorAll('#matrix canvas').length";
    support::wait_until("the pair is drawn", || browser.run(pair) == 1);
    browser.picture("neighbour");
    // During a pause, the address contains the span.
    browser.press("p");
    support::wait_until("the span stands in the address", || {
        address(&browser).contains("from=")
    });
    let link = address(&browser);
    let span = "return document.querySelector('nav .span').textContent";
    let shown = || browser.run(span).as_str().unwrap_or_default().to_owned();
    assert_clean(&browser, &agent);
    let other = open(&agent, &link);
    support::wait_until("a link shows the same pair", || other.run(pair) == 1);
    let times = other.run(span).as_str().unwrap_or_default().to_owned();
    assert_eq!(times, shown());
    assert_clean(&other, &agent);
    // The first Escape leaves the pair, and the second ends the pause.
    browser.press("\u{e00c}");
    browser.press("\u{e00c}");
    support::wait_until("it is live again", || !address(&browser).contains("from="));
    browser.press("/");
    let focus = "return document.activeElement.id";
    assert_eq!(browser.run(focus), "filter");
}

#[test]
fn untrusted_names_are_shown_as_text() {
    let _machine = support::shared();
    let agent = agent();
    let hostile = Group::new("<img src=x onerror=document.title=1>\u{202e}\"&amp;");
    let _load = Load::own(&hostile, "spin 1");
    let browser = open(&agent, "#table=cgroups&filter=onerror");
    let names = "return [...document.querySelectorAll('#tables tbody th')].map((it) => it.title)";
    let name = support::wait_for("the group is listed", || {
        let names = browser.run(names);
        let found = names.as_array()?.iter().find_map(Value::as_str)?;
        Some(found.to_owned())
    });
    assert!(
        name.contains("<img src=x onerror=document.title=1>"),
        "{name}"
    );
    assert!(
        name.contains("\\u202e") && !name.contains('\u{202e}'),
        "{name}"
    );
    assert!(name.contains("&amp;"), "{name}");
    assert_eq!(
        browser.run("return document.querySelectorAll('img').length"),
        0
    );
    assert_ne!(browser.run("return document.title"), "1");
    browser.run("document.querySelector('#tables tbody th button').click()");
    support::wait_until("its details are shown", || {
        browser.run("return !!document.querySelector('.detail')") == true
    });
    assert_clean(&browser, &agent);
}
