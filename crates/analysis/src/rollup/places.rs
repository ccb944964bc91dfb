//! Which subjects have rows of their own: the memory of all of them together is bounded.

use noctule_model::Subject;

/// The memory of all subjects, their series and their part of the pages of `/metrics`, if it is not configured.
pub(super) const MAX_BYTES: usize = 16 << 20;

/// The part of one subject, measured with all formats of the page asked for.
const SUBJECT_BYTES: usize = 10 << 10;

/// How long a name is that [`SUBJECT_BYTES`] includes.
const USUAL_NAME: usize = 128;

/// What a longer name takes for each byte: it stands in each of its series, in three formats, compressed.
const NAME_COPIES: usize = 100;

/// A subject that did nothing for this long gives its place to one that does something, in nanoseconds.
const IDLE_NS: u64 = 10_000_000_000;

/// The places of subjects, in bytes.
#[derive(Debug)]
pub(super) struct Places {
    pub(super) max_bytes: usize,
    taken: usize,
    /// What subjects would take that did something and found no place.
    wanted: usize,
    /// How often a group got no row of its own, or lost it.
    pub(super) refused: u64,
}

impl Places {
    pub(super) fn new(max_bytes: usize) -> Self {
        Self {
            max_bytes,
            taken: 0,
            wanted: 0,
            refused: 0,
        }
    }

    /// Begins a batch with the subjects that have places.
    pub(super) fn begin<'a>(&mut self, subjects: impl Iterator<Item = &'a Subject>) {
        self.taken = subjects.map(bytes).sum();
        self.wanted = 0;
    }

    /// Takes a place for the subject, where there is one.
    pub(super) fn take(&mut self, subject: &Subject) -> bool {
        let bytes = bytes(subject);
        let fits = self.taken + bytes <= self.max_bytes;
        if fits {
            self.taken += bytes;
        }
        fits
    }

    /// Notes that a subject found no place, and did something.
    pub(super) fn want(&mut self, subject: &Subject) {
        self.wanted += bytes(subject);
    }

    /// The subjects that give way to those that want places. `idle` has all subjects that can: when each did
    /// something last, and how much it did in all. Those that did least go first.
    pub(super) fn give_way<S: AsRef<Subject>>(
        &self,
        now_ns: u64,
        idle: impl Iterator<Item = (u64, u64, S)>,
    ) -> Vec<S> {
        let mut missing = (self.taken + self.wanted).saturating_sub(self.max_bytes);
        if self.wanted == 0 || missing == 0 {
            return Vec::new();
        }
        let old = |at: u64| now_ns.saturating_sub(at) >= IDLE_NS;
        let idle = idle.filter(|(grown_ns, ..)| old(*grown_ns));
        let mut idle: Vec<(u64, S)> = idle.map(|(_, used, subject)| (used, subject)).collect();
        idle.sort_unstable_by(|(one, a), (other, b)| (one, a.as_ref()).cmp(&(other, b.as_ref())));
        let mut gone = Vec::new();
        for (_, subject) in idle {
            if missing == 0 {
                break;
            }
            missing = missing.saturating_sub(bytes(subject.as_ref()));
            gone.push(subject);
        }
        gone
    }
}

fn bytes(subject: &Subject) -> usize {
    let name = match subject {
        Subject::Container(name) | Subject::Unit(name) | Subject::Cgroup(name) => name.len(),
        // It has its place always.
        Subject::Overflow => return 0,
    };
    SUBJECT_BYTES + NAME_COPIES * name.saturating_sub(USUAL_NAME)
}
