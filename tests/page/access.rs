//! Tests of the page's accessibility: keyboard, screen reader, dark theme, phone and wall display.

use std::collections::BTreeSet;

use crate::page::{address, agent, assert_clean, click, open, text};
use crate::support::agent::Agent;
use crate::support::browser::Browser;
use crate::support::cgroup::Group;
use crate::support::load::Load;
use crate::support::{self, noctule};

/// A light load that leaves CPU time for the browser.
const GENTLE: &str = "while :; do i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done; sleep 0.1; done";

/// Widths of a phone, a desktop screen and a wall display.
const WIDTHS: [u32; 3] = [390, 1400, 2560];

/// Checks that a view has no barriers, at any width and in either theme.
#[track_caller]
fn assert_open_to_all(browser: &Browser, view: &str) {
    for theme in ["light", "dark"] {
        for width in WIDTHS {
            browser.set_appearance(width, 1000, theme);
            // The page is redrawn with the next frames.
            let fits = "return document.documentElement.scrollWidth <= innerWidth";
            support::wait_until(&format!("{view} fits into {width} pixels"), || {
                browser.run(fits) == true
            });
            let barriers = browser.barriers();
            assert_eq!(barriers, Vec::<String>::new(), "{view}, {width}, {theme}");
            browser.picture(&format!("{view}-{width}-{theme}"));
        }
    }
}

/// Opens each part that is initially closed.
fn open_everything(browser: &Browser) {
    click(browser, "#health summary");
    click(browser, "#tables tbody th button");
    support::wait_until("details are shown", || !text(browser, ".detail").is_empty());
    browser.press("?");
    support::wait_until("the keys are shown", || !text(browser, ".help").is_empty());
    browser.press("a");
    support::wait_until("spans are compared", || {
        !text(browser, "#compare").is_empty()
    });
}

fn check(agent: &Agent, name: &str) {
    let browser = open(agent, "");
    assert_open_to_all(&browser, name);
    open_everything(&browser);
    assert_open_to_all(&browser, &format!("{name}-opened"));
    assert_clean(&browser, agent);
    let browser = open(agent, "#table=processes&filter=no+such+name");
    browser.press("e");
    assert_open_to_all(&browser, &format!("{name}-nothing"));
    assert_clean(&browser, agent);
}

#[test]
fn live_page_has_no_accessibility_barriers() {
    let _machine = support::shared();
    let agent = agent();
    let (victim, neighbour) = (Group::new("victim"), Group::new("neighbour"));
    let _loads = [&victim, &neighbour].map(|group| Load::shell(group, GENTLE));
    check(&agent, "live");
}

#[test]
fn recording_has_no_accessibility_barriers() {
    let _machine = support::shared();
    let folder = tempfile::tempdir().expect("a folder");
    let tape = folder.path().join("tape");
    let tape = tape.to_str().expect("text");
    let group = Group::new("recorded");
    let load = Load::shell(&group, GENTLE);
    let output = noctule(&["record", "-o", tape, "--for", "5s"]);
    assert!(output.status.success(), "{output:?}");
    drop(load);
    check(&Agent::start(&["--from", tape]), "recording");
}

/// Returns the focused element, as a screen reader would describe it.
const FOCUS: &str = "const it = document.activeElement; \
    return it === document.body ? '' : `${it.closest('section')?.id ?? it.closest('header, footer')?.tagName} \
    ${it.ariaLabel ?? it.id} ${it.textContent.slice(0, 40)}`";

/// How much longer a span may be, in seconds, because both ends are aligned to steps.
const SLACK: i64 = 5;

#[test]
fn every_part_works_with_the_keyboard_alone() {
    let _machine = support::shared();
    let agent = agent();
    let group = Group::new("keys");
    let _load = Load::own(&group, "spin 1");
    let browser = open(&agent, "");
    browser.press("2");
    // Pauses the page, so that no row appears or disappears during the check.
    browser.press("p");
    let is_paused = || address(&browser).contains("from=");
    support::wait_until("time stands still", is_paused);
    let mut reached = BTreeSet::new();
    for _ in 0..600 {
        browser.press("\u{e004}");
        let focus = browser.run(FOCUS);
        let focus = focus.as_str().unwrap_or_default();
        let outline = "const look = getComputedStyle(document.activeElement); \
            return document.activeElement === document.body || look.outlineStyle !== 'none'";
        assert_eq!(browser.run(outline), true, "{focus}: nobody sees it");
        reached.extend(focus.split_whitespace().next().map(str::to_owned));
        if focus.contains("/readyz") {
            break;
        }
    }
    for part in ["HEADER", "cpu", "tables", "events", "health", "FOOTER"] {
        assert!(reached.contains(part), "{part}: {reached:?}");
    }
    let span = || {
        let address = address(&browser);
        let number = |name: &str| -> i64 {
            let (_, rest) = address.split_once(name).expect("a span");
            let end = rest.find('&').unwrap_or(rest.len());
            rest[..end].parse().expect("a number")
        };
        (number("from="), number("to="))
    };
    let (from, to) = span();
    let length = to - from;
    browser.press("+");
    support::wait_until("it is half as long", || {
        let (from, to) = span();
        (to - from - length / 2).abs() <= SLACK
    });
    let (near, _) = span();
    browser.press("\u{e012}");
    support::wait_until("it is earlier", || span().0 < near);
    browser.press("\u{e014}");
    support::wait_until("it is where it was", || (span().0 - near).abs() <= SLACK);
    browser.press("-");
    support::wait_until("it is as long as before", || {
        let (from, to) = span();
        (to - from - length).abs() <= 2 * SLACK
    });
    browser.press("l");
    support::wait_until("it is live again", || !is_paused());
    for (key, seconds) in [("1", "seconds=60"), ("3", "seconds=900")] {
        browser.press(key);
        support::wait_until("it has that length", || address(&browser).contains(seconds));
    }
    // When the pane closes, the focus returns to the element that opened it.
    let focus = "const name = document.querySelector('#tables tbody th button'); \
        name?.focus(); return !!name";
    support::wait_until("a name has the focus", || browser.run(focus) == true);
    browser.press("\u{e007}");
    support::wait_until("the pane is open", || !text(&browser, ".pane").is_empty());
    let name = text(&browser, ".pane h2");
    browser.run("document.querySelector('.pane .close').focus()");
    browser.press("\u{e00c}");
    support::wait_until("the pane is closed", || text(&browser, ".pane").is_empty());
    let focused = browser.run("return document.activeElement.closest('th')?.title ?? ''");
    assert_eq!(focused, name.as_str());
    browser.press("?");
    support::wait_until("the keys are shown", || !text(&browser, ".help").is_empty());
    browser.press("\u{e00c}");
    support::wait_until("they are gone", || text(&browser, ".help").is_empty());
    assert_clean(&browser, &agent);
}
