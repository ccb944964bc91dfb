//! A verdict in words.

use noctule_model::{Reason, VerdictKind};

use crate::{duration, percent};

/// Why a verdict is what it is, with the numbers that made it. Not escaped.
pub fn reason(reason: &Reason) -> String {
    let part = |part: f64| percent(part * 100.0);
    let contended = part(reason.contended);
    let mut words = match reason.kind {
        VerdictKind::Quiet => {
            let all = part(reason.waited);
            format!("waited {all} of the time that it wanted the CPU")
        }
        VerdictKind::NoisyNeighbour | VerdictKind::Contended => {
            format!("waited {contended} of the time that it wanted the CPU")
        }
        VerdictKind::System => format!(
            "waited {contended} of the time that it wanted the CPU, most of it behind the system"
        ),
        VerdictKind::Host => format!(
            "waited {contended} of the time that it wanted the CPU, {} while the host or \
             interrupts had it",
            part(reason.taken)
        ),
        VerdictKind::SelfContended => format!(
            "waited {contended} of the time that it wanted the CPU, most of it behind its own \
             threads"
        ),
        VerdictKind::Throttled => format!(
            "throttled by its CPU quota for {} of the time that it wanted the CPU",
            part(reason.throttled)
        ),
        VerdictKind::ThrottledAndContended => format!(
            "throttled by its CPU quota for {} of the time that it wanted the CPU; contention took \
             {contended}",
            part(reason.throttled)
        ),
    };
    if let Some(culprit) = &reason.culprit {
        let (name, share) = (&culprit.name, part(culprit.share));
        words.push_str(&match culprit.alone {
            true => format!("; {name} caused {share} of what it waited for others"),
            false => format!(
                "; no single culprit: the first, {name}, caused {share} of what it waited for \
                 others"
            ),
        });
    }
    if let Some(unusual) = reason.unusual {
        words.push_str(&format!(
            "; its long waits (p99 {}) are {:.0} times the usual",
            duration(unusual.p99_ns),
            unusual.times
        ));
    }
    words
}

#[cfg(test)]
mod tests {
    use noctule_model::{ReasonCulprit, Unusual};

    use super::*;

    #[test]
    fn each_kind_has_words_with_the_number_that_made_it() {
        for kind in VerdictKind::ALL {
            let words = reason(&Reason {
                kind,
                waited: 0.01,
                contended: 0.02,
                throttled: 0.03,
                taken: 0.04,
                ..Reason::default()
            });
            let number = match kind {
                VerdictKind::Quiet => "1.0%",
                VerdictKind::Throttled | VerdictKind::ThrottledAndContended => "3.0%",
                _ => "2.0%",
            };
            assert!(words.contains(number), "{words}");
        }
    }

    #[test]
    fn a_culprit_and_unusual_waits_follow() {
        let culprit = |alone| {
            Some(ReasonCulprit {
                name: "bbbb".into(),
                share: 0.625,
                alone,
            })
        };
        let noisy = Reason {
            kind: VerdictKind::NoisyNeighbour,
            contended: 0.29,
            culprit: culprit(true),
            unusual: Some(Unusual {
                p99_ns: 45_600_000,
                times: 12.4,
            }),
            ..Reason::default()
        };
        assert_eq!(
            reason(&noisy),
            "waited 29.0% of the time that it wanted the CPU; bbbb caused 62.5% of what it waited \
             for others; its long waits (p99 45.6ms) are 12 times the usual"
        );
        let nobody = Reason {
            kind: VerdictKind::Contended,
            culprit: culprit(false),
            unusual: None,
            ..noisy
        };
        assert_eq!(
            reason(&nobody),
            "waited 29.0% of the time that it wanted the CPU; no single culprit: the first, bbbb, \
             caused 62.5% of what it waited for others"
        );
    }
}
