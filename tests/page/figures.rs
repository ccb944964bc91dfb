//! Tests that the page's figures equal the figures of the API and the kernel.

use std::fs;

use serde_json::Value;

use crate::page::{address, agent, assert_clean, click, open, text};
use crate::support;
use crate::support::affinity;
use crate::support::agent::Agent;
use crate::support::browser::Browser;
use crate::support::cgroup::Group;
use crate::support::load::Load;

/// Returns the entries of a section's legend: name and figure.
fn legend(browser: &Browser, section: &str) -> Vec<(String, String)> {
    let script = format!(
        "return [...document.querySelectorAll('{section} .legend li')].map((it) => \
         [it.querySelector('.label').textContent, it.querySelector('.value').textContent])"
    );
    serde_json::from_value(browser.run(&script)).expect("pairs of words")
}

/// Parses a power such as `12.3W` or `80.0mW`.
fn watts(words: &str) -> f64 {
    let number = words.strip_suffix('W').expect("a power");
    let (number, unit) = match number.strip_suffix('m') {
        Some(number) => (number, 1e-3),
        None => (number, 1.0),
    };
    number.parse::<f64>().expect("a number") * unit
}

fn json(agent: &Agent, path: &str) -> Value {
    let (status, body) = agent.get(path, "application/json");
    assert_eq!(status, 200, "{body}");
    serde_json::from_str(&body).expect("JSON")
}

/// Returns the mean of a column of rates over the measured time.
fn mean(steps: &Value, history: &Value) -> f64 {
    let steps = steps.as_array().expect("steps").iter();
    let covered = history["covered_seconds"].as_array().expect("steps").iter();
    let known = steps
        .zip(covered)
        .filter_map(|(rate, seconds)| Some((rate.as_f64()?, seconds.as_f64()?)));
    let (sum, seconds) = known.fold((0.0, 0.0), |(sum, all), (rate, seconds)| {
        (sum + rate * seconds, all + seconds)
    });
    sum / seconds
}

#[test]
fn zone_power_equals_the_api() {
    let _machine = support::shared();
    let file = tempfile::NamedTempFile::new().expect("a file");
    // Without a meter, the configured power model applies.
    let config = "[energy.model]\nidle_watts = 11.0\nbusy_watts = 37.0\n";
    fs::write(file.path(), config).expect("a file");
    let agent = Agent::start(&["--config", file.path().to_str().expect("text")]);
    let browser = open(&agent, "#seconds=60");
    support::wait_until("power is shown", || {
        let zones = legend(&browser, "#energy");
        !zones.is_empty() && zones.iter().all(|(_, power)| power.ends_with('W'))
    });
    click(&browser, "#tables tbody th button");
    support::wait_until("the pane has the power of its group", || {
        let metered = text(&browser, ".pane").contains("W on average");
        metered && address(&browser).contains("owner=")
    });
    browser.press("\u{e00c}");
    // Containers over the span, and cgroups over the last interval.
    for tab in [1, 5] {
        click(&browser, &format!("[role=tab]:nth-of-type({tab})"));
        let powers = "return [...document.querySelectorAll('#tables td[data-title^=watts]')]\
            .filter((it) => it.textContent.endsWith('W')).length";
        support::wait_until("rows have their power", || {
            browser.run(powers).as_u64() > Some(0)
        });
    }
    // Pauses to get a fixed span.
    browser.press("p");
    support::wait_until("the span stands in the address", || {
        address(&browser).contains("from=")
    });
    let hash = address(&browser);
    let span = |name: &str| {
        let mut pairs = hash.trim_start_matches('#').split('&');
        pairs
            .find_map(|pair| pair.strip_prefix(name))
            .expect("it is there")
            .to_owned()
    };
    let path = format!(
        "/api/v1/history?from={}&to={}&steps=150",
        span("from="),
        span("to=")
    );
    let equal = |shown: &[(String, String)]| {
        let history = json(&agent, &path);
        let zones = history["energy"].as_array().expect("zones");
        let same = |(zone, (name, power)): (&Value, &(String, String))| {
            let expected = mean(&zone["watts"], &history);
            let label = zone["label"].as_str().expect("text");
            let is_named = match zone["source"] == "model" {
                true => *name == format!("{label} (model)"),
                false => name == label,
            };
            is_named && (watts(power) / expected - 1.0).abs() < 0.006
        };
        zones.len() == shown.len() && zones.iter().zip(shown).all(same)
    };
    support::wait_until("the page has the figures of the API", || {
        equal(&legend(&browser, "#energy"))
    });
    browser.picture("energy");
    assert_clean(&browser, &agent);
}

#[test]
fn cpu_strips_name_their_main_owner() {
    let _machine = support::shared_but(&[support::Part::LastCpu]);
    needs!("cpu_waits");
    let agent = agent();
    let hog = Group::new("strip-hog").heavy();
    let _load = Load::own(&hog, "spin 1");
    let cpu = affinity::last_cpu();
    let browser = open(&agent, "#seconds=60");
    let mut held = 0.0;
    support::wait_until("the API says who has the CPU", || {
        let history = json(&agent, "/api/v1/history?seconds=60&strips=256&owners=500");
        let owners = history["owners"].as_array().expect("owners");
        let owner = owners.iter().find(|it| it["name"] == hog.path().as_str());
        let strips = history["strips"].as_array().expect("strips");
        let strip = strips
            .iter()
            .find(|it| it["cpu"] == cpu)
            .expect("the last CPU");
        let last = |column: &str| {
            let known = strip[column].as_array().expect("steps").iter();
            known.rev().find(|it| !it.is_null()).cloned()
        };
        held = last("held").and_then(|it| it.as_f64()).unwrap_or(0.0);
        let busy = last("busy").and_then(|it| it.as_f64()).unwrap_or(0.0);
        assert!(held <= busy + 0.02, "{strip}");
        let measured = ["interrupt", "steal"]
            .iter()
            .any(|kind| !history["node"][kind].is_null());
        assert_eq!(last("taken").is_some(), measured, "{strip}");
        owner.is_some_and(|owner| last("holder").as_ref() == Some(&owner["id"]))
    });
    assert!(held > 0.3, "{held}");
    let label =
        "return document.querySelector('#cpu .grid canvas')?.getAttribute('aria-label') ?? ''";
    let label = || browser.run(label).as_str().expect("text").to_owned();
    let says = || {
        let label = label();
        let strip = label
            .split("; ")
            .find(|it| it.contains(&format!("CPU {cpu} ")));
        strip.is_some_and(|strip| strip.contains(&hog.path()))
    };
    support::wait_for_or_explain("the page says it", || says().then_some(()), label);
    browser.picture("each-cpu");
    assert_clean(&browser, &agent);
}

#[test]
fn machine_without_a_meter_shows_the_reason() {
    let _machine = support::shared();
    let agent = agent();
    let browser = open(&agent, "");
    let features = json(&agent, "/api/v1/features");
    let features = features["features"].as_array().expect("a list");
    let energy = features.iter().find(|it| it["name"] == "energy");
    let energy = energy.expect("each feature is listed");
    let metered = json(&agent, "/api/v1/history").get("energy").is_some();
    assert_eq!(metered, energy["state"] != "off", "{energy}");
    support::wait_until("the page says how it is", || {
        let shown = text(&browser, "#energy");
        match metered {
            true => !legend(&browser, "#energy").is_empty(),
            false => shown.contains(energy["reason"].as_str().expect("words")),
        }
    });
    assert_clean(&browser, &agent);
}

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
        shown("command line") == *line
    });
    assert_eq!(shown("user"), "root");
    browser.picture("process");
    assert_clean(&browser, &agent);
}
