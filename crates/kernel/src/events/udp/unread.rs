//! Tracks packets from DNS servers that the BPF program could not read. Any of these packets may be
//! the response to a question.

use std::collections::HashMap;
use std::net::SocketAddr;

/// A socket's network namespace and local address, and the address of the DNS server.
pub(crate) type Ends = (Option<u64>, Option<SocketAddr>, Option<SocketAddr>);

/// Maximum number of sockets to track. Old entries are evicted.
const SOCKETS: usize = 4096;
const OLD_NS: u64 = 60_000_000_000;

/// The packets that could not be read, by socket and server.
#[derive(Default)]
pub(crate) struct Unread {
    of: HashMap<Ends, Packets>,
    /// Whether an unreadable packet arrived since the questions were last checked.
    more: bool,
}

#[derive(Default)]
struct Packets {
    last_ns: u64,
    /// Number of packets that are not assigned to a question yet.
    free: usize,
}

impl Unread {
    /// Records that a process received an unreadable packet.
    pub(super) fn note(&mut self, ends: Ends, time_ns: u64) {
        if self.of.len() >= SOCKETS && !self.of.contains_key(&ends) {
            let new = |packets: &Packets| packets.last_ns.saturating_add(OLD_NS) > time_ns;
            self.of.retain(|_, packets| new(packets));
            if self.of.len() >= SOCKETS {
                return;
            }
        }
        let packets = self.of.entry(ends).or_default();
        packets.last_ns = time_ns;
        packets.free += 1;
        self.more = true;
    }

    /// Returns whether an unreadable packet arrived after a question was sent.
    pub(super) fn may_answer(&self, ends: &Ends, asked_ns: u64) -> bool {
        let packets = self.of.get(ends);
        packets.is_some_and(|packets| asked_ns <= packets.last_ns)
    }

    /// Returns whether an unreadable packet arrived since the last call.
    pub(super) fn take_more(&mut self) -> bool {
        std::mem::take(&mut self.more)
    }

    /// Returns the pending questions that count as answered. If a socket received at least as many
    /// packets as it has questions, all of its questions count as answered. Otherwise it is unknown
    /// which questions were answered. Each question is returned with the time of the socket's last
    /// unreadable packet.
    pub(super) fn answered<K>(&mut self, waiting: Vec<(Ends, u64, K)>) -> Vec<(u64, K)> {
        let mut by_ends: HashMap<Ends, Vec<K>> = HashMap::new();
        for (ends, asked_ns, question) in waiting {
            if self.may_answer(&ends, asked_ns) {
                by_ends.entry(ends).or_default().push(question);
            }
        }
        let mut answered = Vec::new();
        for (ends, packets) in &mut self.of {
            let questions = by_ends.remove(ends).unwrap_or_default();
            if questions.len() <= packets.free {
                packets.free = 0;
                answered.extend(
                    questions
                        .into_iter()
                        .map(|question| (packets.last_ns, question)),
                );
            }
        }
        answered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(port: u16) -> Ends {
        let end = |port| Some(SocketAddr::from(([127, 0, 0, 1], port)));
        (Some(1), end(port), end(53))
    }

    #[test]
    fn single_question_is_answered_by_a_later_packet() {
        let mut unread = Unread::default();
        unread.note(ends(1), 20);
        assert!(unread.take_more());
        let waiting = vec![
            (ends(1), 10, "before"),
            (ends(1), 21, "after"),
            (ends(2), 10, "other"),
        ];
        assert_eq!(unread.answered(waiting), [(20, "before")]);
        assert!(!unread.take_more());
        assert!(!unread.may_answer(&ends(1), 21));
    }

    #[test]
    fn two_questions_end_only_with_the_second_packet() {
        let mut unread = Unread::default();
        let waiting = || vec![(ends(1), 10, "A"), (ends(1), 11, "AAAA")];
        unread.note(ends(1), 20);
        assert_eq!(unread.answered(waiting()), []);
        assert!(unread.may_answer(&ends(1), 11), "no timeout");
        unread.note(ends(1), 30);
        assert_eq!(unread.answered(waiting()), [(30, "A"), (30, "AAAA")]);
        // The packets were assigned to those questions.
        unread.note(ends(1), 40);
        assert_eq!(unread.answered(waiting()), []);
    }

    #[test]
    fn remembered_sockets_are_bounded() {
        let mut unread = Unread::default();
        for port in 0..=SOCKETS as u16 {
            unread.note(ends(port), 1);
        }
        assert_eq!(unread.of.len(), SOCKETS);
        unread.note(ends(u16::MAX), OLD_NS + 2);
        assert!(unread.may_answer(&ends(u16::MAX), 1));
        assert_eq!(unread.of.len(), 1);
    }
}
