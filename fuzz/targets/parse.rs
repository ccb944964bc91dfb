//! Fuzzes triggers, filters and definitions. The parser must return a tree, and problems with
//! positions that can be shown.

#![no_main]

use libfuzzer_sys::fuzz_target;
use noctule_trace::parse;
use noctule_trace::raw;
use noctule_trace::synthetic::Synthetic;

fuzz_target!(|bytes: &[u8]| {
    let _ = raw::read(bytes);
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    // Seed files end with a newline.
    let text = text.strip_suffix('\n').unwrap_or(text);
    let (hist, problems) = parse::hist(text);
    if problems.is_empty() {
        let printed = hist.to_string();
        let (again, problems) = parse::hist(&printed);
        // The printed form has parentheses around each sign, which can exceed the limit for
        // nesting.
        if !problems.iter().any(|problem| problem.text.contains("nested levels")) {
            assert!(problems.is_empty(), "{printed}: {problems:?}");
            assert_eq!(printed, again.to_string());
        }
    }
    let others = [parse::filter(text).1, parse::trigger(text).1, parse::event(text).1];
    for problem in others.into_iter().flatten().chain(problems) {
        let _ = problem.show(text);
    }
    if let Err(problem) = Synthetic::parse(text, 1) {
        let _ = problem.show(text);
    }
});
