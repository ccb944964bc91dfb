//! The first lines of the overview: the worst verdict in plain words.

use noctule_model::{FeatureId, Level, Reason, VerdictKind};
use noctule_text::{advice, escape, sentence};

use crate::data::Data;
use crate::data::waits::{self, LastVerdict};
use crate::text::{keep_start, wrap};

/// The worst verdict, escaped for a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Headline {
    /// Describes the hurt group, the cause and the extent, or states that no group is hurt.
    pub(crate) words: String,
    /// The first action to try, if some action is known to help.
    pub(crate) advice: Option<String>,
    /// The verdict; quiet if no group is hurt.
    pub(crate) kind: VerdictKind,
}

/// Returns the headline for the groups of a level. Processes have no verdicts, so the headline
/// names their containers. `reason` explains a verdict.
pub(crate) fn headline(
    data: &Data,
    level: Level,
    reason: impl Fn(&LastVerdict, Level) -> Reason,
) -> Headline {
    let calm = |words: &str| Headline {
        words: words.to_owned(),
        advice: None,
        kind: VerdictKind::Quiet,
    };
    if let Some(why) = data.not_measured("Waiting for the CPU", FeatureId::CpuWaits) {
        return calm(&why);
    }
    let level = waits::level(level);
    let hurt = data.waits.hurt(level);
    match hurt.split_first() {
        Some((worst, others)) => describe_worst(worst, &reason(worst, level), others, level),
        None if data.waits.is_judged() => calm("No group is hurt."),
        None => calm("Measuring: the first verdict follows."),
    }
}

fn describe_worst(
    worst: &LastVerdict,
    reason: &Reason,
    others: &[&LastVerdict],
    level: Level,
) -> Headline {
    let culprit = |last: &LastVerdict| Some(last.row().verdict.culprit.as_ref()?.key(level));
    let by = culprit(worst);
    let same = others.iter().filter(|it| by.is_some() && culprit(it) == by);
    let rest = match (others.len(), same.count()) {
        (0, _) => String::new(),
        (1, 0) => " One other group is hurt.".to_owned(),
        (1, _) => " One other group is hurt by the same culprit.".to_owned(),
        (all, 0) => format!(" {all} other groups are hurt."),
        (all, same) if all == same => format!(" {all} other groups are hurt by the same culprit."),
        (all, same) => format!(" {all} other groups are hurt, {same} of them by the same culprit."),
    };
    let name = worst.row().party.name(level);
    Headline {
        words: escape(&format!("{name}: {}.", sentence(reason))) + &rest,
        advice: advice(reason).map(|advice| escape(&format!("Try: {advice}"))),
        kind: reason.kind,
    }
}

impl Headline {
    /// Wraps the headline into at most `most` lines. The flag of a line is true if the line is part
    /// of the advice. Advice is cut before the verdict.
    pub(crate) fn lines(&self, width: usize, most: usize) -> Vec<(String, bool)> {
        let verdict = wrap(&self.words, width).into_iter();
        let advice = self.advice.iter().flat_map(|advice| wrap(advice, width));
        let verdict = verdict.map(|line| (line, false));
        let mut lines: Vec<_> = verdict.chain(advice.map(|line| (line, true))).collect();
        if lines.len() > most {
            lines.truncate(most);
            if let Some((last, _)) = lines.last_mut() {
                *last = keep_start(&format!("{last}…"), width);
            }
        }
        lines
    }
}
