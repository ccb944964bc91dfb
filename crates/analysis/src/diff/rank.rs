//! The rank-sum test, and what to call a change when there are many tests.

/// How probable a difference of the ranks as large as this is when both samples are of one distribution: the
/// two-sided test of Mann and Whitney, with the normal approximation, corrected for ties and continuity.
pub(super) fn rank_sum(a: &[f64], b: &[f64]) -> f64 {
    let mut all: Vec<(f64, bool)> = a.iter().map(|value| (*value, true)).collect();
    all.extend(b.iter().map(|value| (*value, false)));
    all.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (mut ranks, mut ties, mut rank) = (0.0, 0.0, 0.0);
    for same in all.chunk_by(|one, other| one.0 == other.0) {
        let count = same.len() as f64;
        let middle = rank + (count + 1.0) / 2.0;
        let of_a = same.iter().filter(|(_, is_a)| *is_a).count();
        ranks += middle * of_a as f64;
        ties += count * count * count - count;
        rank += count;
    }
    let (n, m) = (a.len() as f64, b.len() as f64);
    let u = ranks - n * (n + 1.0) / 2.0;
    let variance = n * m / 12.0 * ((n + m + 1.0) - ties / ((n + m) * (n + m - 1.0)));
    if variance <= 0.0 || variance.is_nan() {
        return 1.0;
    }
    let z = ((u - n * m / 2.0).abs() - 0.5).max(0.0) / variance.sqrt();
    erfc(z / std::f64::consts::SQRT_2)
}

/// Which tests are changes, so that of those at most a share is by chance (Benjamini and Hochberg).
pub(super) fn false_discovery(tests: &[Option<f64>], share: f64) -> Vec<bool> {
    let mut known: Vec<f64> = tests.iter().flatten().copied().collect();
    known.sort_by(f64::total_cmp);
    let all = known.len() as f64;
    let passes = |(place, p): (usize, &f64)| {
        let allowed = share * (place + 1) as f64 / all;
        (*p <= allowed).then_some(*p)
    };
    let limit = known.iter().enumerate().filter_map(passes).next_back();
    let changed = |p: &Option<f64>| p.zip(limit).is_some_and(|(p, limit)| p <= limit);
    tests.iter().map(changed).collect()
}

/// The complementary error function of a number that is not negative (Numerical Recipes, `erfcc`): the
/// relative error is below 1.2e-7 everywhere.
fn erfc(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.5 * x);
    let terms = [
        -1.265_512_23,
        1.000_023_68,
        0.374_091_96,
        0.096_784_18,
        -0.186_288_06,
        0.278_868_07,
        -1.135_203_98,
        1.488_515_87,
        -0.822_152_23,
        0.170_872_77,
    ];
    let sum = terms.iter().rev().fold(0.0, |sum, term| sum * t + term);
    t * (sum - x * x).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Figures of SciPy: `mannwhitneyu(a, b, method="asymptotic")`.
    #[test]
    fn the_test_has_the_figures_of_others() {
        let cases: [(&[f64], &[f64], f64); 3] = [
            // The example of its documentation.
            (
                &[19.0, 22.0, 16.0, 29.0, 24.0],
                &[20.0, 11.0, 17.0, 12.0],
                0.111_346_886_533_140_41,
            ),
            (&[1.0, 2.0, 3.0], &[1.0, 2.0, 3.0], 1.0),
            (&[1.0; 6], &[1.0; 7], 1.0),
        ];
        for (a, b, expected) in cases {
            for (a, b) in [(a, b), (b, a)] {
                let p = rank_sum(a, b);
                assert!((p - expected).abs() < 1e-6, "{a:?} {b:?}: {p}");
            }
        }
    }

    #[test]
    fn the_error_function_is_that_of_the_tables() {
        for (x, expected) in [
            (0.0, 1.0),
            (0.5, 0.479_500_1),
            (1.0, 0.157_299_2),
            (3.0, 2.209_05e-5),
        ] {
            let value = erfc(x);
            assert!((value / expected - 1.0).abs() < 1e-5, "{x}: {value}");
        }
    }

    #[test]
    fn many_tests_need_smaller_chances() {
        // The example of Benjamini and Hochberg (1995): four of fifteen are discoveries.
        let p = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262,
            0.5719, 0.6528, 0.7590, 1.0,
        ];
        let mut tests: Vec<Option<f64>> = p.iter().copied().map(Some).collect();
        tests.insert(0, None);
        let changed = false_discovery(&tests, 0.05);
        let expected: Vec<bool> = (0..16).map(|place| (1..=4).contains(&place)).collect();
        assert_eq!(changed, expected);
    }
}
