//! Sorts the samples of all pages as OpenMetrics requires: by family, then by metric.
//!
//! A page has all metrics of one moment, so each page adds samples to every metric. Samples are
//! buffered in memory. When the buffer is full, its samples are written in order to an unnamed
//! file, as a *run*. Finally the runs are merged.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// Maximum size of the buffered samples, in bytes.
const WAITING: usize = 64 << 20;

/// A metric: samples with the same labels. For a histogram, these are the samples of all buckets.
#[derive(Default)]
struct Metric {
    waiting: String,
}

struct Family {
    /// The lines with the metadata.
    head: String,
    is_histogram: bool,
    /// Metrics in the order in which they appeared.
    metrics: Vec<Metric>,
    /// Index of each metric, by the number of its list of labels.
    places: HashMap<u32, usize>,
}

/// Samples in the file, ordered by family and metric.
struct Run {
    /// Offset of the next sample.
    at: u64,
    /// Length in bytes of each metric of each family.
    lengths: Vec<Vec<u32>>,
}

pub(super) struct Metrics {
    folder: PathBuf,
    /// Families in the order in which they appeared.
    families: Vec<Family>,
    /// Index of each family, by its `# TYPE` line.
    places: HashMap<String, usize>,
    /// The number of each list of labels.
    labels: HashMap<String, u32>,
    waiting: usize,
    most_waiting: usize,
    file: Option<File>,
    runs: Vec<Run>,
    /// Number of samples so far.
    pub(super) samples: u64,
}

impl Metrics {
    /// Creates an empty set. The unnamed file is created in the directory of `output`.
    pub(super) fn new(output: &Path) -> Self {
        let folder = output.parent().filter(|it| !it.as_os_str().is_empty());
        Self {
            folder: folder.unwrap_or(Path::new(".")).to_owned(),
            families: Vec::new(),
            places: HashMap::new(),
            labels: HashMap::new(),
            waiting: 0,
            most_waiting: WAITING,
            file: None,
            runs: Vec::new(),
            samples: 0,
        }
    }

    /// Adds the samples of a page.
    pub(super) fn add(&mut self, page: &str, unix_ns: u64) -> io::Result<()> {
        // Prometheus stores times in milliseconds.
        let (seconds, milliseconds) = (unix_ns / 1_000_000_000, unix_ns / 1_000_000 % 1000);
        let time = format!(" {seconds}.{milliseconds:03}\n");
        let mut family = None;
        let mut is_new = false;
        for line in page.lines() {
            if line.starts_with("# TYPE ") {
                let known = self.places.get(line).copied();
                is_new = known.is_none();
                family = Some(known.unwrap_or_else(|| self.begin_family(line)));
            }
            let Some(place) = family else { continue };
            if !line.starts_with('#') {
                self.add_sample(place, line, &time);
            } else if is_new && line != "# EOF" {
                let head = &mut self.families[place].head;
                head.push_str(line);
                head.push('\n');
            }
        }
        match self.waiting < self.most_waiting {
            true => Ok(()),
            false => self.write_run(),
        }
    }

    fn begin_family(&mut self, type_line: &str) -> usize {
        self.families.push(Family {
            head: String::new(),
            is_histogram: type_line.ends_with(" histogram"),
            metrics: Vec::new(),
            places: HashMap::new(),
        });
        let place = self.families.len() - 1;
        self.places.insert(type_line.to_owned(), place);
        place
    }

    fn add_sample(&mut self, family: usize, line: &str, time: &str) {
        let family = &mut self.families[family];
        let labels = labels_of_metric(line, family.is_histogram);
        let number = match self.labels.get(labels) {
            Some(number) => *number,
            None => {
                let number = self.labels.len() as u32;
                self.labels.insert(labels.to_owned(), number);
                number
            }
        };
        let next = family.metrics.len();
        let place = *family.places.entry(number).or_insert(next);
        if place == next {
            family.metrics.push(Metric::default());
        }
        let waiting = &mut family.metrics[place].waiting;
        waiting.push_str(line);
        waiting.push_str(time);
        self.waiting += line.len() + time.len();
        self.samples += 1;
    }

    fn write_run(&mut self) -> io::Result<()> {
        let file = match &self.file {
            Some(file) => file,
            None => self.file.insert(tempfile::tempfile_in(&self.folder)?),
        };
        let at = file.metadata()?.len();
        let mut out = BufWriter::with_capacity(1 << 20, file);
        let mut lengths = Vec::new();
        for family in &mut self.families {
            let mut of_metrics = Vec::new();
            for metric in &mut family.metrics {
                let waiting = std::mem::take(&mut metric.waiting);
                of_metrics.push(waiting.len() as u32);
                out.write_all(waiting.as_bytes())?;
            }
            lengths.push(of_metrics);
        }
        out.flush()?;
        self.runs.push(Run { at, lengths });
        self.waiting = 0;
        Ok(())
    }

    /// Writes all samples and returns the number of bytes.
    pub(super) fn write_samples(&mut self, out: &mut impl Write) -> io::Result<u64> {
        let mut written = 0;
        let mut samples = Vec::new();
        for (number, family) in self.families.iter().enumerate() {
            out.write_all(family.head.as_bytes())?;
            written += family.head.len() as u64;
            for (place, metric) in family.metrics.iter().enumerate() {
                samples.clear();
                for run in &mut self.runs {
                    run.append(number, place, self.file.as_ref(), &mut samples)?;
                }
                samples.extend_from_slice(metric.waiting.as_bytes());
                out.write_all(&samples)?;
                written += samples.len() as u64;
            }
        }
        let end = b"# EOF\n";
        out.write_all(end)?;
        out.flush()?;
        Ok(written + end.len() as u64)
    }
}

impl Run {
    /// Appends the samples of a metric. Metrics must be requested in the order of the run.
    fn append(
        &mut self,
        family: usize,
        metric: usize,
        file: Option<&File>,
        to: &mut Vec<u8>,
    ) -> io::Result<()> {
        let length = self.lengths.get(family).and_then(|it| it.get(metric));
        let (Some(length), Some(file)) = (length, file) else {
            return Ok(());
        };
        let begin = to.len();
        to.resize(begin + *length as usize, 0);
        file.read_exact_at(&mut to[begin..], self.at)?;
        self.at += u64::from(*length);
        Ok(())
    }
}

/// Returns the labels that all samples of a metric share, without the closing brace. The label
/// `le`, which is the last one of a bucket, is removed.
fn labels_of_metric(line: &str, of_histogram: bool) -> &str {
    let series = line.rsplit_once(' ').map_or(line, |(series, _)| series);
    let Some(begin) = series.find('{') else {
        return "";
    };
    let (name, labels) = series.split_at(begin);
    let end = match of_histogram && name.ends_with("_bucket") {
        true => labels.rfind("le=\"").map_or(0, |le| le - 1),
        false => labels.len() - 1,
    };
    &labels[..end]
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Returns the output for pages at these milliseconds, and the number of runs that were
    /// written.
    fn exported(pages: &[(String, u64)], most_waiting: usize) -> (String, usize) {
        let folder = tempfile::tempdir().expect("a folder");
        let mut metrics = Metrics::new(&folder.path().join("out"));
        metrics.most_waiting = most_waiting;
        for (page, milliseconds) in pages {
            metrics.add(page, milliseconds * 1_000_000).expect("room");
        }
        let mut text = Vec::new();
        let written = metrics.write_samples(&mut text).expect("room");
        assert_eq!(written, text.len() as u64);
        let left = fs::read_dir(folder.path()).expect("a folder").count();
        assert_eq!(left, 0, "nothing stays beside the output");
        (String::from_utf8(text).expect("text"), metrics.runs.len())
    }

    #[test]
    fn families_and_metrics_are_contiguous() {
        let page = |value: u64, more: &str| {
            format!(
                "# TYPE a gauge\n# HELP a x\na{{l=\"# {{}} \"}} {value}\na{{l=\"y\"}} {value}\n{more}\
                 # TYPE b counter\nb_total {value}\n# TYPE h histogram\n\
                 h_bucket{{l=\"le=\",le=\"0.1\"}} 0\nh_bucket{{l=\"le=\",le=\"+Inf\"}} {value}\nh_count{{l=\"le=\"}} {value}\n\
                 h_bucket{{le=\"+Inf\"}} {value}\nh_count {value}\n# EOF\n"
            )
        };
        let pages = [
            (page(1, ""), 1500),
            (page(2, "a{l=\"new\"} 2\n"), 2001),
            (page(3, ""), 3000),
        ];
        let expected = "# TYPE a gauge\n# HELP a x\n\
            a{l=\"# {} \"} 1 1.500\na{l=\"# {} \"} 2 2.001\na{l=\"# {} \"} 3 3.000\n\
            a{l=\"y\"} 1 1.500\na{l=\"y\"} 2 2.001\na{l=\"y\"} 3 3.000\na{l=\"new\"} 2 2.001\n\
            # TYPE b counter\nb_total 1 1.500\nb_total 2 2.001\nb_total 3 3.000\n# TYPE h histogram\n\
            h_bucket{l=\"le=\",le=\"0.1\"} 0 1.500\nh_bucket{l=\"le=\",le=\"+Inf\"} 1 1.500\nh_count{l=\"le=\"} 1 1.500\n\
            h_bucket{l=\"le=\",le=\"0.1\"} 0 2.001\nh_bucket{l=\"le=\",le=\"+Inf\"} 2 2.001\nh_count{l=\"le=\"} 2 2.001\n\
            h_bucket{l=\"le=\",le=\"0.1\"} 0 3.000\nh_bucket{l=\"le=\",le=\"+Inf\"} 3 3.000\nh_count{l=\"le=\"} 3 3.000\n\
            h_bucket{le=\"+Inf\"} 1 1.500\nh_count 1 1.500\nh_bucket{le=\"+Inf\"} 2 2.001\nh_count 2 2.001\n\
            h_bucket{le=\"+Inf\"} 3 3.000\nh_count 3 3.000\n# EOF\n";
        let lengths = pages.iter().map(|(page, _)| page.len());
        for (most_waiting, runs) in [
            (usize::MAX, 0),
            (lengths.sum::<usize>() / 2, 1),
            (0, pages.len()),
        ] {
            let (text, written) = exported(&pages, most_waiting);
            assert_eq!(text, expected, "{most_waiting}");
            assert_eq!(written, runs, "{most_waiting}");
        }
    }
}
