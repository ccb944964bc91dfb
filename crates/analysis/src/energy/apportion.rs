//! Divides whole microjoules by weight, so that the parts add up to the total.

use std::cmp::Ordering;

/// Divides `total` in proportion to the weights by the largest remainder method. Each part is its
/// exact quota rounded down or up, and the parts add up to `total`.
///
/// Returns the amount that could not be divided: `total` if no weight is positive, otherwise 0. A
/// weight that is negative or not finite counts as 0. Among equal remainders, the earlier one is
/// rounded up.
pub(super) fn apportion(total: u64, weights: &[f64], parts: &mut Vec<u64>) -> u64 {
    parts.clear();
    parts.resize(weights.len(), 0);
    let sum: f64 = weights.iter().copied().filter(|&w| counts(w)).sum();
    if total == 0 || sum <= 0.0 || !sum.is_finite() {
        return total;
    }
    let scale = total as f64 / sum;
    let mut left = total;
    let mut remainders: Vec<(f64, usize)> = Vec::with_capacity(weights.len());
    for (place, &weight) in weights.iter().enumerate() {
        if !counts(weight) {
            continue;
        }
        let quota = weight * scale;
        // Quotas are rounded floating-point numbers, so their sum may exceed the total by a few
        // units.
        let part = (quota as u64).min(left);
        parts[place] = part;
        left -= part;
        remainders.push((quota - part as f64, place));
    }
    let by_remainder = |a: &(f64, usize), b: &(f64, usize)| {
        let order = b.0.partial_cmp(&a.0).unwrap_or(Ordering::Equal);
        order.then(a.1.cmp(&b.1))
    };
    while left > 0 {
        let round = remainders.len().min(left as usize);
        if round < remainders.len() {
            remainders.select_nth_unstable_by(round, by_remainder);
        }
        for &(_, place) in &remainders[..round] {
            parts[place] += 1;
        }
        left -= round as u64;
    }
    0
}

fn counts(weight: f64) -> bool {
    weight > 0.0 && weight.is_finite()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(total: u64, weights: &[f64]) -> (Vec<u64>, u64) {
        let mut parts = Vec::new();
        let left = apportion(total, weights, &mut parts);
        (parts, left)
    }

    #[test]
    fn the_largest_remainders_are_rounded_up() {
        assert_eq!(parts(10, &[1.0, 1.0, 1.0]), (vec![4, 3, 3], 0));
        assert_eq!(parts(10, &[6.0, 2.6, 1.4]), (vec![6, 3, 1], 0));
        assert_eq!(parts(1, &[0.2, 0.5, 0.3]), (vec![0, 1, 0], 0));
        assert_eq!(parts(7, &[0.0, 2.0, 0.0]), (vec![0, 7, 0], 0));
    }

    #[test]
    fn nothing_is_divided_without_weights() {
        assert_eq!(parts(9, &[]), (vec![], 9));
        assert_eq!(parts(9, &[0.0, 0.0]), (vec![0, 0], 9));
        assert_eq!(
            parts(9, &[f64::NAN, -1.0, f64::INFINITY, 3.0]),
            (vec![0, 0, 0, 9], 0)
        );
    }

    #[test]
    fn the_parts_always_add_up() {
        let mut state = 7_u64;
        let mut random = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            state >> 33
        };
        for round in 0..2000 {
            let count = 1 + random() % 300;
            let weights: Vec<f64> = (0..count)
                .map(|_| random() as f64 * 10_f64.powi(random() as i32 % 12 - 6))
                .collect();
            let total = random() << (round % 22);
            let (parts, left) = parts(total, &weights);
            let sum: u64 = parts.iter().sum();
            assert_eq!(sum + left, total);
            let all: f64 = weights.iter().sum();
            for (part, weight) in parts.iter().zip(&weights) {
                let quota = weight / all * total as f64;
                let off = (*part as f64 - quota).abs();
                assert!(off <= 1.0 + quota * 1e-9, "{part} of {quota}");
            }
        }
    }
}
