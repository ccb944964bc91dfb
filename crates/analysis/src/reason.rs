//! A verdict in words, with the numbers that made it.

use noctule_model::{Cause, Level, VerdictKind};

use crate::WaitReportRow;

/// From this many times the usual on, the reason says so.
const WORTH_SAYING: f64 = 2.0;

impl WaitReportRow {
    /// Why the verdict is what it is, for people. Not escaped.
    pub fn reason(&self, level: Level) -> String {
        let evidence = &self.verdict.evidence;
        let share = |ns: u64| percent(evidence.share(ns));
        let contended = share(evidence.contended_ns());
        let throttle = share(evidence.of(Cause::Throttle));
        let mut reason = match self.verdict.kind {
            VerdictKind::Quiet => {
                let all = share(evidence.wanted_ns() - evidence.cpu_ns);
                format!("waited {all} of the time that it wanted the CPU")
            }
            VerdictKind::NoisyNeighbour | VerdictKind::Contended => {
                format!("waited {contended} of the time that it wanted the CPU")
            }
            VerdictKind::System => format!(
                "waited {contended} of the time that it wanted the CPU, most of it behind the \
                 system"
            ),
            VerdictKind::Host => {
                let taken = share(evidence.taken_ns());
                format!(
                    "waited {contended} of the time that it wanted the CPU, {taken} while the host \
                     or interrupts had it"
                )
            }
            VerdictKind::SelfContended => format!(
                "waited {contended} of the time that it wanted the CPU, most of it behind its own \
                 threads"
            ),
            VerdictKind::Throttled => format!(
                "its quota kept it waiting for {throttle} of the time that it wanted the CPU"
            ),
            VerdictKind::ThrottledAndContended => format!(
                "its quota kept it waiting for {throttle} of the time that it wanted the CPU, and \
                 contention for {contended}"
            ),
        };
        if let (true, Some(blame)) = (self.verdict.kind != VerdictKind::Quiet, self.blame(level)) {
            reason.push_str(&blame);
        }
        if let (Some(times), Some(p99)) = (evidence.times_usual(), evidence.p99_ns)
            && times >= WORTH_SAYING
        {
            reason.push_str(&format!(
                "; its long waits (p99 {}) are {times:.0} times the usual",
                time(p99)
            ));
        }
        reason
    }

    /// Who caused most of what was waited for others.
    fn blame(&self, level: Level) -> Option<String> {
        let others = self.others_ns();
        let top = self.top_culprit().filter(|top| top.blame.wait_ns > 0)?;
        let share = percent(top.blame.wait_ns as f64 / others.max(1) as f64);
        let name = top.party.name(level);
        Some(match (&self.verdict.culprit, self.verdict.kind) {
            (Some(_), _) => format!("; {name} caused {share} of what it waited for others"),
            (None, VerdictKind::Contended) => {
                format!(
                    "; no single culprit: the first, {name}, caused {share} of what it waited for \
                     others"
                )
            }
            _ => return None,
        })
    }
}

fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent < 9.95 {
        format!("{percent:.1} %")
    } else {
        format!("{percent:.0} %")
    }
}

fn time(ns: u64) -> String {
    let ns = ns as f64;
    if ns >= 1e9 {
        format!("{:.1} s", ns / 1e9)
    } else {
        format!("{:.1} ms", ns / 1e6)
    }
}
