//! Defines the scenes: their processes, and the expected output.

use std::fmt;

/// All kinds of scenes.
pub(super) const KINDS: [&str; 13] = [
    "quiet",
    "neighbour",
    "three_neighbours",
    "quota",
    "quota_threads",
    "nested_quota",
    "quota_beside_neighbour",
    "quota_and_neighbour",
    "own_threads",
    "pinned",
    "kernel",
    "short_jobs",
    "starved",
];

/// The kind whose cause is measured by removing the neighbours. This kind is only played if its
/// name is given.
pub(super) const REMOVAL: &str = "quota_or_neighbour";

pub(super) struct Scene {
    pub(super) kind: &'static str,
    /// Number of threads of the victim.
    pub(super) threads: u64,
    /// CPU quota in hundredths of a CPU, or 0 if there is no quota.
    pub(super) quota: u64,
    /// Whether the quota belongs to the parent group.
    pub(super) nested: bool,
    /// Weights of the victim and of each neighbour.
    pub(super) weights: (u64, u64),
    /// Loads of the neighbours.
    pub(super) neighbours: Vec<String>,
    /// Whether the victim has the policy SCHED_IDLE.
    pub(super) idle: bool,
}

/// A random number generator that depends only on the seed (SplitMix64).
pub(super) struct Dice(u64);

impl Dice {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a number in `from..=to`.
    pub(super) fn roll(&mut self, from: u64, to: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        from + (z ^ (z >> 31)) % (to - from + 1)
    }
}

impl Scene {
    /// Creates the plain scene of a kind.
    pub(super) fn plain(kind: &'static str) -> Self {
        Self::with(kind, u64::midpoint)
    }

    /// Draws a scene of any kind.
    pub(super) fn drawn(dice: &mut Dice) -> Self {
        let kind = KINDS[dice.roll(0, KINDS.len() as u64 - 1) as usize];
        Self::drawn_of(kind, dice)
    }

    /// Draws a scene of this kind.
    pub(super) fn drawn_of(kind: &'static str, dice: &mut Dice) -> Self {
        Self::with(kind, |from, to| dice.roll(from, to))
    }

    fn with(kind: &'static str, mut choose: impl FnMut(u64, u64) -> u64) -> Self {
        let mut scene = Self {
            kind,
            threads: 1,
            quota: 0,
            nested: false,
            weights: (10_000, 10_000),
            neighbours: Vec::new(),
            idle: false,
        };
        let spin = |threads: u64| format!("spin {threads}");
        match kind {
            "neighbour" | "pinned" => {
                scene.weights.1 = choose(4000, 10_000);
                scene.neighbours = vec![spin(choose(1, 3))];
            }
            "three_neighbours" => scene.neighbours = vec![spin(1); 3],
            "quota" => scene.quota = choose(10, 50),
            "quota_threads" => {
                scene.quota = choose(10, 50);
                scene.threads = choose(4, 8);
            }
            "nested_quota" => {
                scene.quota = choose(10, 50);
                scene.threads = choose(1, 2);
                scene.nested = true;
            }
            // The victim uses its whole quota although the neighbour runs. Without the neighbour it
            // would not get more CPU time.
            "quota_beside_neighbour" => {
                scene.quota = choose(20, 30);
                scene.weights = (10_000, 5000);
                scene.neighbours = vec![spin(1)];
            }
            // While the neighbour sleeps, the victim uses up its quota. While the neighbour runs,
            // the victim does not.
            "quota_and_neighbour" => {
                scene.quota = choose(25, 35);
                scene.weights = (400, 10_000);
                let length = choose(250, 350) * 1000;
                scene.neighbours = vec![format!("bursts {length} {length}")];
            }
            // The victim has 1024 shares and the neighbour 256 to 4096; other groups have less
            // weight.
            REMOVAL => {
                scene.quota = choose(20, 80);
                scene.weights = (2500, choose(256, 4096) * 10_000 / 4096);
                scene.neighbours = vec![spin(1)];
            }
            "own_threads" => scene.threads = choose(2, 8),
            // Kernel threads are in the root group. The sender runs on another CPU, which is
            // shared.
            "kernel" => {
                scene.weights = (100, 300);
                scene.neighbours = vec!["flood".into()];
            }
            "short_jobs" => scene.neighbours = vec![format!("jobs {}", choose(10, 30))],
            "starved" => {
                scene.weights = (1, 10_000);
                scene.neighbours = vec![spin(choose(20, 50))];
                scene.idle = true;
            }
            _ => {}
        }
        scene
    }

    /// Returns the expected verdict.
    pub(super) fn expected_verdict(&self) -> &'static str {
        match self.kind {
            "neighbour" | "pinned" | "short_jobs" | "starved" => "hurt_by_neighbour",
            "three_neighbours" => "hurt_by_neighbours",
            "quota" | "quota_threads" | "nested_quota" | "quota_beside_neighbour" => {
                "held_by_quota"
            }
            "quota_and_neighbour" => "quota_and_neighbours",
            "own_threads" => "too_many_threads",
            "kernel" => "hurt_by_kernel",
            _ => "quiet",
        }
    }

    /// Returns the expected phrases of the output in order. `{parent}` and `{neighbour}` stand for
    /// paths.
    pub(super) fn expected_words(&self) -> Vec<String> {
        let limit = limit(self.quota);
        let words: Vec<String> = match self.kind {
            "neighbour" => vec!["hurt by {neighbour}: runnable but not running ".into()],
            "pinned" => vec![
                "hurt by {neighbour}: runnable but not running ".into(),
                "; may run on CPU ".into(),
                " only; ".into(),
                // The text continues with an idle CPU or with "none was idle".
                "CPU ".into(),
            ],
            "three_neighbours" => vec!["hurt by several: {neighbour}".into()],
            "quota" | "quota_threads" => vec![
                "held back ".into(),
                format!("% of its CPU demand by its own limit of {limit}"),
                "Try: raise its limit".into(),
            ],
            "nested_quota" => vec![
                "held back ".into(),
                format!("% of its CPU demand by the limit of {limit} of {{parent}}"),
                "Try: raise the limit of {parent}".into(),
            ],
            "quota_beside_neighbour" => vec![
                format!("% of its CPU demand by its own limit of {limit}"),
                " behind {neighbour}, but lost no CPU time to that wait: the limit was used up"
                    .into(),
            ],
            "quota_and_neighbour" => vec![
                format!("% by its own limit of {limit}, then "),
                "% by {neighbour}".into(),
            ],
            "own_threads" => vec![
                format!("its own {} runnable threads share 1 CPU", self.threads),
                // The suggestion is another CPU if one is idle, otherwise fewer threads.
                "Try: ".into(),
            ],
            "kernel" => vec![
                "kernel threads (".into(),
                "ksoftirqd/".into(),
                ") had its CPU ".into(),
            ],
            "short_jobs" => vec!["hurt by {jobs}/*: ".into(), " jobs: runnable".into()],
            "starved" => vec![
                "hurt by {neighbour}: runnable but not running ".into(),
                "; 1 thread has waited for ".into(),
                " and still waits".into(),
            ],
            // The verdict is known, but not the phrases.
            REMOVAL => Vec::new(),
            _ => vec!["not hurt".into()],
        };
        words
    }

    /// Returns the expected phrases of the details in `top`, which does not show another group's
    /// settings.
    pub(super) fn expected_words_in_top(&self) -> Vec<String> {
        match self.kind {
            "pinned" => self.expected_words().drain(..1).collect(),
            "kernel" => vec!["kernel threads had its CPU ".into()],
            _ => self.expected_words(),
        }
    }
}

/// Formats a number of CPUs below 1 like noctule.
fn limit(hundredths: u64) -> String {
    let digits = format!("0.{hundredths:02}");
    format!("{} CPU", digits.trim_end_matches('0'))
}

impl fmt::Display for Scene {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        if self.threads > 1 {
            write!(f, " threads={}", self.threads)?;
        }
        if self.quota > 0 {
            write!(f, " quota=0.{:02}", self.quota)?;
        }
        if self.weights != (10_000, 10_000) {
            write!(f, " weights={}:{}", self.weights.0, self.weights.1)?;
        }
        match self.neighbours.as_slice() {
            [] => Ok(()),
            all => write!(f, " beside {}", all.join(", ")),
        }
    }
}
