//! `cargo xtask scenes`: scenes of which it is known what is the matter, played with real cgroups on the
//! last CPU, and what `noctule waits`, `why` and `top` say of them.
//!
//! Each scene is drawn with a seed or is the plainest of its kind. Beside it the kernel's own account of the
//! scene's groups is read: where others had the CPU, the truth is not that of the scene, and it is played
//! again. That is counted, too.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, bail};

mod draw;
mod group;
mod load;
mod play;

use draw::{Dice, KINDS, REMOVAL, Scene};
pub(crate) use load::run_if_asked;
use play::{Played, Stage};

/// Play scenes of which it is known what is the matter, as root, and compare what noctule says
///
/// Prints each scene that is judged wrongly, and the table of truths and verdicts.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Draw scenes with this seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// So many of them
    #[arg(long, value_name = "N", default_value_t = 60)]
    count: usize,
    /// Before that, the plainest scene of each kind so many times
    #[arg(long, value_name = "N", default_value_t = 0)]
    each: usize,
    /// Length of the window
    #[arg(long = "for", value_name = "DURATION", default_value = "1s")]
    window: String,
    /// Also look at the screen of `noctule top` (tmux), which takes some seconds for each
    #[arg(long)]
    top: bool,
    /// Only scenes of this kind, or of those that have this in their names
    ///
    /// With the name of a kind so many of that kind are drawn. `quota_or_neighbour` is played only then: when noctule
    /// has answered, the neighbour is removed, and the verdict is to be the quota's where the victim gains less than 10 %.
    #[arg(long, value_name = "WORD", default_value = "")]
    only: String,
    /// The binary [default: target/debug/noctule]
    #[arg(long, value_name = "FILE")]
    noctule: Option<PathBuf>,
}

/// How often a scene may be disturbed.
const TRIES: usize = 10;

/// What came of all scenes.
#[derive(Default)]
struct Outcome {
    /// Truth and verdict, and how often.
    confusion: BTreeMap<(String, String), usize>,
    wrong: usize,
    disturbed: usize,
    given_up: usize,
}

pub(crate) fn run(root: &Path, args: &Args) -> Result<ExitCode> {
    if !rustix::process::geteuid().is_root() {
        bail!("scenes are made of cgroups: run it as root");
    }
    let noctule = match &args.noctule {
        Some(path) => path.clone(),
        None => root.join("target/debug/noctule"),
    };
    if !noctule.exists() {
        bail!("{} is missing: cargo build", noctule.display());
    }
    let stage = Stage::new(noctule, args.window.clone(), args.top)?;
    let mut outcome = Outcome::default();
    let mut kinds = KINDS.iter().copied().chain([REMOVAL]);
    let named = kinds.find(|kind| *kind == args.only);
    let chosen = |kind: &str| match named {
        Some(named) => kind == named,
        None => kind.contains(&args.only),
    };
    for kind in KINDS.iter().filter(|kind| chosen(kind)) {
        for _ in 0..args.each {
            outcome.play(&stage, &Scene::plain(kind))?;
        }
    }
    let mut dice = Dice::new(args.seed);
    for _ in 0..args.count {
        let scene = match named {
            Some(kind) => Scene::drawn_of(kind, &mut dice),
            None => Scene::drawn(&mut dice),
        };
        if chosen(scene.kind) {
            outcome.play(&stage, &scene)?;
        }
    }
    outcome.show();
    Ok(ExitCode::from(u8::from(
        outcome.wrong + outcome.given_up > 0,
    )))
}

impl Outcome {
    fn play(&mut self, stage: &Stage, scene: &Scene) -> Result<()> {
        for _ in 0..TRIES {
            let played = stage.play(scene)?;
            if let Some(figures) = &played.disturbed {
                say(&format!("again  {scene}: {figures}"));
                self.disturbed += 1;
                continue;
            }
            self.note(scene, &played);
            return Ok(());
        }
        self.given_up += 1;
        say(&format!("{scene}: disturbed {TRIES} times"));
        Ok(())
    }

    fn note(&mut self, scene: &Scene, played: &Played) {
        let verdict = (played.truth.clone(), played.kind.clone());
        *self.confusion.entry(verdict).or_default() += 1;
        self.wrong += usize::from(!played.wrong.is_empty());
        match played.wrong.is_empty() {
            true => say(&format!("right  {scene}: {}", played.answer)),
            false => say(&format!("WRONG  {scene}: {}", played.answer)),
        }
        for wrong in &played.wrong {
            say(&format!("       {wrong}"));
        }
    }

    fn show(&self) {
        say(&format!("\n{:24} {:24} {:>5}", "scene", "verdict", "times"));
        for ((truth, verdict), times) in &self.confusion {
            say(&format!("{truth:24} {verdict:24} {times:>5}"));
        }
        let played: usize = self.confusion.values().sum();
        say(&format!(
            "{played} scenes, {} wrong; played again because others had the CPU: {}; given up: {}",
            self.wrong, self.disturbed, self.given_up
        ));
    }
}

fn say(words: &str) {
    // Standard output may be closed: the words cannot be printed.
    let _ = writeln!(std::io::stdout(), "{words}");
}

/// The output of a command that must succeed.
fn output(command: &mut Command) -> Result<String> {
    let output = command.output().context("starting a command")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("{command:?}: {errors}");
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
