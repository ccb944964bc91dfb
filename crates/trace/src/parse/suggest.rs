//! Suggestions for misspelled words.

/// Maximum length of a word that gets suggestions, because comparing long words is slow.
const MAX_LENGTH: usize = 24;

/// Returns the candidate with the smallest edit distance: at most 1 for short words and 3 for long
/// ones.
pub(super) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    if word.len() > MAX_LENGTH {
        return None;
    }
    let most = (word.len() / 3).clamp(1, 3);
    candidates
        .into_iter()
        .map(|candidate| (strsim::osa_distance(word, candidate), candidate))
        // At least two letters must match.
        .filter(|(distance, candidate)| *distance <= most && distance + 1 < candidate.len())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Formats the help text for a candidate.
pub(super) fn did_you_mean(candidate: &str) -> String {
    format!("did you mean `{candidate}`?")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_the_closest_candidate() {
        let all = ["keys", "vals", "values", "sort", "size", "if"];
        let cases = [
            ("kyes", Some("keys")),
            ("value", Some("values")),
            ("sorted", Some("sort")),
            ("is", None),
            ("x", None),
            ("", None),
            ("latency", None),
        ];
        for (word, expected) in cases {
            assert_eq!(nearest(word, all), expected, "{word}");
        }
        assert_eq!(nearest(&"k".repeat(1 << 20), all), None);
    }
}
