//! Exports a recording as the series of `/metrics`, with timestamps.

mod metrics;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use noctule_model::{Batch, Event};
use noctule_sinks::openmetrics::{Exposition, Snapshot};
use noctule_tape::{Stretch, Tape};
use noctule_text::{bytes, count, counted};

use crate::args::TapeExportArgs;
use crate::commands::record::export::{Done, Reader, create, keep, read};
use crate::config::Config;
use crate::replay::Replay;
use metrics::Metrics;

/// Default time between samples, which is a usual scrape interval.
const STEP: Duration = Duration::from_secs(15);

pub(super) fn export(
    args: &TapeExportArgs,
    config: &Config,
    tape: &Tape,
    stretches: &[Stretch],
) -> Result<Done> {
    let mut file = create(&args.output)?;
    let mut out = Out::new(config, args.step.unwrap_or(STEP), &args.output)?;
    let damages = read(tape, stretches, &mut out)?;
    out.end()?;
    let written = out.metrics.write_samples(&mut file);
    let written = written.with_context(|| args.output.display().to_string())?;
    keep(file, &args.output)?;
    let mut words = format!(
        "{}, {}",
        counted(out.metrics.samples, "sample", "samples"),
        bytes(written)
    );
    if out.behind > 0 {
        let behind = count(out.behind);
        words += &format!("; {behind} batches are left out, because the clock was set back");
    }
    Ok((words, damages))
}

struct Out<'a> {
    config: &'a Config,
    beside: &'a Path,
    replay: Replay,
    due: Due,
    /// Wall-clock time of the last samples.
    written_ns: u64,
    /// The last batch and its wall-clock time, if no sample includes it yet.
    rest: Option<(u64, Snapshot)>,
    /// Number of batches whose time is not later than the last samples. Prometheus rejects such
    /// samples.
    behind: u64,
    metrics: Metrics,
}

impl<'a> Out<'a> {
    fn new(config: &'a Config, step: Duration, beside: &'a Path) -> Result<Self> {
        Ok(Self {
            config,
            replay: Replay::new(config)?,
            due: Due::new(step),
            written_ns: 0,
            rest: None,
            behind: 0,
            beside,
            metrics: Metrics::new(beside),
        })
    }

    fn write(&mut self, unix_ns: u64, snapshot: &Snapshot) -> Result<()> {
        self.written_ns = unix_ns;
        let (view, taken_ns) = (self.replay.view(), snapshot.taken_ns());
        self.replay.scraped(taken_ns);
        let page = snapshot.render_for(view, Exposition::OpenMetrics, taken_ns);
        self.metrics
            .add(&page, unix_ns)
            .with_context(|| format!("temporary file next to {}", self.beside.display()))
    }

    /// Ends a part by writing its last batch, so that all activity of the part is exported.
    fn end(&mut self) -> Result<()> {
        match self.rest.take() {
            Some((unix_ns, snapshot)) => self.write(unix_ns, &snapshot),
            None => Ok(()),
        }
    }
}

impl Reader for Out<'_> {
    const EVENTS: bool = false;

    fn restart(&mut self, _: &str) -> Result<()> {
        self.end()?;
        self.replay = Replay::new(self.config)?;
        self.due.restart();
        Ok(())
    }

    fn batch(&mut self, mut batch: Batch) -> Result<()> {
        let (snapshot, _) = self.replay.observe(&mut batch);
        let is_due = self.due.takes(&batch);
        if batch.time_unix_ns <= self.written_ns {
            self.behind += 1;
            return Ok(());
        }
        if !is_due {
            self.rest = Some((batch.time_unix_ns, snapshot));
            return Ok(());
        }
        self.rest = None;
        self.write(batch.time_unix_ns, &snapshot)
    }

    fn events(&mut self, _: &[Event]) -> Result<()> {
        Ok(())
    }
}

/// Schedule of samples: at the first batch of a part, then at equal steps.
struct Due {
    step_ns: u64,
    /// Wall-clock time of the next samples; 0 means the next batch.
    next_ns: u64,
    /// `CLOCK_MONOTONIC` of the previous batch.
    before_ns: u64,
}

impl Due {
    fn new(step: Duration) -> Self {
        Self {
            step_ns: (step.as_nanos() as u64).max(1),
            next_ns: 0,
            before_ns: 0,
        }
    }

    fn restart(&mut self) {
        self.next_ns = 0;
    }

    /// Returns whether the batch is the one nearest to the due time. The batch may come slightly
    /// early.
    fn takes(&mut self, batch: &Batch) -> bool {
        let at = batch.time_unix_ns;
        let interval_ns = batch.taken_ns.saturating_sub(self.before_ns);
        self.before_ns = batch.taken_ns;
        if self.next_ns == 0 {
            self.next_ns = at;
        }
        if at.saturating_add(interval_ns / 2) < self.next_ns {
            return false;
        }
        let missed = at.saturating_sub(self.next_ns) / self.step_ns;
        let steps = self.step_ns.saturating_mul(missed + 1);
        self.next_ns = self.next_ns.saturating_add(steps);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the times of the samples for parts with batches at these times, in milliseconds.
    fn samples(step: Duration, parts: &[Vec<u64>]) -> (Vec<u64>, u64) {
        const MS: u64 = 1_000_000;
        let folder = tempfile::tempdir().expect("a folder");
        let output = folder.path().join("out");
        let config = Config::default();
        let mut out = Out::new(&config, step, &output).expect("a configuration");
        for part in parts {
            out.restart("").expect("room");
            for at in part {
                let batch = Batch {
                    taken_ns: at * MS,
                    time_unix_ns: at * MS,
                    ..Batch::default()
                };
                out.batch(batch).expect("room");
            }
        }
        out.end().expect("room");
        let mut text = Vec::new();
        out.metrics.write_samples(&mut text).expect("room");
        let text = String::from_utf8(text).expect("text");
        let lines = text.lines();
        let lines = lines.filter(|line| line.starts_with("noctule_self_build_info"));
        let time = |line: &str| {
            let (_, time) = line.rsplit_once(' ').expect("a time");
            time.replace('.', "").parse().expect("milliseconds")
        };
        (lines.map(time).collect(), out.behind)
    }

    #[test]
    fn samples_have_equal_steps_and_end_with_the_last_batch() {
        let second = Duration::from_secs(1);
        type Case<'a> = (&'a str, Duration, &'a [Vec<u64>], &'a [u64], u64);
        let cases: [Case<'_>; 6] = [
            (
                "a batch that comes early is none the less due",
                second,
                &[vec![1000, 1999, 3000, 3999, 5001]],
                &[1000, 1999, 3000, 3999, 5001],
                0,
            ),
            (
                "late ones do not move those behind them",
                3 * second,
                &[vec![1000, 2000, 3000, 4300, 5000, 6000, 7000, 8000]],
                &[1000, 4300, 7000, 8000],
                0,
            ),
            (
                "what a sleep has missed is not made up for",
                2 * second,
                &[vec![1000, 2000, 3000, 9400, 10_400, 11_400]],
                &[1000, 3000, 9400, 11_400],
                0,
            ),
            (
                "each part has its end",
                15 * second,
                &[vec![1000, 2000, 3000], vec![4000, 5000]],
                &[1000, 3000, 4000, 5000],
                0,
            ),
            (
                "no time comes twice, nor one before another",
                2 * second,
                &[vec![1000, 2000, 3000], vec![2500, 3000, 3500]],
                &[1000, 3000, 3500],
                2,
            ),
            (
                "without a step each batch",
                Duration::ZERO,
                &[vec![1000, 1500, 2000]],
                &[1000, 1500, 2000],
                0,
            ),
        ];
        for (what, step, parts, expected, behind) in cases {
            assert_eq!(samples(step, parts), (expected.to_vec(), behind), "{what}");
        }
    }
}
