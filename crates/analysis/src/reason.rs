//! Which numbers made a verdict.

use noctule_model::{Cause, Level, Reason, ReasonCulprit, Unusual, VerdictKind};

use crate::WaitReportRow;

/// From this many times the usual on, the reason says so.
const WORTH_SAYING: f64 = 2.0;

impl WaitReportRow {
    /// Why the verdict is what it is.
    pub fn reason(&self, level: Level) -> Reason {
        let evidence = &self.verdict.evidence;
        let unusual = evidence.times_usual().zip(evidence.p99_ns);
        Reason {
            kind: self.verdict.kind,
            waited: evidence.share(evidence.wanted_ns() - evidence.cpu_ns),
            contended: evidence.share(evidence.contended_ns()),
            throttled: evidence.share(evidence.of(Cause::Throttle)),
            taken: evidence.share(evidence.taken_ns()),
            culprit: self.reason_culprit(level),
            unusual: unusual
                .filter(|(times, _)| *times >= WORTH_SAYING)
                .map(|(times, p99_ns)| Unusual { p99_ns, times }),
        }
    }

    /// Who caused most of what was waited for others.
    fn reason_culprit(&self, level: Level) -> Option<ReasonCulprit> {
        let alone = match (&self.verdict.culprit, self.verdict.kind) {
            (_, VerdictKind::Quiet) => return None,
            (Some(_), _) => true,
            (None, VerdictKind::Contended) => false,
            (None, _) => return None,
        };
        let top = self.top_culprit().filter(|top| top.blame.wait_ns > 0)?;
        Some(ReasonCulprit {
            name: top.party.name(level),
            share: top.blame.wait_ns as f64 / self.others_ns().max(1) as f64,
            alone,
        })
    }
}
