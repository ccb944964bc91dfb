//! `noctule top`: the pipeline and the screen, each on its own thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use noctule_analysis::{Row, Selection};
use noctule_collect::SettingFiles;
use noctule_model::{Batch, CpuWeight, Level, Loss, Rivals};
use noctule_text::cpu_numbers;
use noctule_tui::{About, Files, View};

use crate::args::{By, TopArgs};
use crate::commands::shared::window;
use crate::config::Config;
use crate::exit;
use crate::exit::Usage;
use crate::print;
use crate::recording::Recording;
use crate::stop::{Signals, Woken};
use crate::users::{CommandLines, Users};
use crate::wire::{Pipeline, Shown};

/// Number of batches that are queued for a slow screen.
const LANE: usize = 4;

/// Maximum number of exited processes that are kept while the screen takes no batch. Recordings
/// have the same limit.
const MOST_ENDED: usize = 20_000;

pub(super) fn run(args: &TopArgs, config: &Config) -> Result<u8> {
    if args.interval < Duration::from_millis(50) {
        bail!(Usage(format!(
            "--interval is {:?}: must be 50ms or more",
            args.interval
        )));
    }
    let signals = Signals::catch()?;
    let tape = window::keep(&args.source, (&config.host, &[]))?;
    let stop = Arc::new(AtomicBool::new(false));
    let (sender, batches) = sync_channel(LANE);
    let (interval, duration) = (args.interval, args.duration);
    let names = args.names.clone();
    let collected = config.clone();
    let stopped = stop.clone();
    // The pipeline is created on the thread that drives it, because its rings cannot move between
    // threads.
    let (started, ready) = sync_channel(1);
    let source = thread::Builder::new()
        .name("collect".into())
        .spawn(move || {
            let mut pipeline = Pipeline::start(&collected, Shown::Use, true)?;
            let selection = pipeline.select(&names, None)?;
            let _ = started.send((selection, pipeline.setting_files()));
            let end = duration.map(|d| Instant::now() + d);
            let kept = tape.as_ref();
            feed(pipeline, &sender, &signals, interval, end, &stopped, kept)?;
            tape.map_or(Ok(()), |tape| tape.close())
        })
        .context("starting the collecting thread")?;
    let joined = || {
        source
            .join()
            .unwrap_or_else(|_| bail!("the collecting thread panicked"))
    };
    let Ok((selection, files)) = ready.recv() else {
        joined()?;
        bail!("the collecting thread ended during startup");
    };
    let commands = CommandLines::new(config.events.args);
    let about = About(Arc::new(RowFiles {
        files,
        users: Users::new(Some(commands)),
        commands,
    }));
    let options = options(args, config, selection, about);
    let shown = noctule_tui::run(batches, &options, &stop);
    stop.store(true, Ordering::Relaxed);
    joined()?;
    shown.context("cannot use the terminal")?;
    Ok(exit::DONE)
}

/// Returns the initial options of the screen.
pub(super) fn options(
    args: &TopArgs,
    config: &Config,
    selection: Selection,
    about: About,
) -> noctule_tui::Options {
    noctule_tui::Options {
        level: match args.by {
            Some(by) => by.into(),
            None if args.cpu || args.energy => Level::Process,
            None => Level::Container,
        },
        by_command: args.by == Some(By::Command),
        view: match (args.cpu, args.waits, args.energy) {
            (true, ..) => View::Use,
            (_, true, _) => View::Waits,
            (.., true) => View::Energy,
            _ => View::Overview,
        },
        thresholds: config.verdicts.thresholds(),
        selection,
        interval: args.interval,
        hostname: config.host.name(),
        utc_offset: print::utc_offset,
        about,
        moment: |text, end_unix_ns| window::moment(text, end_unix_ns).map_err(|it| it.0),
        ascii: print::ascii_only(),
        color: print::colours(),
    }
}

/// The files of this machine that describe rows.
struct RowFiles {
    files: SettingFiles,
    users: Users,
    commands: CommandLines,
}

impl Files for RowFiles {
    fn exist(&self) -> bool {
        true
    }

    fn about(&self, row: &Row) -> Vec<(&'static str, String)> {
        let mut facts = Vec::new();
        if let Some(pid) = living(row) {
            let command = self.commands.line_or_name(pid);
            facts.extend(command.map(|line| ("command", line)));
            facts.extend(self.users.of(pid).map(|user| ("user", user)));
            let allowed = self.files.allowed(&[pid]);
            facts.extend(allowed.map(|cpus| ("may run on", cpu_numbers(&Vec::from_iter(cpus)))));
            return facts;
        }
        let path = &row.owner.path;
        if let Some(limit) = self.files.limit(path) {
            facts.push(("CPU limit", noctule_text::cpus(limit)));
        }
        if self.files.idle(path) == Some(true) {
            facts.push(("CPU weight", "idle (cpu.idle=1)".to_owned()));
        } else if let Some(weight) = self.files.weight(path) {
            let name = match weight {
                CpuWeight::Weight(_) => "CPU weight",
                CpuWeight::Shares(_) => "CPU shares",
            };
            let words = format!("{} (default {})", weight.value(), weight.usual());
            facts.push((name, words));
        }
        let allowed = self.files.allowed(&self.files.processes(path));
        facts.extend(allowed.map(|cpus| ("may run on", cpu_numbers(&Vec::from_iter(cpus)))));
        if let Some(pressure) = self.files.pressure(path) {
            let words = "of the last 10 s with a task waiting for a CPU (PSI)";
            facts.push((
                "pressure",
                format!("{} {words}", noctule_text::percent(pressure)),
            ));
        }
        facts
    }

    fn user(&self, row: &Row) -> Option<String> {
        self.users.of(living(row)?)
    }

    fn resident_bytes(&self, row: &Row, level: Level) -> Option<u64> {
        match level {
            Level::Process => self.files.resident_bytes_of(living(row)?),
            _ => self.files.resident_bytes(&row.owner.path),
        }
    }

    fn rivals(&self, own: &str, culprit: &str) -> Option<Rivals> {
        self.files.rivals(own, culprit)
    }
}

/// Returns the pid of a row's process, if the process has not ended.
fn living(row: &Row) -> Option<u32> {
    let process = row.process.as_ref()?;
    (!process.exited).then_some(process.id.pid)
}

fn feed(
    mut pipeline: Pipeline,
    sender: &SyncSender<Batch>,
    signals: &Signals,
    interval: Duration,
    end: Option<Instant>,
    stop: &AtomicBool,
    tape: Option<&Recording>,
) -> Result<()> {
    let mut next = Instant::now();
    let mut missed = Missed::default();
    while !stop.load(Ordering::Relaxed) {
        let mut batch = pipeline.tick()?;
        if let Some(tape) = tape {
            tape.exact(&batch);
        }
        missed.join(&mut batch);
        match sender.try_send(batch) {
            Ok(()) => {}
            Err(TrySendError::Full(batch)) => missed.keep(batch),
            Err(TrySendError::Disconnected(_)) => break,
        }
        next += interval;
        // Each wait is short, so that `q` ends the program immediately.
        while Instant::now() < next && !stop.load(Ordering::Relaxed) {
            let step = (Instant::now() + Duration::from_millis(100)).min(next);
            if pipeline.wait(signals, step)? == Woken::End || end.is_some_and(|e| step >= e) {
                stop.store(true, Ordering::Relaxed);
            }
        }
        next = next.max(Instant::now());
    }
    Ok(())
}

/// Data of batches that a slow screen did not take, to be merged into the next batch. Counters are
/// absolute, so only exited processes and the holders of CPUs would be lost.
#[derive(Default)]
struct Missed {
    /// A batch with only two tables: exited processes and holders of CPUs.
    batch: Batch,
    /// Number of processes dropped because of the limit.
    lost: u64,
}

impl Missed {
    /// Merges the missed data into a batch, and reports the number of dropped processes as a loss.
    fn join(&mut self, batch: &mut Batch) {
        let missed = std::mem::take(&mut self.batch);
        batch.add_holders(&missed);
        batch.exited.splice(0..0, missed.exited);
        batch.losses.push(Loss {
            kind: "screen_process",
            place: "top",
            count: self.lost,
        });
    }

    /// Keeps the data of a batch that was not taken. The size is limited, because a terminal can
    /// block for hours.
    fn keep(&mut self, batch: Batch) {
        let Batch {
            mut exited, cpus, ..
        } = batch;
        self.lost += exited.len().saturating_sub(MOST_ENDED) as u64;
        exited.truncate(MOST_ENDED);
        self.batch = Batch {
            exited,
            cpus,
            ..Batch::default()
        };
    }
}

#[cfg(test)]
mod tests {
    use noctule_model::{CgroupId, CpuRow, Group, ProcessRow};

    use super::*;

    #[test]
    fn holders_of_a_skipped_batch_are_in_the_next() {
        let batch = |group, ns| Batch {
            cpus: vec![CpuRow {
                holders: vec![(Group::Cgroup(CgroupId(group)), ns)],
                ..CpuRow::default()
            }],
            ..Batch::default()
        };
        let mut missed = Missed::default();
        missed.keep(batch(1, 5));
        let mut next = batch(1, 2);
        missed.join(&mut next);
        missed.keep(next);
        let mut next = batch(2, 1);
        missed.join(&mut next);
        assert_eq!(
            next.cpus[0].holders,
            [
                (Group::Cgroup(CgroupId(1)), 7),
                (Group::Cgroup(CgroupId(2)), 1)
            ]
        );
    }

    #[test]
    fn stalled_screen_uses_bounded_memory() {
        let batch = || Batch {
            exited: vec![ProcessRow::default(); 8_192],
            ..Batch::default()
        };
        let mut missed = Missed::default();
        for tick in 1..=4 {
            let mut next = batch();
            missed.join(&mut next);
            assert_eq!(
                next.exited.len(),
                MOST_ENDED.min((tick - 1) * 8_192) + 8_192
            );
            missed.keep(next);
            assert_eq!(missed.batch.exited.len(), MOST_ENDED.min(tick * 8_192));
        }
        let mut taken = batch();
        missed.join(&mut taken);
        assert_eq!(taken.exited.len(), MOST_ENDED + 8_192);
        assert!(missed.batch.exited.is_empty());
        let [loss] = &taken.losses[..] else {
            panic!("{:?}", taken.losses);
        };
        assert_eq!(loss.count, 4 * 8_192 - MOST_ENDED as u64);
    }
}
