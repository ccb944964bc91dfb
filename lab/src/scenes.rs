//! Implements `cargo lab scenes`: plays scenes with a known cause in real cgroups on the last CPU,
//! and checks the output of `noctule waits`, `why` and `top`.
//!
//! A scene is either drawn with a seed or the plain form of its kind. The kernel's own accounting
//! of the scene's groups is also read. If the accounting shows that other processes used the CPU,
//! the known cause does not apply. The scene is then counted as disturbed and played again.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, bail};

mod draw;
mod group;
mod held;
mod held_load;
mod load;
mod play;

use draw::{Dice, KINDS, REMOVAL, Scene};
use held::{HeldScene, RESOURCES};
pub(crate) use load::run_if_requested;
use play::{Played, Stage};

/// Play scenes with a known cause, as root, and compare the answers of noctule
///
/// Prints each wrongly judged scene, and a table of causes and verdicts.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Seed for drawing scenes
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Number of scenes to draw
    #[arg(long, value_name = "N", default_value_t = 60)]
    count: usize,
    /// Number of plain scenes of each kind to play before that
    #[arg(long, value_name = "N", default_value_t = 0)]
    each: usize,
    /// Number of scenes to draw of each of disk, memory, lock and nothing wrong
    #[arg(long, value_name = "N", default_value_t = 0)]
    held: usize,
    /// Length of the measurement window
    #[arg(long = "for", value_name = "DURATION", default_value = "1s")]
    window: String,
    /// Also check the screen of `noctule top` (needs tmux and several seconds per scene)
    #[arg(long)]
    top: bool,
    /// Only play scenes whose kind contains this word
    ///
    /// If the word is the full name of a kind, `--count` scenes of that kind are drawn.
    /// `quota_or_neighbour` is only played this way: after noctule has answered, the neighbour is
    /// removed. The verdict must be the quota if the victim then gains less than 10%.
    #[arg(long, value_name = "WORD", default_value = "")]
    only: String,
    /// Path of noctule [default: target/debug/noctule]
    #[arg(long, value_name = "FILE")]
    noctule: Option<PathBuf>,
}

/// Maximum number of times that a disturbed scene is repeated.
const TRIES: usize = 10;

/// The results of all scenes.
#[derive(Default)]
struct Outcome {
    /// Number of scenes by cause and verdict.
    confusion: BTreeMap<(String, String), usize>,
    wrong: usize,
    disturbed: usize,
    given_up: usize,
}

pub(crate) fn run(root: &Path, args: &Args) -> Result<ExitCode> {
    if !rustix::process::geteuid().is_root() {
        bail!("scenes need cgroups: run as root");
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
            let scene = Scene::plain(kind);
            outcome.play(&scene, || stage.play(&scene))?;
        }
    }
    let mut dice = Dice::new(args.seed);
    for _ in 0..args.count {
        let scene = match named {
            Some(kind) => Scene::drawn_of(kind, &mut dice),
            None => Scene::drawn(&mut dice),
        };
        if chosen(scene.kind) {
            outcome.play(&scene, || stage.play(&scene))?;
        }
    }
    outcome.play_held(&stage, args, &mut dice)?;
    outcome.show();
    Ok(ExitCode::from(u8::from(
        outcome.wrong + outcome.given_up > 0,
    )))
}

impl Outcome {
    /// Plays scenes about other resources than the CPU.
    fn play_held(&mut self, stage: &Stage, args: &Args, dice: &mut Dice) -> Result<()> {
        for (_, kinds) in RESOURCES {
            let chosen = kinds.iter().filter(|kind| kind.contains(&args.only));
            let chosen: Vec<_> = chosen.copied().collect();
            for kind in &chosen {
                for _ in 0..args.each {
                    let scene = HeldScene::plain(kind);
                    self.play(&scene, || stage.play_held(&scene))?;
                }
            }
            for _ in 0..args.held * usize::from(!chosen.is_empty()) {
                let scene = HeldScene::drawn(&chosen, dice);
                self.play(&scene, || stage.play_held(&scene))?;
            }
        }
        Ok(())
    }

    fn play(
        &mut self,
        scene: &impl fmt::Display,
        mut play: impl FnMut() -> Result<Played>,
    ) -> Result<()> {
        for _ in 0..TRIES {
            let played = play()?;
            if let Some(figures) = &played.disturbed {
                say(&format!("again  {scene}: {figures}"));
                self.disturbed += 1;
                continue;
            }
            self.note(scene, &played);
            return Ok(());
        }
        self.given_up += 1;
        say(&format!(
            "{scene}: given up after {TRIES} disturbed attempts"
        ));
        Ok(())
    }

    fn note(&mut self, scene: &impl fmt::Display, played: &Played) {
        let verdict = (played.cause.clone(), played.kind.clone());
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
        for ((cause, verdict), times) in &self.confusion {
            say(&format!("{cause:24} {verdict:24} {times:>5}"));
        }
        let played: usize = self.confusion.values().sum();
        say(&format!(
            "{played} scenes, {} wrong; repeated because of disturbance: {}; given up: {}",
            self.wrong, self.disturbed, self.given_up
        ));
    }
}

fn say(words: &str) {
    // Stdout may be closed.
    let _ = writeln!(std::io::stdout(), "{words}");
}

/// Returns the output of a command that must succeed.
fn output(command: &mut Command) -> Result<String> {
    let output = command.output().context("starting a command")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("{command:?}: {errors}");
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
