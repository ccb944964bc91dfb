use super::*;

#[test]
fn patterns_extract_parts_of_a_line() {
    assert_eq!(
        match_pattern(
            "{} invalid mem access '{}'",
            "R1 invalid mem access 'scalar'"
        ),
        Some(vec!["R1", "scalar"])
    );
    assert_eq!(match_pattern("a{}", "ab"), Some(vec!["b"]));
    assert_eq!(match_pattern("a{}c", "abd"), None);
    assert_eq!(match_pattern("div by zero", "div by zero"), Some(vec![]));
    assert_eq!(match_pattern("div by zero", "div by zero!"), None);
}
