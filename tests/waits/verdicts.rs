//! Tests of verdicts on scenes with a known cause.

use serde_json::Value;

use super::parts::assert_adds_up;
use super::support::cgroup::Group;
use super::support::load::Load;
use super::support::{affinity, oracle};
use super::{row_of, support, waits};

/// A scene, whose loads all run on one CPU.
struct Scene {
    /// The expected verdict.
    truth: &'static str,
    /// The words with which the phrases of its sentence start, in order. `{neighbour}` and
    /// `{parent}` stand for their paths.
    sentence: &'static [&'static str],
    /// CPUs that the quota of the victim or of its parent allows.
    quota: Option<f64>,
    /// Whether the quota is set on the parent.
    nested: bool,
    /// Number of other groups with as much work.
    neighbours: usize,
    /// The neighbours' load.
    load: &'static str,
    /// Number of the victim's threads.
    threads: u32,
}

const QUIET: Scene = Scene {
    truth: "quiet",
    sentence: &["not hurt"],
    quota: None,
    nested: false,
    neighbours: 0,
    load: "spin 1",
    threads: 1,
};

const SCENES: [Scene; 9] = [
    Scene {
        truth: "held_by_quota",
        sentence: &[
            "held back ",
            "% of its CPU demand by its own limit of 0.2 CPU",
        ],
        quota: Some(0.2),
        ..QUIET
    },
    Scene {
        truth: "held_by_quota",
        sentence: &[
            "held back ",
            "% of its CPU demand by its own limit of 0.2 CPU",
        ],
        quota: Some(0.2),
        threads: 8,
        ..QUIET
    },
    Scene {
        truth: "held_by_quota",
        sentence: &[
            "held back ",
            "% of its CPU demand by the limit of 0.2 CPU of {parent}",
        ],
        quota: Some(0.2),
        nested: true,
        ..QUIET
    },
    // With and without the neighbour, the victim gets exactly its quota.
    Scene {
        truth: "held_by_quota",
        sentence: &[
            "held back ",
            "% of its CPU demand by its own limit of 0.3 CPU; it also waited ",
            "% behind {neighbour}, but lost no CPU time to that wait: the limit was used up",
        ],
        quota: Some(0.3),
        neighbours: 1,
        ..QUIET
    },
    // The quota runs out while the neighbour sleeps, and the throttle lasts while the neighbour
    // runs.
    Scene {
        truth: "quota_and_neighbours",
        sentence: &[
            "held back ",
            "% by its own limit of 0.3 CPU, then ",
            "% by {neighbour}",
        ],
        quota: Some(0.3),
        neighbours: 1,
        load: "bursts 300000 300000",
        ..QUIET
    },
    Scene {
        truth: "hurt_by_neighbour",
        sentence: &[
            "hurt by {neighbour}: runnable but not running ",
            "% of its CPU demand, p99 ",
        ],
        neighbours: 1,
        ..QUIET
    },
    Scene {
        truth: "hurt_by_neighbours",
        sentence: &[
            "hurt by several: ",
            "%, ",
            "%, ",
            "%; runnable but not running ",
        ],
        neighbours: 3,
        ..QUIET
    },
    Scene {
        truth: "too_many_threads",
        sentence: &["its own 3 runnable threads share 1 CPU"],
        threads: 3,
        ..QUIET
    },
    QUIET,
];

/// Maximum share of the time that unrelated loads may take. This maximum is half of the share above
/// which a lone thread's waits get a verdict.
const DISTURBED: f64 = 0.05;

/// How often a scene may be disturbed.
const TRIES: usize = 20;

/// The result of a scene.
struct Played {
    row: Value,
    /// Whether the verdict names the right culprit, or no culprit if no group is to blame.
    named: bool,
    /// Whether the sentence matches the scene.
    said: bool,
    /// Share of the time that was lost to something outside the scene, according to the kernel. For
    /// a lone thread it is the wait outside its quota, and for two groups the time during which
    /// neither ran. If the share is large, the hypervisor or another load had the CPU, and the
    /// scene's verdict does not apply.
    disturbed: f64,
}

fn play(scene: &Scene) -> Played {
    let parent = Group::new("parent").heavy();
    let victim = Group::named(&format!("{}/victim", &parent.path()[1..])).heavy();
    let neighbours: Vec<Group> = (0..scene.neighbours)
        .map(|_| Group::new("neighbour").heavy())
        .collect();
    if let Some(cpus) = scene.quota {
        if scene.nested { &parent } else { &victim }.limit(cpus);
    }
    match scene.truth {
        // Before 6.6 a group whose throttle has ended runs alone until it has caught up with the
        // others. Catching up takes a few milliseconds at the default weight, and much longer for a
        // heavy group.
        "held_by_quota" if scene.neighbours > 0 => {
            parent.weigh(100);
            neighbours[0].weigh(180);
        }
        "quota_and_neighbours" => parent.weigh(200),
        _ => {}
    }
    let lone = scene.threads == 1 && scene.neighbours == 0;
    let load = Load::own(&victim, &format!("spin {}", scene.threads));
    let start = |group| Load::own(group, scene.load);
    let _neighbours: Vec<Load> = neighbours.iter().map(start).collect();
    let throttled = || victim.throttled_seconds() + parent.throttled_seconds();
    let delayed = || oracle::waited_seconds(load.pid()) - throttled();
    let others = || neighbours.iter().map(Group::usage_seconds).sum::<f64>();
    let used = || victim.usage_seconds() + others();
    let (begin, delayed_before, used_before) = (support::now(), delayed(), used());
    // The agent gets the other CPUs.
    let answer = affinity::without_cpu(affinity::last_cpu(), || waits("1s"));
    let (delayed, used) = (delayed() - delayed_before, used() - used_before);
    let lasted = support::now() - begin;
    let row = row_of(&answer, &victim);
    assert_adds_up(row);
    let neighbour = neighbours.first().map(Group::path);
    let blamed = ["hurt_by_neighbour", "quota_and_neighbours"].contains(&scene.truth);
    let expected = neighbour.clone().filter(|_| blamed);
    let named = row["verdict"]["culprit"].as_str() == expected.as_deref();
    let paths = |part: &&str| {
        part.replace("{neighbour}", neighbour.as_deref().unwrap_or_default())
            .replace("{parent}", &parent.path())
    };
    let mut rest = row["verdict"]["reason"].as_str().expect("a sentence");
    let said = scene.sentence.iter().map(paths).all(|part| {
        let found = rest.split_once(part.as_str());
        found.map(|(_, after)| rest = after).is_some()
    });
    Played {
        row: row.clone(),
        named,
        said,
        disturbed: match lone {
            true => delayed / lasted,
            // With less CPU time the quota lasts longer. Nothing else depends on the CPU time.
            false if scene.quota.is_some() && scene.load == "spin 1" && scene.threads == 1 => {
                1.0 - used / lasted
            }
            false => 0.0,
        },
    }
}

/// Plays a scene until it is not disturbed.
fn play_undisturbed(scene: &Scene) -> Played {
    for _ in 0..TRIES {
        let played = play(scene);
        if played.disturbed < DISTURBED {
            return played;
        }
        println!(
            "{}: delayed by {:.3}, the verdict was {}: once more",
            scene.truth, played.disturbed, played.row["verdict"]
        );
    }
    panic!("{}: disturbed {TRIES} times", scene.truth);
}

#[test]
fn every_verdict_is_right() {
    let _machine = support::alone();
    needs!("cpu_waits");
    let mut wrong = Vec::new();
    for scene in &SCENES {
        let Played {
            row,
            named,
            said,
            disturbed,
        } = play_undisturbed(scene);
        if row["verdict"]["kind"] != scene.truth || !named || !said {
            wrong.push(format!("{}, delayed by {disturbed:.3}: {row}", scene.truth));
        }
    }
    assert!(wrong.is_empty(), "{} wrong: {wrong:#?}", wrong.len());
}
