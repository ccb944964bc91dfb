//! What the page shows beside its pictures is what the API and the kernel say.

use std::fs;

use crate::page::{agent, assert_clean, click, open, text};
use crate::support;
use crate::support::cgroup::Group;
use crate::support::load::Load;

#[test]
fn the_detail_of_a_process_has_its_user_and_its_command_line() {
    let _machine = support::shared();
    let agent = agent();
    let group = Group::new("detail");
    let _load = Load::own(&group, "spin 1");
    let browser = open(&agent, &format!("#table=processes&filter={}", group.path()));
    let button = "#tables tbody th button";
    let name = support::wait_for("the process is listed", || {
        Some(text(&browser, button)).filter(|name| name.ends_with(']'))
    });
    let (_, pid) = name.rsplit_once('[').expect("a number");
    let pid = pid.trim_end_matches(']');
    let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).expect("it runs");
    let line = line.trim_end_matches('\0').replace('\0', " ");
    click(&browser, button);
    let shown = |key: &str| {
        let script = format!(
            "return [...document.querySelectorAll('.detail dt')]\
             .find((it) => it.textContent === '{key}')?.nextElementSibling.textContent ?? ''"
        );
        browser.run(&script)
    };
    support::wait_until("its command line is shown", || {
        shown("process.command_line") == *line
    });
    assert_eq!(shown("process.owner"), "root");
    browser.picture("process");
    assert_clean(&browser, &agent);
}
