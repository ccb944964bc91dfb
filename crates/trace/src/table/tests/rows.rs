//! Tests the merging of rows against the numbers that went into them.

use super::Random;
use crate::buckets;
use crate::program::Aggregate;
use crate::table::{Figure, Merged, Row};

const SIGN: u64 = 1 << 63;
const ALL: [Aggregate; 6] = [
    Aggregate::Sum,
    Aggregate::Minimum { signed: false },
    Aggregate::Maximum { signed: false },
    Aggregate::Buckets,
    Aggregate::Minimum { signed: true },
    Aggregate::Maximum { signed: true },
];

/// Encodes a row as the program writes it on one CPU.
fn encode_row(kept: &[Aggregate], numbers: &[u64]) -> Vec<u8> {
    let mut words = vec![numbers.len() as u64];
    for what in kept {
        let greatest = |stored: fn(u64) -> u64| numbers.iter().copied().map(stored).max();
        match what {
            Aggregate::Sum => words.push(numbers.iter().copied().fold(0, u64::wrapping_add)),
            Aggregate::Minimum { signed: false } => words.push(greatest(|n| !n).unwrap_or(0)),
            Aggregate::Minimum { signed: true } => {
                words.push(greatest(|n| !(n ^ SIGN)).unwrap_or(0));
            }
            Aggregate::Maximum { signed: false } => words.push(greatest(|n| n).unwrap_or(0)),
            Aggregate::Maximum { signed: true } => words.push(greatest(|n| n ^ SIGN).unwrap_or(0)),
            Aggregate::Buckets => {
                let mut counts = vec![0; buckets::COUNT];
                for number in numbers {
                    counts[buckets::index(*number)] += 1;
                }
                words.extend(counts);
            }
            Aggregate::Saved { .. } => panic!("an action writes it"),
        }
    }
    words.into_iter().flat_map(u64::to_ne_bytes).collect()
}

fn merged(cpus: &[&[u64]]) -> Row {
    let rows: Vec<Vec<u8>> = cpus
        .iter()
        .map(|numbers| encode_row(&ALL, numbers))
        .collect();
    Row::merge(Vec::new(), rows.iter().map(Vec::as_slice), &ALL)
}

fn figures(row: &Row) -> [u64; 5] {
    [0, 1, 2, 4, 5].map(|index| row.figure(Figure::Kept(index)))
}

#[test]
fn rows_of_all_cpus_are_merged() {
    let minus = |number: i64| number.cast_unsigned();
    let cases: [(&[&[u64]], [u64; 5]); 6] = [
        (&[&[5, 7], &[3]], [15, 3, 7, 3, 7]),
        // A CPU without hits has zeros, which do not count as a minimum.
        (&[&[], &[3], &[]], [3, 3, 3, 3, 3]),
        (&[&[0], &[u64::MAX]], [u64::MAX, 0, u64::MAX, u64::MAX, 0]),
        (&[&[u64::MAX, 2]], [1, 2, u64::MAX, u64::MAX, 2]),
        (
            &[&[minus(i64::MIN)], &[minus(i64::MAX)]],
            [u64::MAX, SIGN - 1, SIGN, SIGN, SIGN - 1],
        ),
        (&[&[], &[]], [0, 0, 0, 0, 0]),
    ];
    for (cpus, expected) in cases {
        let row = merged(cpus);
        assert_eq!(figures(&row), expected, "{cpus:?}");
        assert_eq!(row.hits as usize, cpus.concat().len());
    }
}

#[test]
fn short_rows_add_the_words_they_have() {
    let full = encode_row(&ALL, &[9]);
    for length in 0..full.len().min(40) {
        let rows = [full.as_slice(), &full[..length]];
        let row = Row::merge(vec![1], rows.into_iter(), &ALL);
        assert_eq!(row.hits, if length < 8 { 1 } else { 2 });
        assert_eq!(row.figure(Figure::Kept(1)), 9);
        assert_eq!(row.kept.len(), ALL.len());
    }
    let none = Row::merge(vec![1], std::iter::empty(), &ALL);
    assert_eq!(figures(&none), [0; 5]);
    assert_eq!(none.figure(Figure::Kept(99)), 0);
}

#[test]
fn averages_divide_the_sum() {
    let row = |sum: i64, hits| Row {
        key: Vec::new(),
        hits,
        kept: vec![Merged::Number(sum.cast_unsigned())],
    };
    let average = |signed| Figure::Average { kept: 0, signed };
    assert_eq!(row(7, 2).figure(average(false)), 3);
    assert_eq!(row(-7, 2).figure(average(true)).cast_signed(), -3);
    assert_eq!(row(-1, 1).figure(average(false)), u64::MAX);
    assert_eq!(
        row(i64::MIN, u64::MAX).figure(average(true)).cast_signed(),
        -1
    );
    assert_eq!(row(7, 0).figure(average(true)), 0);
}

#[test]
fn percentiles_are_within_one_sixteenth() {
    let mut random = Random(1);
    for round in 0..200 {
        let count = 1 + (random.next() % 300) as usize;
        let mut numbers: Vec<u64> = (0..count).map(|_| random.number()).collect();
        let (one, other) = numbers.split_at(count / 3);
        let row = merged(&[one, other]);
        numbers.sort_unstable();
        for thousandths in [1, 10, 500, 900, 990, 999, 1000, 1001] {
            let rank = (count * usize::from(thousandths.min(1000)))
                .div_ceil(1000)
                .max(1);
            let exact = numbers[rank - 1];
            let found = row.figure(Figure::Percentile {
                kept: 3,
                thousandths,
                signed: false,
            });
            let error = found.abs_diff(exact);
            assert!(error <= exact / 16, "round {round}: {found} for {exact}");
        }
    }
}

/// Three of ten numbers are negative, such as the results of failed reads.
#[test]
fn signed_percentiles_rank_negative_numbers_first() {
    let numbers = [-11, 100, 200, -4, 300, 400, 500, -11, 600, 700];
    let numbers = numbers.map(i64::cast_unsigned);
    let row = merged(&[&numbers]);
    let of = |thousandths, signed| {
        let figure = Figure::Percentile {
            kept: 3,
            thousandths,
            signed,
        };
        row.figure(figure).cast_signed()
    };
    assert_eq!([100, 300].map(|part| of(part, true)), [-1, -1]);
    assert!(
        (98..108).contains(&of(310, true)),
        "fourth number: {}",
        of(310, true)
    );
    assert!(
        (190..210).contains(&of(500, true)),
        "fifth number: {}",
        of(500, true)
    );
    assert!((660..740).contains(&of(990, true)), "{}", of(990, true));
    // As unsigned numbers, negative numbers are the largest.
    assert!(of(990, false) < -1);
}

#[test]
fn percentiles_of_extreme_inputs() {
    let figure = Figure::Percentile {
        kept: 3,
        thousandths: 500,
        signed: false,
    };
    assert_eq!(merged(&[&[]]).figure(figure), 0);
    assert_eq!(merged(&[&[0]]).figure(figure), 0);
    assert_eq!(merged(&[&[u64::MAX]]).figure(figure) >> 60, 15);
}

/// The words of each CPU: time, number, saved field.
#[test]
fn saved_data_of_the_winning_cpu_is_kept() {
    use crate::program::When;
    let row = |hits: u64, words: [u64; 3]| -> Vec<u8> {
        let all = [hits].into_iter().chain(words);
        all.flat_map(u64::to_ne_bytes).collect()
    };
    let cpus = [
        row(2, [0, 0, 0]),
        row(3, [50, 7, 1]),
        row(1, [40, 9, 2]),
        row(1, [30, 9, 3]),
        row(0, [0, 0, 0]),
    ];
    for (when, expected) in [(When::Greater, [30, 9, 3]), (When::Other, [50, 7, 1])] {
        let kept = [Aggregate::Saved { words: 3, when }];
        let merged = Row::merge(Vec::new(), cpus.iter().map(Vec::as_slice), &kept);
        assert_eq!(merged.hits, 7);
        assert_eq!(merged.kept, [Merged::Saved(expected.to_vec())]);
        assert_eq!(merged.saved(0), (expected[1], &expected[2..]));
        let mut both = Row::merge(Vec::new(), [cpus[1].as_slice()].into_iter(), &kept);
        both.add(&merged, &kept);
        assert_eq!(both.kept, merged.kept);
    }
}
