use super::*;

#[test]
fn patterns_extract_parts_of_a_line() {
    assert_eq!(
        fit(
            "{} invalid mem access '{}'",
            "R1 invalid mem access 'scalar'"
        ),
        Some(vec!["R1", "scalar"])
    );
    assert_eq!(fit("a{}", "ab"), Some(vec!["b"]));
    assert_eq!(fit("a{}c", "abd"), None);
    assert_eq!(fit("div by zero", "div by zero"), Some(vec![]));
    assert_eq!(fit("div by zero", "div by zero!"), None);
}
