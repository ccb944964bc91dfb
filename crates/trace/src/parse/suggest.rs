//! Suggestions for misspelled words.

/// Longer words get no suggestion: comparing them takes time.
const LONGEST: usize = 24;

/// The candidate with the smallest edit distance: at most one for a short word, and at most three for a
/// long one.
pub(super) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    if word.len() > LONGEST {
        return None;
    }
    let most = (word.len() / 3).clamp(1, 3);
    candidates
        .into_iter()
        .map(|candidate| (strsim::osa_distance(word, candidate), candidate))
        // At least two letters have to be right.
        .filter(|(distance, candidate)| *distance <= most && distance + 1 < candidate.len())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The help text for a candidate.
pub(super) fn did_you_mean(candidate: &str) -> String {
    format!("did you mean `{candidate}`?")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_is_found_if_it_is_near() {
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
