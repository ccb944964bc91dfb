//! A recording as the series of /metrics, each sample with its time.
//!
//! A family must stand in one piece, and a page has all families of one moment. So each family has a file
//! without a name beside the output, and these are put together at the end.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Seek as _, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use noctule_model::{Batch, Event};
use noctule_sinks::openmetrics::Exposition;
use noctule_tape::{Stretch, Tape};
use noctule_text::{bytes, count};

use super::{Done, Reader, create, read};
use crate::args::TapeExportArgs;
use crate::config::Config;
use crate::replay::Replay;

/// As often as Prometheus asks an agent by default.
const STEP: Duration = Duration::from_secs(15);

pub(super) fn export(
    args: &TapeExportArgs,
    config: &Config,
    tape: &Tape,
    stretches: &[Stretch],
) -> Result<Done> {
    let mut file = create(&args.output)?;
    let mut out = Out {
        config,
        replay: Replay::new(config)?,
        step_ns: args.step.unwrap_or(STEP).as_nanos() as u64,
        next_ns: 0,
        behind: 0,
        families: Families::new(&args.output),
    };
    let damages = read(tape, stretches, &mut out)?;
    let written = out.families.put_together(&mut file);
    let written = written.with_context(|| args.output.display().to_string())?;
    let mut words = format!(
        "{} samples, {}",
        count(out.families.samples),
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
    replay: Replay,
    step_ns: u64,
    /// Wall-clock time of the next samples.
    next_ns: u64,
    /// Batches of which the time is before that of the last samples: Prometheus takes none such.
    behind: u64,
    families: Families<'a>,
}

impl Reader for Out<'_> {
    const EVENTS: bool = false;

    fn restart(&mut self) -> Result<()> {
        self.replay = Replay::new(self.config)?;
        Ok(())
    }

    fn batch(&mut self, mut batch: Batch) -> Result<()> {
        let (snapshot, _) = self.replay.observe(&mut batch);
        if batch.time_unix_ns < self.next_ns {
            self.behind +=
                u64::from(batch.time_unix_ns.saturating_add(self.step_ns) < self.next_ns);
            return Ok(());
        }
        self.next_ns = batch.time_unix_ns.saturating_add(self.step_ns);
        let page = snapshot.render(Exposition::OpenMetrics, snapshot.taken_ns());
        self.replay.scraped(batch.taken_ns);
        self.families
            .add(&page, batch.time_unix_ns)
            .with_context(|| format!("beside {}", self.families.beside.display()))
    }

    fn events(&mut self, _: &[Event]) -> Result<()> {
        Ok(())
    }
}

/// The families of all pages.
struct Families<'a> {
    beside: &'a Path,
    /// In the order in which they came first.
    files: Vec<BufWriter<File>>,
    /// By the line with the name and the kind.
    places: HashMap<String, usize>,
    samples: u64,
}

impl<'a> Families<'a> {
    fn new(beside: &'a Path) -> Self {
        Self {
            beside,
            files: Vec::new(),
            places: HashMap::new(),
            samples: 0,
        }
    }

    /// Adds the samples of a page.
    fn add(&mut self, page: &str, unix_ns: u64) -> io::Result<()> {
        let (seconds, nanoseconds) = (unix_ns / 1_000_000_000, unix_ns % 1_000_000_000);
        let mut place = None;
        let mut is_new = false;
        for line in page.lines() {
            if line.starts_with("# TYPE ") {
                let known = self.places.get(line).copied();
                is_new = known.is_none();
                let at = match known {
                    Some(at) => at,
                    None => {
                        self.files.push(self.unnamed()?);
                        self.places.insert(line.to_owned(), self.files.len() - 1);
                        self.files.len() - 1
                    }
                };
                place = Some(at);
            }
            let Some(file) = place.and_then(|at| self.files.get_mut(at)) else {
                continue;
            };
            match line.strip_prefix('#') {
                Some(" EOF") => {}
                Some(_) if is_new => writeln!(file, "{line}")?,
                Some(_) => {}
                None => {
                    // Prometheus keeps milliseconds.
                    let milliseconds = nanoseconds / 1_000_000;
                    writeln!(file, "{line} {seconds}.{milliseconds:03}")?;
                    self.samples += 1;
                }
            }
        }
        Ok(())
    }

    /// A file that is gone when it is closed.
    fn unnamed(&self) -> io::Result<BufWriter<File>> {
        let mut name = self.beside.as_os_str().to_owned();
        name.push(format!(".{}.{}", std::process::id(), self.files.len()));
        let path = Path::new(&name);
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)?;
        fs::remove_file(path)?;
        Ok(BufWriter::with_capacity(1 << 16, file))
    }

    fn put_together(&mut self, out: &mut impl Write) -> io::Result<u64> {
        let mut written = 0;
        for file in std::mem::take(&mut self.files) {
            let mut file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
            file.rewind()?;
            written += io::copy(&mut file, out)?;
        }
        out.write_all(b"# EOF\n")?;
        out.flush()?;
        Ok(written + 6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_stand_in_one_piece_and_each_sample_has_its_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let output = folder.path().join("out");
        let mut families = Families::new(&output);
        let page = |value| {
            format!(
                "# TYPE a gauge\n# HELP a x\na{{l=\"# {value}\"}} {value}\n# TYPE b counter\nb_total {value}\n# EOF\n"
            )
        };
        for (value, time) in [(1, 1_500_000_000), (2, 2_001_999_999)] {
            families.add(&page(value), time).expect("room");
        }
        let mut text = Vec::new();
        families.put_together(&mut text).expect("room");
        let text = String::from_utf8(text).expect("text");
        let expected = "# TYPE a gauge\n# HELP a x\na{l=\"# 1\"} 1 1.500\na{l=\"# 2\"} 2 2.001\n\
                        # TYPE b counter\nb_total 1 1.500\nb_total 2 2.001\n# EOF\n";
        assert_eq!(text, expected);
        let left = fs::read_dir(folder.path()).expect("a folder").count();
        assert_eq!(left, 0, "nothing stays beside the output");
    }
}
