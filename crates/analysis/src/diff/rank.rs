//! The rank-sum test, and the correction for many tests.

/// Maximum number of blocks, both samples together, for the exact distribution. With more blocks
/// the normal approximation is precise enough.
const EXACT: usize = 30;

/// Returns the p-value of the two-sided Mann-Whitney rank-sum test: the probability of rank
/// differences at least this large if both samples have the same distribution.
pub(super) fn rank_sum(a: &[f64], b: &[f64]) -> f64 {
    let ranks = Ranks::of(a, b);
    match a.len() + b.len() {
        ..=EXACT => ranks.exact(),
        _ => ranks.approximate(),
    }
}

/// Returns the smallest p-value that the test can return for these sample sizes. The smallest value
/// occurs if all values of one sample exceed all values of the other.
pub(super) fn least_probability(a: usize, b: usize) -> f64 {
    let (few, all) = (a.min(b), a + b);
    let subsets = (1..=few).map(|it| (all - few + it) as f64 / it as f64);
    (2.0 / subsets.product::<f64>()).min(1.0)
}

/// The ranks of two samples taken together.
struct Ranks {
    /// Twice the rank of each value. Equal values have the mean of their ranks.
    doubled: Vec<usize>,
    /// Sum of the doubled ranks of the first sample.
    sum: usize,
    /// Sizes of the samples.
    sizes: [usize; 2],
    /// The tie correction of the variance.
    ties: f64,
}

impl Ranks {
    fn of(a: &[f64], b: &[f64]) -> Self {
        let mut all: Vec<(f64, bool)> = a.iter().map(|value| (*value, true)).collect();
        all.extend(b.iter().map(|value| (*value, false)));
        all.sort_by(|one, other| one.0.total_cmp(&other.0));
        let (mut doubled, mut sum, mut ties) = (Vec::with_capacity(all.len()), 0, 0.0);
        for same in all.chunk_by(|one, other| one.0 == other.0) {
            let rank = 2 * doubled.len() + same.len() + 1;
            let of_a = same.iter().filter(|(_, is_a)| *is_a).count();
            sum += rank * of_a;
            let count = same.len() as f64;
            ties += count * count * count - count;
            doubled.extend(std::iter::repeat_n(rank, same.len()));
        }
        Self {
            doubled,
            sum,
            sizes: [a.len(), b.len()],
            ties,
        }
    }

    /// Among all ways to divide the ranks into samples of these sizes, returns the share with at
    /// least this difference.
    fn exact(&self) -> f64 {
        let [size, other] = self.sizes;
        let most: usize = self.doubled.iter().sum();
        // `subsets[n][s]` counts the subsets of `n` ranks whose sum is `s`.
        let mut subsets = vec![vec![0.0; most + 1]; size + 1];
        subsets[0][0] = 1.0;
        for &rank in &self.doubled {
            for taken in (1..=size).rev() {
                let (fewer, more) = subsets.split_at_mut(taken);
                for sum in rank..=most {
                    more[0][sum] += fewer[taken - 1][sum - rank];
                }
            }
        }
        let expected = size * most;
        let from_expected = |sum: usize| (sum * (size + other)).abs_diff(expected);
        let observed = from_expected(self.sum);
        let as_far = |(sum, _): &(usize, &f64)| from_expected(*sum) >= observed;
        let sums = subsets[size].iter().enumerate();
        let extreme: f64 = sums.filter(as_far).map(|(_, count)| count).sum();
        extreme / subsets[size].iter().sum::<f64>()
    }

    /// Returns the p-value of the normal approximation, corrected for ties and continuity.
    fn approximate(&self) -> f64 {
        let (n, m) = (self.sizes[0] as f64, self.sizes[1] as f64);
        let u = self.sum as f64 / 2.0 - n * (n + 1.0) / 2.0;
        let variance = n * m / 12.0 * ((n + m + 1.0) - self.ties / ((n + m) * (n + m - 1.0)));
        if variance <= 0.0 || variance.is_nan() {
            return 1.0;
        }
        let z = ((u - n * m / 2.0).abs() - 0.5).max(0.0) / variance.sqrt();
        erfc(z / std::f64::consts::SQRT_2)
    }
}

/// Returns which tests are changes. At most `share` of the changes are expected to be false
/// (Benjamini-Hochberg).
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

/// Returns the complementary error function for a non-negative argument (Numerical Recipes,
/// `erfcc`). The relative error is below 1.2e-7 everywhere.
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

    /// The expected values come from SciPy: `mannwhitneyu(a, b, method="asymptotic")`, and
    /// `method="exact"`, which ignores ties.
    #[test]
    fn rank_test_matches_scipy() {
        // The first case is the example in SciPy's documentation.
        let cases: [(&[f64], &[f64], f64, f64); 3] = [
            (
                &[19.0, 22.0, 16.0, 29.0, 24.0],
                &[20.0, 11.0, 17.0, 12.0],
                0.111_346_886_533_140_41,
                1.0 / 9.0,
            ),
            (&[1.0, 2.0, 3.0], &[1.0, 2.0, 3.0], 1.0, 1.0),
            (&[1.0; 6], &[1.0; 7], 1.0, 1.0),
        ];
        for (a, b, approximate, exact) in cases {
            for (a, b) in [(a, b), (b, a)] {
                let ranks = Ranks::of(a, b);
                let p = [ranks.approximate(), ranks.exact()];
                assert!((p[0] - approximate).abs() < 1e-6, "{a:?} {b:?}: {p:?}");
                assert!((p[1] - exact).abs() < 1e-12, "{a:?} {b:?}: {p:?}");
            }
        }
    }

    #[test]
    fn exact_test_permutes_tied_values() {
        // Of the 20 ways to divide 0 0 0 0 1 1 into threes, four have both ones in the first
        // sample, and four in the second.
        let p = rank_sum(&[0.0, 0.0, 0.0], &[0.0, 1.0, 1.0]);
        assert!((p - 8.0 / 20.0).abs() < 1e-12, "{p}");
    }

    #[test]
    fn approximation_is_close_to_the_exact_test() {
        let values = |from: u32, count: u32| -> Vec<f64> {
            (0..count)
                .map(|place| f64::from(from + 3 * place))
                .collect()
        };
        for (size, from) in [(15, 1), (15, 10), (15, 16)] {
            let ranks = Ranks::of(&values(0, size), &values(from, size));
            let (exact, approximate) = (ranks.exact(), ranks.approximate());
            assert!((exact - approximate).abs() < 0.01, "{exact} {approximate}");
        }
        let p = rank_sum(&values(0, 8), &values(100, 8));
        assert!((p - least_probability(8, 8)).abs() < 1e-12, "{p}");
        assert!((p - 2.0 / 12_870.0).abs() < 1e-12, "{p}");
    }

    #[test]
    fn error_function_matches_published_tables() {
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
    fn false_discovery_rate_matches_the_published_example() {
        // The example in Benjamini and Hochberg (1995): four of fifteen tests are discoveries.
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
