//! A subject and the figures charged to it.

use std::net::SocketAddr;
use std::sync::Arc;

use noctule_model::{
    Blamed, Counters, DestinationCounters, Owner, Subject, SubjectBlame, SubjectDestination,
    SubjectRow,
};

/// The state of a subject.
#[derive(Debug)]
pub(super) struct Standing {
    pub(super) row: SubjectRow,
    /// Time of the last batch that contained one of the subject's cgroups.
    pub(super) seen_ns: u64,
    /// Time of the last batch in which the subject did something.
    pub(super) grown_ns: u64,
    /// The growth in this tick.
    pub(super) tick: Counters,
}

impl Standing {
    pub(super) fn new(subject: &Subject, owner: &Arc<Owner>) -> Self {
        Self {
            row: SubjectRow {
                // Until one of its cgroups is found to exist.
                ended: true,
                ..SubjectRow::new(subject.clone(), owner.clone())
            },
            seen_ns: 0,
            grown_ns: 0,
            tick: Counters::default(),
        }
    }

    /// Charges growth to the subject and to the sum over all subjects.
    pub(super) fn charge(&mut self, growth: &Counters, total: &mut Counters) {
        self.row.counters += growth;
        self.tick += growth;
        *total += growth;
    }

    /// Blames a culprit. The wait is charged to the unnamed culprit if there is no room for another
    /// pair.
    pub(super) fn blame(&mut self, culprit: Blamed, wait_ns: u64, room: &mut usize) {
        if wait_ns == 0 {
            return;
        }
        let list = &mut self.row.blame;
        match list.binary_search_by(|known| known.culprit.cmp(&culprit)) {
            Ok(at) => list[at].wait_ns += wait_ns,
            Err(_) if *room == 0 && matches!(culprit, Blamed::Subject(_)) => {
                self.blame(Blamed::Unnamed, wait_ns, room);
            }
            Err(at) => {
                *room -= usize::from(matches!(culprit, Blamed::Subject(_)));
                list.insert(at, SubjectBlame { culprit, wait_ns });
            }
        }
    }

    /// Charges growth to a destination and to the sum of all destinations. Only the sum is charged
    /// if the destination has no name or there is no room for another row.
    pub(super) fn connect(
        &mut self,
        destination: Option<SocketAddr>,
        growth: &DestinationCounters,
        room: &mut usize,
    ) {
        self.row.all_destinations += growth;
        let Some(destination) = destination else {
            return;
        };
        let list = &mut self.row.destinations;
        match list.binary_search_by_key(&destination, |known| known.destination) {
            Ok(at) => list[at].counters += growth,
            Err(_) if *room == 0 => {}
            Err(at) => {
                *room -= 1;
                let counters = *growth;
                list.insert(
                    at,
                    SubjectDestination {
                        destination,
                        counters,
                    },
                );
            }
        }
    }
}
