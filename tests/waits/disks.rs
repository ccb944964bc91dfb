//! Tests of the disk use of each group, compared with the bytes that the groups read and wrote, and
//! with the kernel's counts.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use rustix::fs::{major, minor};
use serde_json::Value;

use super::support::cgroup::Group;
use super::support::load::Load;
use super::support::window::Window;
use super::{number, support};

/// Returns the disk that contains the working directory: its name, and the path of its statistics
/// in sysfs. Returns `None` if the directory is not on a disk.
fn disk() -> Option<(String, String)> {
    let device = fs::metadata(".").expect("a folder").dev();
    let folder = format!("/sys/dev/block/{}:{}", major(device), minor(device));
    let folder = fs::canonicalize(folder).ok()?;
    let folder = match folder.join("partition").exists() {
        true => folder.parent()?.to_owned(),
        false => folder,
    };
    let name = folder.file_name()?.to_str()?.to_owned();
    Some((name, folder.join("stat").to_str()?.to_owned()))
}

/// Returns the bytes that the disk has read and written, and the seconds in which it was busy.
fn use_of(stat: &str) -> (f64, f64) {
    let text = fs::read_to_string(stat).expect("sysfs");
    let fields: Vec<f64> = text
        .split_whitespace()
        .map_while(|field| field.parse().ok())
        .collect();
    ((fields[2] + fields[6]) * 512.0, fields[9] / 1000.0)
}

fn bytes(user: &Value) -> f64 {
    number(&user["read_bytes"]) + number(&user["written_bytes"])
}

#[test]
fn disk_report_shows_use_and_latency_of_each_group() {
    let _machine = support::shared();
    let Some((name, stat)) = disk() else {
        return;
    };
    let scenes = [
        ("read_bytes", "reads", "8 64"),
        ("written_bytes", "writes", "8 64"),
        ("written_bytes", "writes", "24 256"),
    ];
    let mut loads: Vec<_> = scenes
        .iter()
        .map(|(_, what, sizes)| {
            let group = Group::new(&format!("disk-{what}"));
            let load = Load::own(&group, &format!("direct {sizes} {what}"));
            (group, load)
        })
        .collect();
    let before = use_of(&stat);
    let window = Window::of(&["waits", "--blocked", "--by", "cgroup"]);
    loads.iter_mut().for_each(|(_, load)| load.say("begin"));
    let mut seconds = Vec::new();
    for (_, load) in &mut loads {
        seconds.push(load.next_message().parse::<f64>().expect("a number"));
        load.wait_for_end();
        load.reap();
    }
    let answer = window.close().answer;
    let after = use_of(&stat);
    let (all, busy) = (after.0 - before.0, after.1 - before.1);
    let disks = answer["disks"].as_array().expect("disks");
    let disk = disks.iter().find(|disk| disk["device"] == name.as_str());
    let disk = disk.unwrap_or_else(|| panic!("{name}: {answer}"));
    let users = disk["users"].as_array().expect("users");
    for (((key, _, sizes), (group, _)), seconds) in scenes.iter().zip(&loads).zip(seconds) {
        let user = users.iter().find(|user| user["cgroup.id"] == group.id());
        let user = user.unwrap_or_else(|| panic!("{}: {disk}", group.path()));
        let (length, _) = sizes.split_once(' ').expect("two sizes");
        let length = length.parse::<f64>().expect("a number") * 1024.0 * 1024.0;
        // The kernel can hide a few of 96 requests from programs, which then see neither their
        // issue nor their completion.
        let counted = number(&user[key]);
        assert!(
            (0.95 * length..=length).contains(&counted),
            "{length}: {user}"
        );
        let requests: f64 = ["reads", "writes", "other_requests"]
            .iter()
            .map(|key| number(&user[key]))
            .sum();
        let known = number(&user["queued_requests"]);
        assert!(
            (0.9 * requests..=requests).contains(&known),
            "{requests}: {user}"
        );
        let (queued, served) = (&user["queue_seconds"], &user["device_seconds"]);
        assert!(number(served) > 0.0, "{user}");
        assert!(
            number(queued) + number(served) <= seconds,
            "{seconds}: {user}"
        );
    }
    for row in answer["rows"].as_array().expect("rows") {
        check_culprit(row, disks);
    }
    let sum: f64 = users.iter().map(bytes).sum();
    assert!(sum <= all, "{sum} of {all}: {disk}");
    let counted = number(&disk["busy_seconds"]);
    assert!(counted > 0.0 && counted < busy + 0.0001, "{busy}: {disk}");
}

/// Checks the culprit of a verdict `held_by_disk`: the other group that took at least half of the
/// disk's time, or none.
fn check_culprit(row: &Value, disks: &[Value]) {
    if row["verdict"]["kind"] != "held_by_disk" {
        return;
    }
    let is_own = |user: &&Value| user["cgroup.id"] == row["cgroup.id"];
    let own = |disk: &&Value| {
        let users = disk["users"].as_array().expect("users");
        let own = users.iter().find(is_own);
        own.map_or(0.0, |own| {
            number(&own["device_seconds"]) + own["queue_seconds"].as_f64().unwrap_or(0.0)
        })
    };
    let disk = disks.iter().max_by(|a, b| own(a).total_cmp(&own(b)));
    let users = disk
        .filter(|disk| own(disk) > 0.0)
        .map(|disk| &disk["users"]);
    let users = users.and_then(Value::as_array).into_iter().flatten();
    let seconds = |user: &Value| number(&user["device_seconds"]);
    let total: f64 = users.clone().map(seconds).sum();
    let other = users
        .clone()
        .find(|user| user.get("cgroup.id").is_some() && !is_own(user));
    let other = other.filter(|user| seconds(user) >= 0.5 * total);
    let expected = other.map(|user| &user["name"]);
    assert_eq!(row["verdict"].get("culprit"), expected, "{row}");
}
