//! Tests hostile input: mutations of the golden cases, and very long strings.

use noctule_trace::parse::{self, MAX_NESTING, MAX_OPERATORS};
use noctule_trace::source::{Problem, Span};

use crate::golden::{FILES, sources};
use crate::random::Random;
use crate::{dump, places};

const MUTATIONS: usize = 200_000;

/// Pieces of the language, and invalid characters.
const PIECES: [&str; 48] = [
    "(",
    ")",
    "{",
    "}",
    "\"",
    "'",
    ":",
    ",",
    ".",
    "$",
    "!",
    "~",
    "=",
    "==",
    "!=",
    "&",
    "&&",
    "|",
    "||",
    "^",
    "<<",
    ">>",
    "+",
    "-",
    "*",
    "/",
    "%",
    " if ",
    " in ",
    "if",
    "not ",
    "CPUS{0-3}",
    "CPUS",
    ".function==",
    ".sym-offset",
    ".buckets=",
    ".descending",
    "keys=",
    "vals=",
    "sort=",
    "name=",
    "onmax($x).save(",
    "0x",
    "18446744073709551616",
    "\0",
    "\u{1b}[2J",
    "\u{e9}",
    "\u{10ffff}",
];

fn mutate(random: &mut Random, text: &str, other: &str) -> String {
    let mut text: Vec<char> = text.chars().collect();
    for _ in 0..=random.below(3) {
        let at = random.below(text.len() + 1);
        let end = (at + random.below(5)).min(text.len());
        let new: Vec<char> = match random.below(5) {
            0 => Vec::new(),
            1 => text[at..end].repeat(2),
            2 => {
                let other: Vec<char> = other.chars().collect();
                let from = random.below(other.len() + 1);
                other[from..(from + 12).min(other.len())].to_vec()
            }
            3 => char::from_u32(random.below(0x250) as u32)
                .into_iter()
                .collect(),
            _ => random.of(&PIECES).chars().collect(),
        };
        text.splice(at..end, new);
    }
    text.into_iter().collect()
}

/// Parses the text and checks every span. Returns the printed tree if there are no problems.
fn check_parse(kind: usize, text: &str) -> Option<String> {
    let mut spans: Vec<Span> = Vec::new();
    let (printed, problems): (String, Vec<Problem>) = match kind {
        0 => {
            let (expr, problems) = parse::filter(text);
            places::collect_expr(&expr, &mut spans);
            (expr.to_string(), problems)
        }
        1 => {
            let (hist, problems) = parse::hist(text);
            places::collect_hist(&hist, &mut spans);
            (hist.to_string(), problems)
        }
        _ => {
            let (trigger, problems) = parse::trigger(text);
            places::collect_trigger(&trigger, &mut spans);
            (trigger.to_string(), problems)
        }
    };
    assert!(
        problems.is_sorted_by_key(|problem| problem.span.start),
        "{text:?}"
    );
    spans.extend(problems.iter().map(|problem| problem.span));
    for span in spans {
        assert!(text.get(span.range()).is_some(), "{span:?} of {text:?}");
    }
    // Each problem shows the whole input, so long inputs are excluded.
    let short = problems.iter().filter(|_| text.len() < 1000);
    for problem in short {
        let shown = problem.show(text);
        assert!(
            !shown.replace('\n', "").contains(char::is_control),
            "{text:?}"
        );
    }
    problems.is_empty().then_some(printed)
}

#[test]
fn mutated_texts_parse_or_report_problems() {
    let corpus: Vec<(usize, String)> = (0..)
        .zip(FILES)
        .flat_map(|(kind, (name, _))| sources(name).into_iter().map(move |text| (kind, text)))
        .collect();
    let mut random = Random::new(7);
    let mut right = 0;
    for _ in 0..MUTATIONS {
        let (kind, text) = random.of(&corpus);
        let (_, other) = random.of(&corpus);
        let text = mutate(&mut random, text, other);
        if let Some(printed) = check_parse(*kind, &text) {
            let read = FILES[*kind].1;
            assert_eq!(read(&printed), read(&text), "{text:?} as {printed:?}");
            right += 1;
        }
    }
    assert!(right > MUTATIONS / 50, "{right}");
}

/// Parses the text in every position, to find quadratic running time and unlimited recursion.
fn check_long_text(text: &str) {
    for kind in 0..FILES.len() {
        check_parse(kind, text);
    }
    let filter = format!("keys={text}:vals={text}:sort={text}:x={text},y={text} if {text}");
    check_parse(1, &filter);
    check_parse(1, &format!("keys=a:onmax($x).save({text}):onmatch({text}"));
}

#[test]
fn long_texts_are_parsed_in_linear_time() {
    let pieces = [
        "(",
        ")",
        "((a",
        "!",
        "!(",
        "not ",
        "-",
        "~",
        "- ",
        "a+",
        "a==1||",
        "a==1 b ",
        "a.",
        "a.hex.",
        "a,",
        ",",
        ":",
        "a in {",
        "in ",
        "{",
        "CPUS{",
        "\"",
        "'\"",
        "\"'",
        "$",
        "if ",
        " if a",
        "a=",
        "x=1,",
        "a.function==",
        "a~",
        "a~b ",
        "onmax(",
        "onmax($x).",
        "\0",
        "\u{e9}",
        "word",
        "1",
        "a||b&&c==d|e^f&g<<h+i*-(",
        "sym-offset",
        "a.sym-offset",
        "a.b.c.",
        "=",
        "==",
    ];
    for piece in pieces {
        check_long_text(&piece.repeat(5_000 / piece.len()));
    }
}

#[test]
fn exceeded_limits_are_reported() {
    let last = |text: &str| {
        let (expr, problems) = parse::filter(text);
        drop(expr.clone());
        let texts: Vec<String> = problems.into_iter().map(|problem| problem.text).collect();
        (dump::expr(&expr).len() > 1, texts)
    };
    let parentheses = |levels: usize| {
        let (open, close) = ("(".repeat(levels), ")".repeat(levels));
        last(&format!("{open}a == 1{close}")).1
    };
    assert_eq!(parentheses(MAX_NESTING), [""; 0]);
    let deep = format!("More than {MAX_NESTING} nested levels");
    assert_eq!(parentheses(MAX_NESTING + 1), [deep.as_str()]);
    assert_eq!(last(&format!("{}a == 1", "!".repeat(100_000))).1, [deep]);
    // Each comparison adds two operators: its own operator and the `||` before it.
    let many = |count: usize| last(&vec!["a == 1"; count].join(" || ")).1;
    assert_eq!(many(MAX_OPERATORS / 2), [""; 0]);
    let too_many = "Too many terms in predicate expression";
    assert_eq!(many(MAX_OPERATORS / 2 + 1), [too_many]);
    assert_eq!(many(100_000), [too_many]);
    let set = format!("a in {{{}}}", vec!["1"; 100_000].join(","));
    assert_eq!(last(&set).1, [""; 0]);
}
