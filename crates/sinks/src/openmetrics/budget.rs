//! Decides which rows of a level get their own series. All other rows are counted in the overflow
//! row.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, LazyLock};

use noctule_model::{Counter, Counters, Measured, Sockets, VerdictKind, Waiting};

use super::figures::Figures;
use super::view::{Born, YOUNG_NS};

/// The decision about a row that has no series yet.
pub(super) enum Admission {
    /// The row must wait, because its labels are not final.
    Wait,
    /// The row may never have its own series.
    Overflow,
    /// The row gets series with these labels.
    Show(Arc<str>),
}

/// The series of one row.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// Identity labels, escaped.
    pub(super) labels: Arc<str>,
    pub(super) born: Born,
    pub(super) figures: Arc<Figures>,
    pub(super) frequency_hertz: Option<f64>,
    /// The current and earlier verdicts on the row; `None` if it was not judged.
    pub(super) verdict: Option<Verdicts>,
    /// Number of sockets that are open now. Not part of `figures`, because the number can decrease.
    pub(super) sockets: Sockets,
    /// Threads that are waiting now.
    pub(super) waiting: Waiting,
    /// Whether the row has new labels. The series with the old labels keep their last values and
    /// have no gauges.
    pub(super) ended: bool,
}

/// The series that a row had before its name was known.
#[derive(Clone, Debug)]
pub(super) struct Unnamed {
    /// Identity labels, escaped.
    pub(super) labels: Arc<str>,
    pub(super) born: Born,
    /// The final values of these series. The series with the name do not include them.
    figures: Arc<Figures>,
    /// Time of the batch in which the name became known.
    ended_ns: u64,
}

/// A row that has its own series.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shown<'a> {
    /// Identity labels, escaped.
    pub(super) labels: &'a Arc<str>,
    /// When the series with these labels began.
    pub(super) born: Born,
    /// The row's figures, and how much of them is counted in the overflow row.
    pub(super) figures: [&'a Figures; 2],
    unnamed: Option<&'a Unnamed>,
}

impl<'a> Shown<'a> {
    /// Returns when the row's first series began.
    pub(super) fn first_born(&self) -> Born {
        self.unnamed.map_or(self.born, |unnamed| unnamed.born)
    }

    /// Returns whether a part of the figures is counted in the overflow row.
    pub(super) fn was_overflowed(&self) -> bool {
        self.figures[1].counters != Counters::default()
    }

    /// Returns the series without a name while some scrapers may not have read their last values.
    pub(super) fn unnamed(&self, at: u64) -> Option<&'a Unnamed> {
        self.unnamed.filter(|it| it.is_kept(at))
    }

    /// If the row got its name in the batch taken at `at`, returns it with its previous labels.
    pub(super) fn before_named(&self, at: u64) -> Option<Self> {
        let unnamed = self.unnamed.filter(|it| it.ended_ns == at)?;
        Some(Self {
            labels: &unnamed.labels,
            born: unnamed.born,
            ..*self
        })
    }
}

impl Unnamed {
    fn is_kept(&self, at: u64) -> bool {
        at.saturating_sub(self.ended_ns) <= YOUNG_NS
    }
}

/// The current verdict on a row, and all kinds of verdict that the row has had. Each kind keeps its
/// series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Verdicts {
    pub(super) now: VerdictKind,
    had: u16,
}

impl Verdicts {
    fn next(before: Option<Self>, now: VerdictKind) -> Self {
        let had = before.map_or(0, |before| before.had) | bit(now);
        Self { now, had }
    }

    /// Returns every kind of verdict that the row has had, including the current one.
    pub(super) fn past_kinds(self) -> impl Iterator<Item = VerdictKind> {
        let kinds = VerdictKind::ALL.into_iter();
        kinds.filter(move |kind| self.had & bit(*kind) != 0)
    }
}

fn bit(kind: VerdictKind) -> u16 {
    let place = VerdictKind::ALL.iter().position(|it| *it == kind);
    place.map_or(0, |place| 1 << place)
}

/// The rows of one level, by identity.
#[derive(Debug)]
pub(super) struct Table<K> {
    room: usize,
    grace_ns: u64,
    /// Boxed, because nodes of a `BTreeMap` that is filled in key order stay half empty.
    rows: BTreeMap<K, Box<Entry>>,
    shown: usize,
    /// The growth of rows while they had no series. `None` if all rows have had series so far.
    overflow: Option<Figures>,
    overflow_born: Born,
    /// Time of the previous batch, nanoseconds since 1970.
    before_unix_ns: u64,
}

#[derive(Debug, Default)]
struct Entry {
    first_ns: u64,
    /// When the row's series began, with a value of 0. Before that, the row did not exist or was
    /// counted in the overflow.
    born: Born,
    seen_ns: u64,
    /// Counters in the second to last batch that contains the row.
    before: Pace,
    /// Figures in the last batch that contains the row. Lines share these figures if they do not
    /// change.
    now: Arc<Figures>,
    /// The frequency from the batch, if it has one.
    frequency_hertz: Option<f64>,
    verdict: Option<Verdicts>,
    sockets: Sockets,
    waiting: Waiting,
    /// How much of the figures is counted in the overflow row. Boxed because few rows have such a
    /// part.
    charged: Option<Box<Figures>>,
    /// Values of the row's series at the time when another row replaced it. If the row gets series
    /// again, they continue from these values.
    kept: Option<Arc<Figures>>,
    overflowed: bool,
    labels: Option<Arc<str>>,
    /// When the row got its series.
    shown_ns: u64,
    /// Whether the labels include the name, so that they never change again.
    named: bool,
    /// The row's series from before its name was known, if it had any.
    unnamed: Option<Box<Unnamed>>,
    /// The group of the row: the cgroup of a process. Rows are divided fairly among groups.
    group: u64,
}

/// The counters from which the frequency is computed. Only these counters are kept from the
/// previous batch.
#[derive(Clone, Copy, Debug, Default)]
struct Pace([u64; 3]);

impl Pace {
    const COUNTERS: [Counter; 3] = [Counter::CpuTime, Counter::Cycles, Counter::ReferenceCycles];

    fn of(counters: &Counters) -> Self {
        Self(Self::COUNTERS.map(|counter| counters[counter]))
    }

    /// Returns the growth of these counters. All other counters are 0.
    fn until(self, counters: &Counters) -> Counters {
        let mut growth = Counters::default();
        for (counter, before) in Self::COUNTERS.into_iter().zip(self.0) {
            growth[counter] = counters[counter].saturating_sub(before);
        }
        growth
    }
}

/// The charged figures of a row that was never counted in the overflow row.
static NOTHING: LazyLock<Figures> = LazyLock::new(Figures::default);

impl Entry {
    fn charged(&self) -> &Figures {
        self.charged.as_deref().unwrap_or(&NOTHING)
    }

    /// Returns the values of the row's series: its figures without the parts in the overflow row
    /// and in the series without a name.
    fn own(&self) -> Arc<Figures> {
        let unnamed = self.unnamed.as_ref().map(|it| &*it.figures);
        let elsewhere = self.charged.as_deref().into_iter().chain(unnamed);
        elsewhere.fold(self.now.clone(), |own, other| Arc::new(own.since(other)))
    }

    /// Marks as charged all figures of the row that neither the overflow row nor the row's own
    /// series include yet. Returns the figures that it has marked; the caller adds them to the
    /// overflow row.
    fn charge(&mut self) -> Figures {
        let mut growth = Arc::unwrap_or_clone(self.own());
        if let Some(kept) = &self.kept {
            growth = growth.since(kept);
        }
        *self.charged.get_or_insert_default().as_mut() += &growth;
        growth
    }

    /// Gives the row its own series. The figures that the overflow row already includes stay there.
    ///
    /// New series start at the previous batch, which is the last one that the overflow row
    /// included. Series that the row had before continue from their last value.
    fn show(&mut self, labels: Arc<str>, before_unix_ns: u64) {
        let was_overflowed = std::mem::take(&mut self.overflowed);
        if self.kept.is_none() {
            self.born.began_ns = self.seen_ns;
            if was_overflowed {
                self.born.start_unix_ns = before_unix_ns;
            }
        }
        self.labels = Some(labels);
        self.shown_ns = self.seen_ns;
    }
}

impl<K: Ord + Clone> Table<K> {
    /// Creates a table. `grace_ns` is how long a row is kept after the last batch that contains it.
    pub(super) fn new(room: usize, grace_ns: u64) -> Self {
        Self {
            room,
            grace_ns,
            rows: BTreeMap::new(),
            shown: 0,
            overflow: None,
            overflow_born: Born::default(),
            before_unix_ns: 0,
        }
    }

    /// Starts a batch. `before_unix_ns` is the time of the previous batch, in nanoseconds since
    /// 1970. New rows count from that time. For the first batch it is the time at which counting
    /// began.
    pub(super) fn begin(&mut self, before_unix_ns: u64) {
        self.before_unix_ns = before_unix_ns;
    }

    /// Records the figures of a row. This is the first step of a batch, called for every row.
    pub(super) fn see(&mut self, key: &K, at: u64, figures: &Figures, hertz: Option<f64>) {
        if !self.rows.contains_key(key) {
            let entry = Entry {
                first_ns: at,
                born: Born {
                    began_ns: at,
                    start_unix_ns: self.before_unix_ns,
                },
                ..Entry::default()
            };
            self.rows.insert(key.clone(), Box::new(entry));
        }
        let Some(entry) = self.rows.get_mut(key) else {
            return;
        };
        if entry.seen_ns != at {
            entry.before = Pace::of(&entry.now.counters);
            entry.seen_ns = at;
        }
        // After a process has died, its recorded figures are final. Values that procfs shows for
        // the zombie may be lower.
        let growth = figures.since(&entry.now);
        if !growth.is_zero() {
            *Arc::make_mut(&mut entry.now) += &growth;
        }
        entry.frequency_hertz = hertz;
    }

    /// If the row is new in the batch at `at`, sets when it began, and when its counters were 0, in
    /// nanoseconds since 1970.
    pub(super) fn date(&mut self, key: &K, at: u64, (first_ns, start_unix_ns): (u64, u64)) {
        if let Some(entry) = self.rows.get_mut(key).filter(|it| it.first_ns == at) {
            entry.first_ns = first_ns;
            entry.born.start_unix_ns = start_unix_ns;
        }
    }

    /// Records the verdict, the open sockets and the waiting threads of a row.
    pub(super) fn note(
        &mut self,
        key: &K,
        verdict: Option<VerdictKind>,
        sockets: Sockets,
        waiting: Waiting,
    ) {
        if let Some(entry) = self.rows.get_mut(key) {
            entry.verdict = verdict
                .map(|now| Verdicts::next(entry.verdict, now))
                .or(entry.verdict);
            entry.sockets = sockets;
            entry.waiting = waiting;
        }
    }

    /// Removes rows that no longer exist, so that other rows can have series. The amounts of
    /// removed rows stay in the overflow row. This is the second step of a batch.
    pub(super) fn sweep(&mut self, at: u64) {
        let grace_ns = self.grace_ns;
        self.rows
            .retain(|_, entry| at.saturating_sub(entry.seen_ns) <= grace_ns);
        self.shown = self.rows.values().filter(|e| e.labels.is_some()).count();
    }

    /// Gives a row its own series if it has none and may have them. This is the third step, called
    /// for every row in order of priority. `admission` receives the row's age in nanoseconds.
    pub(super) fn place(&mut self, key: &K, admission: impl FnOnce(u64) -> Admission) {
        let full = self.shown >= self.room;
        let Some(entry) = self.rows.get_mut(key) else {
            return;
        };
        if entry.labels.is_some() || (full && entry.overflowed) {
            return;
        }
        match admission(entry.seen_ns.saturating_sub(entry.first_ns)) {
            Admission::Wait => {}
            Admission::Show(labels) if !full => {
                entry.show(labels, self.before_unix_ns);
                self.shown += 1;
            }
            Admission::Show(_) | Admission::Overflow => entry.overflowed = true,
        }
    }

    /// Gives a row labels with its name, which became known after its series began.
    ///
    /// The series without the name keep their values, and those with the name begin at 0. Each
    /// increase is thus in exactly one of these series.
    pub(super) fn name(&mut self, key: &K, labels: impl FnOnce() -> Option<Arc<str>>) {
        let Some(entry) = self.rows.get_mut(key) else {
            return;
        };
        if entry.named || entry.labels.is_none() {
            return;
        }
        let Some(labels) = labels() else {
            return;
        };
        entry.named = true;
        if entry.labels.as_ref() != Some(&labels)
            && let Some(unnamed) = entry.labels.take()
        {
            let began_now = Born {
                began_ns: entry.seen_ns,
                start_unix_ns: self.before_unix_ns,
            };
            entry.unnamed = Some(Box::new(Unnamed {
                labels: unnamed,
                figures: entry.own(),
                born: std::mem::replace(&mut entry.born, began_now),
                ended_ns: entry.seen_ns,
            }));
        }
        entry.labels = Some(labels);
    }

    /// Sets the group with which the row shares the limit.
    pub(super) fn belongs(&mut self, key: &K, group: u64) {
        if let Some(entry) = self.rows.get_mut(key) {
            entry.group = group;
        }
    }

    /// Takes series from rows of the groups that have the most, and gives them to rows of groups
    /// that have fewer, until the numbers are equal. No group can thus take the whole limit.
    ///
    /// Rows that have ended lose their series first, then the newest rows. From then on, the growth
    /// of such a row is added to the overflow row.
    pub(super) fn balance(&mut self, at: u64, mut admission: impl FnMut(&K) -> Admission) {
        let waits =
            |entry: &Entry| entry.overflowed && entry.labels.is_none() && entry.seen_ns == at;
        if self.shown < self.room || !self.rows.values().any(|entry| waits(entry)) {
            return;
        }
        let mut held: HashMap<u64, Vec<(bool, u64, K)>> = HashMap::new();
        let mut waiting = Vec::new();
        for (key, entry) in &self.rows {
            if entry.labels.is_some() {
                let place = (entry.seen_ns != at, entry.shown_ns, key.clone());
                held.entry(entry.group).or_default().push(place);
            } else if waits(entry) {
                waiting.push((entry.first_ns, entry.group, key.clone()));
            }
        }
        for places in held.values_mut() {
            places.sort_unstable();
        }
        let mut counts: BTreeSet<(usize, u64)> = BTreeSet::new();
        counts.extend(held.iter().map(|(group, places)| (places.len(), *group)));
        let mut places: HashMap<u64, usize> =
            counts.iter().map(|(n, group)| (*group, *n)).collect();
        waiting.sort_unstable();
        for (_, group, key) in waiting {
            let own = places.get(&group).copied().unwrap_or(0);
            let Some(&(most, giver)) = counts.last() else {
                return;
            };
            if most < own + 2 {
                continue;
            }
            let Admission::Show(labels) = admission(&key) else {
                continue;
            };
            let Some((.., gone)) = held.get_mut(&giver).and_then(Vec::pop) else {
                counts.remove(&(most, giver));
                continue;
            };
            for (group, before, after) in [(giver, most, most - 1), (group, own, own + 1)] {
                counts.remove(&(before, group));
                counts.insert((after, group));
                places.insert(group, after);
            }
            if let Some(entry) = self.rows.get_mut(&gone) {
                // The overflow row must not include values that the row's series have shown.
                entry.kept = Some(entry.own());
                entry.labels = None;
                entry.overflowed = true;
            }
            if let Some(entry) = self.rows.get_mut(&key) {
                entry.show(labels, self.before_unix_ns);
            }
        }
    }

    /// Returns the lines after this batch, with the overflow row last. This is the last step of a
    /// batch.
    pub(super) fn lines(
        &mut self,
        at: u64,
        overflow_labels: &Arc<str>,
        measured: Measured,
        nominal_hertz: Option<u64>,
    ) -> Vec<Line> {
        let mut lines = Vec::with_capacity(self.shown + 1);
        let before = self.overflow.as_ref().map(|figures| figures.counters);
        let mut overflowed = Sockets::default();
        let mut overflow_waits = Waiting::default();
        for entry in self.rows.values_mut() {
            if entry.overflowed {
                let overflow = self.overflow.get_or_insert_with(|| {
                    self.overflow_born = Born {
                        began_ns: at,
                        start_unix_ns: self.before_unix_ns,
                    };
                    Figures::default()
                });
                *overflow += &entry.charge();
                overflowed += &entry.sockets;
                overflow_waits += &entry.waiting;
            }
            let Some(labels) = &entry.labels else {
                continue;
            };
            let tick = entry.before.until(&entry.now.counters);
            let frequency = entry
                .frequency_hertz
                .or_else(|| tick.frequency_hertz(measured, nominal_hertz));
            lines.push(Line {
                labels: labels.clone(),
                born: entry.born,
                figures: entry.own(),
                frequency_hertz: frequency.filter(|_| entry.seen_ns == at),
                verdict: entry.verdict,
                sockets: entry.sockets,
                waiting: entry.waiting,
                ended: false,
            });
            let unnamed = entry.unnamed.as_deref().filter(|it| it.is_kept(at));
            lines.extend(unnamed.map(|unnamed| Line {
                labels: unnamed.labels.clone(),
                born: unnamed.born,
                figures: unnamed.figures.clone(),
                frequency_hertz: None,
                verdict: None,
                sockets: Sockets::default(),
                waiting: Waiting::default(),
                ended: true,
            }));
        }
        lines.extend(self.overflow.as_ref().map(|figures| {
            let tick = figures.counters.since(&before.unwrap_or_default());
            Line {
                labels: overflow_labels.clone(),
                born: self.overflow_born,
                figures: Arc::new(figures.clone()),
                frequency_hertz: tick.frequency_hertz(measured, nominal_hertz),
                verdict: None,
                sockets: overflowed,
                waiting: overflow_waits,
                ended: false,
            }
        }));
        lines
    }

    /// Returns a row's figures, and how much of them is counted in the overflow row; `None` if the
    /// row has no series.
    pub(super) fn figures(&self, key: &K) -> Option<[&Figures; 2]> {
        let entry = self.rows.get(key)?;
        entry
            .labels
            .as_ref()
            .map(|_| [&*entry.now, entry.charged()])
    }

    /// Returns whether the row's admission is decided: the row has its own series or is counted in
    /// the overflow row.
    pub(super) fn is_settled(&self, key: &K) -> bool {
        let entry = self.rows.get(key);
        entry.is_some_and(|entry| entry.labels.is_some() || entry.overflowed)
    }

    /// Returns the rows that have their own series.
    pub(super) fn shown(&self) -> impl Iterator<Item = (&K, Shown<'_>)> {
        self.rows.iter().filter_map(|(key, entry)| {
            let shown = Shown {
                labels: entry.labels.as_ref()?,
                born: entry.born,
                figures: [&*entry.now, entry.charged()],
                unnamed: entry.unnamed.as_deref(),
            };
            Some((key, shown))
        })
    }

    /// Returns the figures of the overflow row, if there is one, and when its series began.
    pub(super) fn overflow(&self) -> Option<(&Figures, Born)> {
        let figures = self.overflow.as_ref()?;
        Some((figures, self.overflow_born))
    }

    /// Returns the number of rows that are counted in the overflow row now.
    pub(super) fn overflowed(&self) -> usize {
        self.rows.values().filter(|entry| entry.overflowed).count()
    }
}

#[cfg(test)]
mod tests;
