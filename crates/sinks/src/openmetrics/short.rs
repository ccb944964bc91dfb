//! Short-lived groups share a row for each owner, because the series of groups that come and go
//! fill the memory of the server.

use std::collections::{BTreeMap, HashMap, VecDeque};

use noctule_model::{Batch, Blamed, Sockets, Subject, SubjectRow, Waiting};

use super::figures::Figures;
use super::labels::has_names;

mod owner;

/// After this number of short-lived groups within [`WINDOW_NS`], the next groups of their owner
/// wait for their own series.
const MANY: usize = 10;
/// The shared row ends if no short-lived group of the owner has ended for this long. It equals
/// Prometheus' default lookback.
const WINDOW_NS: u64 = 300_000_000_000;
/// Maximum number of owners that are tracked. Groups of further owners have their own series.
const MAX_OWNERS: usize = 512;

/// Decides which subjects have their own rows, and adds up the others by owner.
///
/// All growth of a subject is either in its own row or in the row of its owner. If an owner has
/// many short-lived groups, its next groups have no row at first. A group that becomes old enough
/// gets its own row, which contains all its growth. A group that ends before that is added to the
/// row of its owner.
#[derive(Debug, Default)]
pub(super) struct ShortLived {
    /// Lifetime below which a group is short-lived, in nanoseconds; 0 turns the shared rows off.
    short_ns: u64,
    /// How long a container waits for its name, in nanoseconds.
    settle_ns: u64,
    /// Subjects whose names differ from group to group.
    lives: HashMap<Subject, Life>,
    owners: BTreeMap<Subject, Shared>,
    /// Whether a batch was taken. The age of subjects in the first batch is unknown, so they have
    /// their own rows.
    has_begun: bool,
}

#[derive(Debug)]
struct Life {
    /// Time of the batch in which the subject began or came back; 0 if unknown.
    since_ns: u64,
    /// Time of the batch before that, nanoseconds since 1970.
    start_unix_ns: u64,
    seen_ns: u64,
    ended: bool,
    place: Place,
    /// The part of the row that is counted in the row of an owner.
    charged: Option<Box<SubjectRow>>,
    /// The other part of the row, if it has its own series.
    rest: Option<Box<SubjectRow>>,
    /// The last row, while the place is undecided.
    pending: Option<Box<SubjectRow>>,
}

/// Where the growth of a subject is shown.
#[derive(Clone, Debug)]
enum Place {
    Undecided,
    Own,
    Owner(Subject),
}

/// The row of an owner.
#[derive(Debug)]
struct Shared {
    row: SubjectRow,
    /// When the last short-lived groups ended, at most [`MANY`].
    ends: VecDeque<u64>,
    /// Whether the row has series, so that the next groups wait for theirs.
    is_shown: bool,
    /// Whether a group that is counted in the row is still listed.
    is_used: bool,
}

impl Life {
    fn new(since_ns: u64, start_unix_ns: u64) -> Self {
        let place = match since_ns {
            0 => Place::Own,
            _ => Place::Undecided,
        };
        Self {
            since_ns,
            start_unix_ns,
            seen_ns: since_ns,
            ended: false,
            place,
            charged: None,
            rest: None,
            pending: None,
        }
    }

    /// Records whether the subject exists. Returns whether it has ended since the last batch.
    fn see(&mut self, at: u64, ended: bool, before_unix_ns: u64) -> bool {
        self.seen_ns = at;
        let was_ended = std::mem::replace(&mut self.ended, ended);
        if was_ended && !ended && matches!(self.place, Place::Owner(_)) {
            self.since_ns = at;
            self.start_unix_ns = before_unix_ns;
            self.place = Place::Undecided;
        } else if was_ended && !ended {
            self.since_ns = at;
        }
        ended && !was_ended
    }

    /// Returns the growth of the row that is not counted in the row of an owner.
    fn uncharged(&self, row: &SubjectRow) -> SubjectRow {
        match &self.charged {
            Some(charged) => row.since(charged),
            None => row.clone(),
        }
    }
}

impl Shared {
    fn new(owner: &Subject, row: &SubjectRow) -> Self {
        Self {
            row: owner::row(owner, &row.owner),
            ends: VecDeque::new(),
            is_shown: false,
            is_used: false,
        }
    }

    fn begin(&mut self, at: u64) {
        self.row.events.sockets = Sockets::default();
        self.row.waiting = Waiting::default();
        self.is_used = false;
        self.ends.retain(|end| at.saturating_sub(*end) <= WINDOW_NS);
    }

    fn note_end(&mut self, at: u64) {
        if self.ends.len() == MANY {
            self.ends.pop_front();
        }
        self.ends.push_back(at);
        self.is_shown |= self.ends.len() == MANY;
    }

    /// Adds growth. The row names no destinations and no culprits except for kernel threads, so
    /// that short-lived groups get no series as culprits.
    fn add(&mut self, growth: &SubjectRow) {
        self.row.add_growth(growth);
        let kernel = growth.blame.iter();
        for blame in kernel.filter(|blame| blame.culprit == Blamed::Kernel) {
            match self.row.blame.first_mut() {
                Some(known) => known.wait_ns += blame.wait_ns,
                None => self.row.blame.push(blame.clone()),
            }
        }
    }

    fn count_gauges(&mut self, row: &SubjectRow) {
        self.is_used = true;
        self.row.events.sockets += &row.events.sockets;
        self.row.waiting += &row.waiting;
    }
}

impl ShortLived {
    pub(super) fn new(short_ns: u64, settle_ns: u64) -> Self {
        Self {
            short_ns,
            settle_ns,
            ..Self::default()
        }
    }

    /// Takes a batch. `before_unix_ns` is the time of the batch before, in nanoseconds since 1970.
    pub(super) fn observe(&mut self, batch: &Batch, before_unix_ns: u64) {
        if self.short_ns == 0 {
            return;
        }
        let at = batch.taken_ns;
        let has_begun = std::mem::replace(&mut self.has_begun, true);
        for shared in self.owners.values_mut() {
            shared.begin(at);
        }
        for row in &batch.subjects {
            if !owner::varies(&row.subject) {
                continue;
            }
            let known = self.lives.remove(&row.subject);
            let since_ns = if has_begun { at } else { 0 };
            let mut life = known.unwrap_or_else(|| Life::new(since_ns, before_unix_ns));
            let has_ended = life.see(at, row.ended, before_unix_ns);
            self.place(row, &mut life, has_ended);
            self.count(row, &mut life);
            self.lives.insert(row.subject.clone(), life);
        }
        self.end_unlisted(at);
        self.owners
            .retain(|_, shared| shared.is_used || !shared.ends.is_empty());
    }

    /// Forgets the subjects that the batch does not list. The rollup drops idle subjects if there
    /// are too many. What an undecided subject used belongs to its owner's row.
    fn end_unlisted(&mut self, at: u64) {
        let unlisted = self.lives.extract_if(|_, life| life.seen_ns != at);
        for (_, life) in unlisted {
            let Some(row) = &life.pending else {
                continue;
            };
            let shared = self.owners.get_mut(&owner::of(row));
            if let Some(shared) = shared.filter(|shared| shared.is_shown) {
                shared.add(&life.uncharged(row));
            }
        }
    }

    /// Decides where the growth of a subject is shown, if that is not yet decided.
    fn place(&mut self, row: &SubjectRow, life: &mut Life, has_ended: bool) {
        if owner::is_shared(&row.subject) {
            // A group has the name of a shared row. Two rows must not have equal labels.
            let shared = self.owners.entry(row.subject.clone());
            let shared = shared.or_insert_with(|| Shared::new(&row.subject, row));
            shared.is_shown = true;
            life.place = Place::Owner(row.subject.clone());
            return;
        }
        let at = life.seen_ns;
        let age_ns = at.saturating_sub(life.since_ns);
        let is_short = age_ns < self.short_ns;
        let is_undecided = matches!(life.place, Place::Undecided);
        if is_undecided && !is_short {
            life.place = Place::Own;
        }
        if !is_short || !is_undecided && !has_ended {
            return;
        }
        let is_nameless = matches!(row.subject, Subject::Container(_)) && !has_names(&row.owner);
        let owner = owner::of(row);
        if has_ended && (self.owners.len() < MAX_OWNERS || self.owners.contains_key(&owner)) {
            let shared = self.owners.entry(owner.clone());
            let shared = shared.or_insert_with(|| Shared::new(&owner, row));
            shared.note_end(at);
        }
        if !is_undecided || is_nameless && age_ns < self.settle_ns {
            return;
        }
        match self.owners.get(&owner) {
            Some(shared) if shared.is_shown && life.ended => life.place = Place::Owner(owner),
            Some(shared) if shared.is_shown => {}
            _ => life.place = Place::Own,
        }
    }

    /// Adds the growth of a subject to its owner's row, unless the subject has its own.
    fn count(&mut self, row: &SubjectRow, life: &mut Life) {
        life.rest = None;
        life.pending = matches!(life.place, Place::Undecided).then(|| Box::new(row.clone()));
        let owner = match &life.place {
            Place::Own => {
                life.rest = life.charged.is_some().then(|| life.uncharged(row).into());
                return;
            }
            Place::Owner(owner) => owner.clone(),
            Place::Undecided => owner::of(row),
        };
        let Some(shared) = self.owners.get_mut(&owner) else {
            return;
        };
        shared.count_gauges(row);
        if matches!(life.place, Place::Owner(_)) {
            let growth = life.uncharged(row);
            if !Figures::of_subject(&growth).is_zero() {
                shared.add(&growth);
                life.charged = Some(Box::new(row.clone()));
            }
        }
    }

    /// Returns the rows that have series after this batch.
    pub(super) fn rows<'a>(&'a self, batch: &'a Batch) -> Vec<&'a SubjectRow> {
        let shared = self.owners.values().filter(|shared| shared.is_shown);
        let own = batch.subjects.iter().filter_map(|row| {
            let life = self.lives.get(&row.subject);
            match life.map(|life| (&life.place, &life.rest)) {
                Some((Place::Own, Some(rest))) => Some(&**rest),
                Some((Place::Own, None)) | None => Some(row),
                Some(_) => None,
            }
        });
        shared.map(|shared| &shared.row).chain(own).collect()
    }

    /// Returns when a subject began: the time of its first batch, in nanoseconds of
    /// `CLOCK_MONOTONIC`, and when its counters were 0, in nanoseconds since 1970. `None` if it may
    /// be older.
    pub(super) fn beginning(&self, subject: &Subject) -> Option<(u64, u64)> {
        let life = self.lives.get(subject).filter(|life| life.since_ns > 0)?;
        Some((life.since_ns, life.start_unix_ns))
    }
}

#[cfg(test)]
mod tests;
