//! A subject, and what was charged to it.

use std::net::SocketAddr;
use std::sync::Arc;

use noctule_model::{
    Blamed, Counters, DestinationCounters, Owner, Subject, SubjectBlame, SubjectDestination,
    SubjectRow,
};

/// A subject in the making.
#[derive(Debug)]
pub(super) struct Standing {
    pub(super) row: SubjectRow,
    /// The last batch that has one of its groups.
    pub(super) seen_ns: u64,
    /// The last batch in which it did something.
    pub(super) grown_ns: u64,
    /// What was charged in this tick.
    pub(super) tick: Counters,
}

impl Standing {
    pub(super) fn new(subject: &Subject, owner: &Arc<Owner>) -> Self {
        Self {
            row: SubjectRow::new(subject.clone(), owner.clone()),
            seen_ns: 0,
            grown_ns: 0,
            tick: Counters::default(),
        }
    }

    /// Charges growth to it, and to the sum over all subjects.
    pub(super) fn charge(&mut self, growth: &Counters, total: &mut Counters) {
        self.row.counters += growth;
        self.tick += growth;
        *total += growth;
    }

    /// Blames a culprit; without its name when there is no room for another pair.
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

    /// Charges growth to a destination; to all of them only, when it has no name or there is no room
    /// for another one.
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
