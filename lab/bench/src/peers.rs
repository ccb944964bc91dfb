//! The side-by-side run compares the events of the agent and its peers for one mixed load, event by
//! event. The kernel's counters are the reference.

use std::time::Duration;

use anyhow::{Context as _, Result};

use super::cgroups::Cgroups;
use super::contender::{self, Bed, PEERS, Running, STREAM_ALL};
use super::events::{self, Event, Reported, Scope};
use super::stop::{Interrupted, Stop};
use super::{load, say};
use judge::{Counter, Readings};
use matching::Matched;
use opens::Who;

mod judge;
mod matching;
mod opens;
mod print;

pub(super) use print::{print, record};

/// Pause between the last start and the load, and after the load, so that all tools see the first
/// and last events of the load.
const SETTLE: Duration = Duration::from_secs(1);
/// Memory limit of the cgroup for the OOM kill.
const LIMIT: u64 = 32 << 20;

pub(super) struct Report {
    peers: Vec<Peer>,
    counters: Vec<Counter>,
    /// Number of events that the agent reports as lost.
    lost: u64,
}

/// A peer and its comparison.
struct Peer {
    name: &'static str,
    /// The contender that ran instead of the peer, and the reason.
    instead: Option<(&'static str, String)>,
    /// Number of events that the peer reports as lost.
    lost: u64,
    /// The comparison, or the reason why there is none.
    matched: Result<Matched, String>,
}

/// A running peer, or the reason why it does not run.
struct Beside {
    scope: Scope,
    name: &'static str,
    instead: Option<(&'static str, String)>,
    running: Result<Running, String>,
}

/// All reported events, and the number that the tool reports as lost.
struct ToolEvents {
    reported: Vec<Reported>,
    lost: u64,
}

/// Runs everything once.
pub(super) fn run(bed: &Bed, stop: &Stop) -> Result<Report> {
    let name = format!("noctule-bench-oom-{}", std::process::id());
    let cgroup = Cgroups::new("memory", &name)?;
    judge::limit(cgroup.top(), LIMIT)?;
    say("starting the agent and its peers");
    // The agent starts first and ends last, so that it covers everything that a peer sees.
    let ours = STREAM_ALL
        .start(bed, stop)
        .context("the agent cannot run")?;
    let mut beside = Vec::new();
    for peer in &PEERS {
        beside.push(start(peer, bed, stop)?);
    }
    stop.sleep(SETTLE)?;
    say("the mixed load");
    let began = judge::forks()?;
    let (pid, tcp) = load::mixed(cgroup.top(), stop).context("the mixed load")?;
    let readings = Readings {
        pid,
        began,
        ended: judge::forks()?,
        oom_kills: judge::oom_kills(cgroup.top())?,
        tcp,
    };
    stop.sleep(SETTLE)?;
    say("comparing");
    let mut heard = Vec::new();
    for peer in beside {
        let (scope, name, instead) = (peer.scope, peer.name, peer.instead);
        let said = match peer.running {
            Ok(running) => Ok(read_events(name, running, bed, stop)?),
            Err(reason) => Err(reason),
        };
        heard.push((scope, name, instead, said));
    }
    let agent = ours.pids();
    let ours = read_events("noctule", ours, bed, stop)?;
    let who = Who::new(agent, readings.pid, &ours.reported);
    let mut tasks = None;
    let mut peers = Vec::new();
    for (scope, name, instead, said) in heard {
        let lost = said.as_ref().map_or(0, |heard| heard.lost);
        let matched = said.map(|heard| {
            let matched = matching::compare(scope, &heard, &ours.reported, readings.during(), &who);
            if scope == Scope::Starts {
                tasks = Some(heard.reported);
            }
            matched
        });
        peers.push(Peer {
            name,
            instead,
            lost,
            matched,
        });
    }
    Ok(Report {
        peers,
        counters: readings.compare(&ours.reported, tasks.as_deref()),
        lost: ours.lost,
    })
}

/// Starts a peer, or the contender that replaces it.
fn start(peer: &contender::Peer, bed: &Bed, stop: &Stop) -> Result<Beside> {
    let attempt = |contender: &contender::Contender| match contender.start(bed, stop) {
        Ok(running) => Ok(Ok(running)),
        Err(error) if error.is::<Interrupted>() => Err(error),
        Err(error) => Ok(Err(format!("{error:#}"))),
    };
    let mut running = attempt(&peer.contender)?;
    let mut instead = None;
    if let (Err(reason), Some(other)) = (&running, &peer.instead) {
        instead = Some((other.name, reason.clone()));
        running = attempt(other)?;
    }
    Ok(Beside {
        scope: peer.scope,
        name: peer.contender.name,
        instead,
        running,
    })
}

/// Ends a tool and parses its events.
fn read_events(name: &str, running: Running, bed: &Bed, stop: &Stop) -> Result<ToolEvents> {
    running.drain(stop)?;
    let mut heard = ToolEvents {
        reported: Vec::new(),
        lost: 0,
    };
    for said in running.end()? {
        bed.keep(&format!("side-by-side.{name}.out"), &said.output)?;
        heard.lost += events::lost_words(&said.errors);
        let reported = said
            .output
            .lines()
            .filter_map(|line| said.format.read(line));
        heard.reported.extend(reported);
    }
    let gaps = heard.reported.iter().map(|reported| match &reported.event {
        Event::Gap(gap) => gap.values().sum(),
        _ => 0,
    });
    heard.lost += gaps.sum::<u64>();
    Ok(heard)
}
