//! Matches each event of a peer with an event of the agent.

use std::collections::{BTreeMap, VecDeque};

use super::ToolEvents;
use super::opens::{Names, Way, Who};
use crate::events::{Arguments, Change, Event, Reported, Scope};

/// Returns a key that is the same for an event in both streams. Returns `None` for events that the
/// peer does not report.
fn key(scope: Scope, event: &Event) -> Option<String> {
    match (scope, event) {
        (Scope::Starts, Event::Start { pid, .. }) | (Scope::Kills, Event::Oom { pid }) => {
            Some(pid.to_string())
        }
        (Scope::Execs, Event::Exec { pid, name, .. }) => Some(format!("{pid} {name}")),
        (Scope::Exits, Event::Exit { pid, end, .. }) => Some(format!("{pid} {end:?}")),
        (Scope::Lives, Event::Tcp(Change::Close | Change::ConnectFailed, ends)) => {
            Some(format!("{} {}", ends.local, ends.peer))
        }
        (Scope::States, Event::Tcp(Change::Between, _)) => None,
        // A listener has no remote address, whatever a tool prints.
        (Scope::States, Event::Tcp(change @ (Change::Listen | Change::ListenClose), ends)) => {
            Some(format!("{change:?} {}", ends.local))
        }
        (Scope::States, Event::Tcp(change, ends)) => {
            Some(format!("{change:?} {} {}", ends.local, ends.peer))
        }
        (Scope::Opens, Event::Open { pid, path, .. }) => Some(format!("{pid} {path}")),
        _ => None,
    }
}

/// The number of events with the same reason, and some examples.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Several {
    pub(super) count: u64,
    pub(super) examples: Vec<String>,
}

/// Differences by reason.
pub(super) type Reasons = BTreeMap<&'static str, Several>;

/// No reason for the difference is known.
pub(super) const UNEXPLAINED: &str = "UNEXPLAINED";
/// The kernel executes the interpreter of a script, with other arguments than the program
/// requested.
const SCRIPT: &str = "a script: ours are the arguments of its interpreter, as in /proc/PID/cmdline";
/// Number of examples per reason.
const EXAMPLES: usize = 3;

/// The result of a comparison.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Matched {
    /// Number of events of the peer.
    pub(super) peer: u64,
    /// Number of the agent's events during the load.
    pub(super) ours: u64,
    pub(super) both: u64,
    pub(super) only_peer: Reasons,
    /// Events during the load that only the agent reported.
    pub(super) only_ours: Reasons,
    /// Events that both reported, but with different arguments.
    pub(super) other_arguments: Reasons,
}

/// An event of the agent that no peer has reported yet.
pub(super) struct Own<'a> {
    pub(super) event: &'a Event,
    key: String,
    in_time: bool,
    pub(super) taken: bool,
}

/// All events of the agent.
#[derive(Default)]
pub(super) struct Ours<'a> {
    pub(super) all: Vec<Own<'a>>,
    by_key: BTreeMap<String, VecDeque<usize>>,
}

impl Ours<'_> {
    /// Takes the first event with this key that is not yet taken.
    pub(super) fn take(&mut self, key: &str) -> Option<usize> {
        let places = self.by_key.get_mut(key)?;
        std::iter::from_fn(|| places.pop_front()).find(|&place| !self.all[place].taken)
    }
}

/// Compares the events. `during` is the time of the load, which all peers observed.
pub(super) fn compare(
    scope: Scope,
    peer: &ToolEvents,
    reported: &[Reported],
    during: (u64, u64),
    who: &Who,
) -> Matched {
    let why_only_ours = match peer.lost {
        0 => UNEXPLAINED,
        _ => "the peer says that it has lost some",
    };
    let (mut ours, mut names) = (Ours::default(), Names::default());
    for reported in reported {
        let Some(key) = key(scope, &reported.event) else {
            continue;
        };
        let place = ours.all.len();
        ours.by_key.entry(key.clone()).or_default().push_back(place);
        names.add(&reported.event, place);
        let at = reported.at.unwrap_or(0);
        ours.all.push(Own {
            event: &reported.event,
            key,
            in_time: during.0 <= at && at <= during.1,
            taken: false,
        });
    }
    let mut matched = Matched::default();
    let mut rest = Vec::new();
    for reported in &peer.reported {
        let Some(key) = key(scope, &reported.event) else {
            continue;
        };
        matched.peer += 1;
        match ours.take(&key) {
            Some(place) => {
                ours.all[place].taken = true;
                matched.both += 1;
                matched.compare_arguments(&reported.event, ours.all[place].event);
            }
            None => rest.push((&reported.event, key)),
        }
    }
    // A peer reports the path as the program passed it. The agent reports the path of the opened
    // file.
    for way in Way::ALL {
        rest.retain(|(event, _)| {
            let place = names.find(way, event, &mut ours);
            if let Some(place) = place {
                ours.all[place].taken = true;
                matched.both += 1;
            }
            place.is_none()
        });
    }
    for (event, key) in rest {
        note(&mut matched.only_peer, who.why_not_ours(event), key);
    }
    for own in ours.all.into_iter().filter(|own| own.in_time) {
        matched.ours += 1;
        if !own.taken {
            note(&mut matched.only_ours, why_only_ours, own.key);
        }
    }
    matched
}

fn note(reasons: &mut Reasons, reason: &'static str, example: String) {
    let several = reasons.entry(reason).or_default();
    several.count += 1;
    if several.examples.len() < EXAMPLES {
        several.examples.push(example);
    }
}

impl Matched {
    fn compare_arguments(&mut self, theirs: &Event, ours: &Event) {
        let (
            Event::Exec {
                arguments: theirs, ..
            },
            Event::Exec {
                arguments: ours, ..
            },
        ) = (theirs, ours)
        else {
            return;
        };
        if same(theirs, ours) {
            return;
        }
        let reason = match ours.words.ends_with(&theirs.words) {
            true => SCRIPT,
            false => UNEXPLAINED,
        };
        let example = format!("`{}`, ours `{}`", theirs.words, ours.words);
        note(&mut self.other_arguments, reason, example);
    }
}

/// Returns whether these can be the arguments of one program, except for what either tool cut off.
fn same(theirs: &Arguments, ours: &Arguments) -> bool {
    // Peers print arguments unescaped, so a newline ends their line.
    let words = ours.words.replace("\\\\", "\\");
    let (first, has_more) = match words.split_once('\n') {
        Some((first, _)) => (first, true),
        None => (&*words, false),
    };
    let truncated = theirs.truncated || ours.truncated || has_more;
    truncated || theirs.words == first.trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Format;

    fn read(format: Format, lines: &[&str]) -> Vec<Reported> {
        lines.iter().filter_map(|line| format.read(line)).collect()
    }

    #[test]
    fn each_peer_event_matches_one_agent_event() {
        let start = |pid: u32, at: u64| {
            format!(
                "{{\"time_unix_nano\":{at},\"event.name\":\"process.start\",\"process.pid\":{pid}}}"
            )
        };
        let lines = [start(1, 5), start(1, 15), start(2, 16), start(3, 17)];
        let ours = read(Format::Noctule, &lines.each_ref().map(String::as_str));
        let reported = read(
            Format::Bpftrace,
            &[
                "new 1 0 7",
                "new 1 0 7",
                "new 1 0 7",
                "new 2 0 8",
                "new 9 1 8",
            ],
        );
        let peer = ToolEvents { reported, lost: 0 };
        let matched = compare(Scope::Starts, &peer, &ours, (10, 20), &Who::default());
        assert_eq!((matched.peer, matched.ours, matched.both), (4, 3, 3));
        let one = |example: &str| Several {
            count: 1,
            examples: vec![example.to_owned()],
        };
        assert_eq!(matched.only_peer[UNEXPLAINED], one("1"));
        assert_eq!(matched.only_ours[UNEXPLAINED], one("3"));
    }

    #[test]
    fn arguments_are_compared_up_to_the_shorter() {
        let arguments = |words: &str, truncated| Arguments {
            words: words.into(),
            truncated,
        };
        let ours = |words| arguments(words, false);
        assert!(same(&arguments("-c true", false), &ours("-c true")));
        assert!(!same(&arguments("-c true", false), &ours("-c false")));
        assert!(same(&arguments("-c ...", true), &ours("-c false")));
        assert!(same(&arguments("-c a", false), &ours("-c a\nb")));
        assert!(same(&arguments("a\\b", false), &ours("a\\\\b")));
    }

    #[test]
    fn folder_takes_only_remaining_opens() {
        let open = |path: &str| {
            format!(
                "{{\"time_unix_nano\":15,\"event.name\":\"file.open\",\"process.pid\":3,\
                 \"file.path\":\"{path}\"}}"
            )
        };
        let lines = [open("/none/a/b"), open("/none/a")];
        let ours = read(Format::Noctule, &lines.each_ref().map(String::as_str));
        let theirs = [
            "3      sh                 4   0 02000000 .",
            "3      sh                 4   0 00000000 ./x/../b",
            "3      sh                -1   2 00000000 c",
        ];
        let peer = ToolEvents {
            reported: read(Format::Opensnoop, &theirs),
            lost: 1,
        };
        let who = Who::new(Vec::new(), 3, &[]);
        let matched = compare(Scope::Opens, &peer, &ours, (10, 20), &who);
        assert_eq!((matched.both, matched.only_ours.len()), (2, 0));
        assert_eq!(matched.only_peer[UNEXPLAINED].examples, ["3 c"]);
    }
}
