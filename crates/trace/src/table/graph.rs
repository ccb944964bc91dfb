//! Draws histograms with text bars.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::draw::{cut, part};
use super::names::Shown;
use super::range::Range;
use super::{Figure, KeyShow, Merged, NodeNames, Row, Snapshot, Table, key};
use crate::buckets;

/// Maximum length of a bar in characters.
const BAR: usize = 52;
/// Minimum length of a bar in characters, even if the line is too short.
const SHORT_BAR: usize = 8;
/// Maximum number of consecutive lines without hits. A longer gap is drawn as one line.
const MAX_GAP: u64 = 64;

/// The lines of a histogram. A line without a count is a gap that is not drawn.
struct Histogram {
    title: String,
    lines: Vec<(String, Option<u64>)>,
}

/// The source of a histogram's lines.
enum Axis {
    /// The buckets of a part of the key.
    Key(usize),
    /// The buckets that a row keeps for percentiles.
    Value(usize),
}

impl Table {
    /// Draws a histogram for each key. The lines are the buckets of the last `.log2` or `.buckets`
    /// part of the key, with their hits. Without such a part, draws for each row the distribution
    /// of the first value that has percentiles. Returns `None` if the table has neither such a part
    /// nor such a value.
    ///
    /// Histograms of several keys are sorted by hits, ascending. Empty buckets between others are
    /// also drawn.
    pub fn graph(&self, now: &Snapshot<'_>, names: &dyn NodeNames, width: usize) -> Option<String> {
        let histograms = match self.axis()? {
            Axis::Key(index) => self.key_histograms(index, now, Shown(names)),
            Axis::Value(kept) => self.value_histograms(kept, now, Shown(names)),
        };
        let mut out = String::new();
        for (index, histogram) in histograms.iter().enumerate() {
            if index > 0 {
                out.push('\n');
            }
            draw(histogram, width, &mut out);
        }
        Some(out)
    }

    /// Whether the table can be drawn as histograms.
    pub fn has_graph(&self) -> bool {
        self.axis().is_some()
    }

    fn axis(&self) -> Option<Axis> {
        let ranges = |show: &KeyShow| Range::of(show, 0).is_some();
        let key = self.keys.iter().rposition(|key| ranges(&key.show));
        let percentile = self.values.iter().find_map(|value| match value.figure {
            Figure::Percentile { kept, .. } => Some(Axis::Value(kept)),
            _ => None,
        });
        key.map(Axis::Key).or(percentile)
    }

    /// Returns histograms of a part of the key, for each value of the other parts.
    fn key_histograms(&self, axis: usize, now: &Snapshot<'_>, names: Shown<'_>) -> Vec<Histogram> {
        let mut groups: BTreeMap<Vec<&[u8]>, BTreeMap<u64, u64>> = BTreeMap::new();
        let mut examples = BTreeMap::new();
        for row in now.rows {
            let parts = 0..self.keys.len();
            let others = parts.filter(|index| *index != axis);
            let group: Vec<&[u8]> = others.map(|index| self.part(row, index)).collect();
            let bucket = key::number(self.part(row, axis));
            examples.entry(group.clone()).or_insert(row);
            let count = groups.entry(group).or_default().entry(bucket).or_default();
            *count = count.wrapping_add(row.hits);
        }
        let hits =
            |counts: &BTreeMap<u64, u64>| counts.values().copied().fold(0, u64::wrapping_add);
        let mut groups: Vec<_> = groups.into_iter().collect();
        groups.sort_by_key(|(_, counts)| hits(counts));
        let histograms = groups.into_iter().map(|(group, counts)| Histogram {
            title: examples
                .get(&group)
                .map_or_else(String::new, |row| self.title(row, Some(axis), names)),
            lines: fill_gaps(&self.keys[axis].show, &counts),
        });
        histograms.collect()
    }

    /// Returns histograms of the buckets that rows keep for a percentile, by powers of two.
    fn value_histograms(
        &self,
        kept: usize,
        now: &Snapshot<'_>,
        names: Shown<'_>,
    ) -> Vec<Histogram> {
        let rows = self.sorted(now.rows, names.0).into_iter();
        let histograms = rows.filter_map(|row| match row.kept.get(kept) {
            Some(Merged::Buckets(counts)) => Some(Histogram {
                title: self.title(row, None, names),
                lines: octaves(counts),
            }),
            _ => None,
        });
        histograms.collect()
    }

    /// Formats the key without one of its parts as `name: value, name: value`.
    fn title(&self, row: &Row, without: Option<usize>, names: Shown<'_>) -> String {
        let mut title = String::new();
        for (index, column) in self.keys.iter().enumerate() {
            if Some(index) == without {
                continue;
            }
            let between = if title.is_empty() { "" } else { ", " };
            let part = part(column, self.part(row, index), names);
            // Writing to a `String` cannot fail.
            let _ = write!(title, "{between}{}: {part}", column.name);
        }
        title
    }
}

/// Returns the lines, including empty buckets between others.
fn fill_gaps(show: &KeyShow, counts: &BTreeMap<u64, u64>) -> Vec<(String, Option<u64>)> {
    let step = match show {
        KeyShow::Buckets(width) => (*width).max(1),
        _ => 1,
    };
    let label = |number| Range::of(show, number).map_or_else(String::new, Range::text);
    let mut lines = Vec::new();
    let mut next: Option<u64> = None;
    for (number, count) in counts {
        let gap = next.map_or(0, |next| number.saturating_sub(next) / step);
        if gap > MAX_GAP {
            lines.push(("...".to_owned(), None));
        } else if let Some(next) = next {
            let missing = (0..gap).map(|index| next + index * step);
            lines.extend(missing.map(|number| (label(number), Some(0))));
        }
        lines.push((label(*number), Some(*count)));
        next = number.checked_add(step);
    }
    lines
}

/// Returns the counts between consecutive powers of two.
fn octaves(counts: &[u64]) -> Vec<(String, Option<u64>)> {
    let mut octaves = [0_u64; 65];
    for (index, count) in counts.iter().enumerate().take(buckets::COUNT) {
        let (first, _) = buckets::range(index);
        let octave = &mut octaves[64 - first.leading_zeros() as usize];
        *octave = octave.wrapping_add(*count);
    }
    let some = |count: &u64| *count > 0;
    let (Some(first), Some(last)) = (
        octaves.iter().position(some),
        octaves.iter().rposition(some),
    ) else {
        return Vec::new();
    };
    let lines = octaves.iter().enumerate().take(last + 1).skip(first);
    let lines = lines.map(|(exponent, count)| {
        let range = match exponent {
            0 => Range::octave(0, 0),
            exponent => {
                let least = 1_u64 << (exponent - 1);
                Range::octave(least, least - 1 + least)
            }
        };
        (range.text(), Some(*count))
    });
    lines.collect()
}

fn draw(histogram: &Histogram, width: usize, out: &mut String) {
    let counts = histogram.lines.iter().filter_map(|(_, count)| *count);
    let most = counts.max().unwrap_or(0);
    let labels = histogram.lines.iter().map(|(label, _)| label.len());
    let labels = labels.max().unwrap_or(0).max(16);
    let numbers = most.to_string().len().max(8);
    let bar = width
        .saturating_sub(labels + numbers + 4)
        .clamp(SHORT_BAR, BAR);
    if !histogram.title.is_empty() {
        let room = width.max(labels + numbers + 4 + bar);
        out.push_str(&cut(&histogram.title, room));
        out.push('\n');
    }
    for (label, count) in &histogram.lines {
        let Some(count) = count else {
            out.push_str(label);
            out.push('\n');
            continue;
        };
        let length = u128::from(*count) * bar as u128 / u128::from(most.max(1));
        let drawn = "@".repeat(length as usize);
        // Writing to a `String` cannot fail.
        let _ = writeln!(out, "{label:labels$} {count:numbers$} |{drawn:bar$}|");
    }
}
