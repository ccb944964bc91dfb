//! Limits the memory of all subjects: decides which subjects get their own rows.

use noctule_model::Subject;

/// Default limit for the memory of all subjects, including their series and their share of the
/// pages of `/metrics`.
pub(super) const MAX_BYTES: usize = 16 << 20;

/// Memory of one subject, measured after the page was requested in all formats.
const SUBJECT_BYTES: usize = 10 << 10;

/// Length of the names that [`SUBJECT_BYTES`] includes.
const USUAL_NAME: usize = 128;

/// Memory for each further byte of a name. The compressed pages of three formats contain the name
/// in each series.
const NAME_COPIES: usize = 100;

/// An active subject may take the row of a subject that has been idle for this long.
const IDLE_NS: u64 = 10_000_000_000;

/// Accounts for the memory of subjects, in bytes.
#[derive(Debug)]
pub(super) struct Places {
    pub(super) max_bytes: usize,
    taken: usize,
    /// Memory that the active subjects without a row would need.
    wanted: usize,
    /// How often a cgroup was refused its own row, or lost it.
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

    /// Starts a batch. `subjects` are the subjects that have rows.
    pub(super) fn begin<'a>(&mut self, subjects: impl Iterator<Item = &'a Subject>) {
        self.taken = subjects.map(bytes).sum();
        self.wanted = 0;
    }

    /// Reserves memory for the subject, and returns whether there was enough.
    pub(super) fn take(&mut self, subject: &Subject) -> bool {
        let bytes = bytes(subject);
        let fits = self.taken + bytes <= self.max_bytes;
        if fits {
            self.taken += bytes;
        }
        fits
    }

    /// Records that an active subject has no row.
    pub(super) fn want(&mut self, subject: &Subject) {
        self.wanted += bytes(subject);
    }

    /// Returns the subjects to drop in favour of those that need rows. For each candidate, `idle`
    /// yields its total usage and when it last grew. The candidates with the least usage are
    /// dropped first.
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
        // The overflow subject always has a row.
        Subject::Overflow => return 0,
    };
    SUBJECT_BYTES + NAME_COPIES * name.saturating_sub(USUAL_NAME)
}
