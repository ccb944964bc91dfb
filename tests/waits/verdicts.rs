//! Scenes of which it is known what is the matter.

use std::collections::BTreeMap;

use serde_json::Value;

use super::parts::assert_adds_up;
use super::support::cgroup::Group;
use super::support::load::Load;
use super::support::{affinity, oracle};
use super::{row_of, support, waits};

/// How often each scene is played, each time with new groups: five times, or twice where all that
/// is done between them takes minutes.
fn runs() -> usize {
    if support::slowness() > 1.0 { 2 } else { 5 }
}

/// A scene. All that runs in it runs on one CPU.
struct Scene {
    /// The verdict.
    truth: &'static str,
    /// CPUs that the victim's quota allows it.
    quota: Option<f64>,
    /// Whether there is another group with as much to do.
    neighbour: bool,
    threads: u32,
}

const SCENES: [Scene; 5] = [
    Scene {
        truth: "throttled",
        quota: Some(0.2),
        neighbour: false,
        threads: 1,
    },
    Scene {
        truth: "noisy_neighbour",
        quota: None,
        neighbour: true,
        threads: 1,
    },
    Scene {
        truth: "throttled_and_contended",
        quota: Some(0.3),
        neighbour: true,
        threads: 1,
    },
    Scene {
        truth: "self_contended",
        quota: None,
        neighbour: false,
        threads: 3,
    },
    Scene {
        truth: "quiet",
        quota: None,
        neighbour: false,
        threads: 1,
    },
];

/// Part of the time that others may have: half of what makes a verdict of a lone thread's waits.
const DISTURBED: f64 = 0.05;

/// How often a scene may be disturbed.
const TRIES: usize = 20;

/// How a scene ended.
struct Played {
    row: Value,
    /// Whether the verdict names whom it should, or nobody where nobody is to blame.
    named: bool,
    /// Part of the time for which a lone thread waited although its quota let it run, or that neither
    /// of two groups had, by the kernel's own accounts: where it is large, the hypervisor or somebody
    /// else had the CPU, and the truth is not that of the scene.
    disturbed: f64,
}

fn play(scene: &Scene) -> Played {
    let victim = Group::new("victim").heavy();
    let neighbour = Group::new("neighbour").heavy();
    if let Some(cpus) = scene.quota {
        victim.limit(cpus);
    }
    if scene.quota.is_some() && scene.neighbour {
        // Before 6.6 who was throttled first catches up, alone, with what the others ran meanwhile,
        // and has a start of some milliseconds at the usual weight, which are many for a heavy group.
        victim.weigh(100);
        neighbour.weigh(180);
    }
    let lone = scene.threads == 1 && !scene.neighbour;
    let load = Load::own(&victim, &format!("spin {}", scene.threads));
    let _neighbour = scene.neighbour.then(|| Load::own(&neighbour, "spin 1"));
    let delayed = || oracle::waited_seconds(load.pid()) - victim.throttled_seconds();
    let used = || victim.usage_seconds() + neighbour.usage_seconds();
    let (begin, delayed_before, used_before) = (support::now(), delayed(), used());
    // The agent has the other CPUs.
    let answer = affinity::without_cpu(affinity::last_cpu(), || waits("1s"));
    let (delayed, used) = (delayed() - delayed_before, used() - used_before);
    let lasted = support::now() - begin;
    let row = row_of(&answer, &victim);
    assert_adds_up(row);
    let expected = scene.neighbour.then(|| neighbour.path());
    let named = row["verdict"]["culprit"].as_str() == expected.as_deref();
    Played {
        row: row.clone(),
        named,
        disturbed: match lone {
            true => delayed / lasted,
            // With less of the CPU the quota lasts longer; nothing else depends on it.
            false if scene.quota.is_some() => 1.0 - used / lasted,
            false => 0.0,
        },
    }
}

/// Plays a scene until nobody disturbs it.
fn play_alone(scene: &Scene) -> Played {
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
fn every_verdict_is_right_every_time() {
    let _machine = support::alone();
    needs!("cpu_waits");
    let mut confusion: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut wrong = Vec::new();
    for _ in 0..runs() {
        for scene in &SCENES {
            let Played {
                row,
                named,
                disturbed,
            } = play_alone(scene);
            let kind = row["verdict"]["kind"].as_str().expect("a kind").to_owned();
            if kind != scene.truth || !named {
                wrong.push(format!("{}, delayed by {disturbed:.3}: {row}", scene.truth));
            }
            *confusion.entry((scene.truth.to_owned(), kind)).or_default() += 1;
        }
    }
    show(&confusion);
    assert!(wrong.is_empty(), "{} wrong: {wrong:#?}", wrong.len());
}

/// The table of truths and verdicts, with precision and recall of each kind.
fn show(confusion: &BTreeMap<(String, String), usize>) {
    for ((truth, verdict), count) in confusion {
        println!("{truth} called {verdict}: {count}");
    }
    let sum = |keep: &dyn Fn(&str, &str) -> bool| -> usize {
        let kept = confusion.iter().filter(|((t, v), _)| keep(t, v));
        kept.map(|(_, count)| count).sum()
    };
    for Scene { truth: kind, .. } in &SCENES {
        let right = sum(&|t, v| t == *kind && v == *kind) as f64;
        let called = sum(&|_, v| v == *kind) as f64;
        let true_ones = sum(&|t, _| t == *kind) as f64;
        println!(
            "{kind}: precision {:.3}, recall {:.3}",
            right / called,
            right / true_ones
        );
    }
}
