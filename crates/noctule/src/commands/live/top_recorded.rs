//! `noctule top --from`: shows any moment of a recording.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use noctule_model::Batch;
use noctule_tape::{Batches, Damage, Span, Stretch, Tape};
use noctule_tui::{About, NoFiles, Recorded, Run};

use super::top;
use crate::args::{Names, TopArgs};
use crate::commands::shared::window::{self, Sought, Window};
use crate::config::Config;
use crate::exit;
use crate::stop;

/// If a search takes longer than this, a message reports that it is running.
const QUIET: Duration = Duration::from_secs(1);

pub(crate) fn run(folder: &Path, args: &TopArgs, config: &Config) -> Result<u8> {
    let shown = Shown::open(folder, args)?;
    // A selected part is first shown at its start, and a whole recording at its end.
    let run = shown.parts.len().saturating_sub(1);
    let end = || shown.parts.last().map_or(0, |part| part.end_unix_ns);
    let start = shown.part.map_or_else(end, |part| part.from_unix_ns);
    let selection = shown.select(&args.names)?;
    let host = &shown.tape.segments()[0].meta().host;
    // Files of this machine are not read, because they describe current groups and processes rather
    // than the recorded ones.
    let nothing = About(Arc::new(NoFiles));
    let options = noctule_tui::Options {
        interval: shown.interval(),
        hostname: host.clone(),
        ..top::options(args, config, selection, nothing)
    };
    let stop = stop::end_flag()?;
    let replayed = noctule_tui::replay(&shown, (run, start), &options, &stop);
    // Warnings are printed after the screen is closed, because it has no room for them.
    window::warn(shown.damages_found().iter());
    replayed.context("cannot use the terminal")?;
    Ok(exit::DONE)
}

/// The recording, and the period of it that is shown.
struct Shown {
    tape: Tape,
    parts: Vec<Span>,
    /// The selected part; `None` for the whole recording.
    part: Option<Stretch>,
    /// Damage found in the recording so far, without duplicates.
    met: Mutex<Vec<Damage>>,
}

/// An iterator over batches that collects the damage it finds in the recording.
struct Noted<'a> {
    batches: Batches<'a>,
    met: &'a Mutex<Vec<Damage>>,
    /// Number of entries of `damages` already collected.
    noted: usize,
}

impl Iterator for Noted<'_> {
    type Item = Batch;

    fn next(&mut self) -> Option<Batch> {
        let next = self.batches.next();
        let damages = self.batches.damages();
        if self.noted < damages.len() {
            let mut met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
            for damage in &damages[self.noted..] {
                if !met.contains(damage) {
                    met.push(damage.clone());
                }
            }
            self.noted = damages.len();
        }
        next
    }
}

impl Shown {
    fn open(folder: &Path, args: &TopArgs) -> Result<Self> {
        if args.source.recorded.at.is_none() && args.duration.is_none() {
            let tape = window::open(folder).context("--from")?;
            window::warn(tape.damages());
            let mut parts = tape.spans();
            parts.retain(|part| part.batches() > 0);
            ensure!(!parts.is_empty(), window::nothing_in(&tape, folder));
            return Ok(Self {
                tape,
                parts,
                part: None,
                met: Mutex::default(),
            });
        }
        // With `--at`, the user can move up to the end of the recording.
        let window = Window::of_option(
            folder,
            args.source.recorded.at.as_deref(),
            args.duration,
            Duration::MAX,
        )?;
        Ok(Self {
            tape: window.tape,
            parts: vec![window.stretch.as_span()],
            part: Some(window.stretch),
            met: Mutex::default(),
        })
    }

    /// Returns the damage found so far.
    fn damages_found(&self) -> Vec<Damage> {
        let met = self.met.lock();
        met.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Resolves the selected names. A name without a match in the recording is an error. The first
    /// and last batch of each part are searched first, because they contain most names. All batches
    /// are read only if a name is still missing.
    fn select(&self, names: &Names) -> Result<noctule_analysis::Selection> {
        let mut sought = Sought::of(names)?;
        if sought.is_found() {
            return sought.selection();
        }
        // The first and last batch are chosen by number, because after a clock change the extreme
        // times can be in the middle.
        let ends =
            |run: usize| [0, self.number_at(run, self.parts[run].end_unix_ns)].map(|at| (run, at));
        let runs = 0..self.parts.len();
        let ends = runs.clone().flat_map(ends);
        let ends = ends.filter_map(|(run, at)| self.batches(run, at).next());
        let all = runs.flat_map(|run| self.batches(run, 0));
        let began = Instant::now();
        let mut is_announced = false;
        for batch in ends.chain(all) {
            sought.note(&batch);
            if sought.is_found() {
                break;
            }
            if !is_announced && began.elapsed() > QUIET {
                tracing::warn!("searching all batches for the selected rows");
                is_announced = true;
            }
        }
        sought.selection()
    }

    /// Returns the average time between two batches.
    fn interval(&self) -> Duration {
        let mut parts = self.parts.iter().rev();
        let ns = parts.find_map(|part| self.tape.interval_ns(part));
        let ns = ns.unwrap_or(0);
        // The interval is rounded to milliseconds, so that a second is displayed as a whole second.
        let ms = (ns + 500_000) / 1_000_000;
        Duration::from_millis(ms.max(1))
    }
}

impl Recorded for Shown {
    fn runs(&self) -> Vec<Run> {
        let run = |part: &Span| Run {
            from_unix_ns: part.from_unix_ns,
            to_unix_ns: part.to_unix_ns,
            end_unix_ns: part.end_unix_ns,
            interval: Duration::from_nanos(self.tape.interval_ns(part).unwrap_or(0)),
        };
        self.parts.iter().map(run).collect()
    }

    fn number_at(&self, run: usize, time_unix_ns: u64) -> u64 {
        let span = self.parts.get(run);
        let number = span.and_then(|span| self.tape.number_at(span, time_unix_ns));
        let number = number.unwrap_or(0);
        let Some(part) = &self.part else {
            return number;
        };
        // If the clock was set back, the start time can occur again later.
        let (first, last) = part.numbers();
        match time_unix_ns == part.from_unix_ns {
            true => first,
            false => number.max(first).min(last),
        }
    }

    fn batches(&self, run: usize, number: u64) -> Box<dyn Iterator<Item = Batch> + '_> {
        let Some(part) = self.parts.get(run) else {
            return Box::new(std::iter::empty());
        };
        let (first, last) = self.part.map_or((0, u64::MAX), |it| it.numbers());
        let batches = self.tape.batches_from(part, number.max(first));
        Box::new(Noted {
            batches: batches.up_to(last),
            met: &self.met,
            noted: 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use noctule_model::{CgroupId, CgroupRow, Owner, ProcessId, ProcessRow};
    use noctule_tape::{Meta, Options, Recorder};

    use super::*;

    /// A batch of a machine with one unit, and one process whose pid is the batch number.
    fn batch(sequence: u64, time_unix_ns: u64, unit: &str) -> Batch {
        let owner = Owner {
            path: format!("/{unit}"),
            unit: Some(unit.into()),
            ..Owner::unknown(CgroupId(sequence))
        };
        Batch {
            sequence,
            time_unix_ns,
            taken_ns: sequence * 1_000_000_000,
            cgroups: vec![CgroupRow {
                id: owner.cgroup,
                owner: Some(Arc::new(owner)),
                ..CgroupRow::default()
            }],
            processes: vec![ProcessRow {
                id: ProcessId {
                    pid: sequence as u32,
                    ..ProcessId::default()
                },
                ..ProcessRow::default()
            }],
            ..Batch::default()
        }
    }

    fn recorder(folder: &Path) -> Recorder {
        let options = Options {
            folder: folder.to_owned(),
            segment_ns: 300_000_000_000,
            on_thread: || {},
            limits: noctule_tape::Limits::default(),
            meta: Meta::default(),
        };
        Recorder::open(options).expect("a folder")
    }

    #[test]
    fn names_are_found_despite_a_clock_set_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let recorder = recorder(folder.path());
        let hour = 3_600_000_000_000;
        let batches = [
            batch(1, 5 * hour, "first.service"),
            batch(2, 6 * hour, "greatest.service"),
            batch(3, 3 * hour, "least.service"),
            batch(4, 4 * hour, "last.service"),
        ];
        batches.iter().for_each(|batch| recorder.batch(batch));
        assert!(recorder.close(Duration::from_secs(30)), "room");
        let tape = Tape::open(folder.path()).expect("a tape");
        let shown = Shown {
            parts: tape.spans(),
            tape,
            part: None,
            met: Mutex::default(),
        };
        let cases = [
            ("first", true),
            ("last", true),
            ("least", true),
            ("other", false),
        ];
        for (unit, there) in cases {
            let names = Names {
                unit: vec![unit.into()],
                ..Names::default()
            };
            assert_eq!(shown.select(&names).is_ok(), there, "{unit}");
        }
        for (pid, there) in [(1, true), (2, true), (4, true), (5, false)] {
            let names = Names {
                pid: vec![pid],
                ..Names::default()
            };
            assert_eq!(shown.select(&names).is_ok(), there, "{pid}");
        }
    }

    #[test]
    fn unreadable_end_falls_back_to_an_earlier_batch() {
        let folder = tempfile::tempdir().expect("a folder");
        let recorder = recorder(folder.path());
        let second = 1_000_000_000;
        for number in 1..=40 {
            recorder.batch(&batch(number, number * second, "a.service"));
            while !recorder.has_room() {
                std::thread::yield_now();
            }
        }
        assert!(recorder.close(Duration::from_secs(30)), "room");
        let tape = Tape::open(folder.path()).expect("a tape");
        let file = tape.segments()[0].path().join("node.arrows");
        let mut bytes = std::fs::read(&file).expect("a table");
        let at = bytes.len() - 100;
        bytes[at] ^= 1;
        std::fs::write(&file, bytes).expect("room");
        assert_eq!(tape.check().len(), 1, "a part of a table");
        let shown = Shown {
            parts: tape.spans(),
            tape,
            part: None,
            met: Mutex::default(),
        };
        let end = shown.number_at(0, shown.parts[0].end_unix_ns);
        assert_eq!(end, 40);
        let last = shown.batches(0, end).next().expect("those before");
        assert!((20..40).contains(&last.sequence), "{}", last.sequence);
        // The damage is recorded once, although it is found twice.
        for _ in 0..2 {
            assert!(shown.batches(0, end).count() > 0);
            let said = shown.damages_found();
            assert_eq!(said.len(), 1, "{said:?}");
            assert!(said[0].path.ends_with("node.arrows"), "{said:?}");
        }
    }
}
