//! Removes comments and literals from Rust code, so that checks do not mistake them for code.

/// Replaces comments and the content of literals with spaces. Line numbers do not change.
pub(super) fn code(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let Some(length) = skip_length(rest) else {
            out.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        };
        let (blank, after) = rest.split_at(length);
        out.extend(blank.chars().map(|c| if c == '\n' { c } else { ' ' }));
        rest = after;
    }
    out
}

/// Returns the length of the comment or literal that starts here.
fn skip_length(rest: &str) -> Option<usize> {
    match rest.as_bytes()[0] {
        b'/' if rest.starts_with("//") => Some(rest.find('\n').unwrap_or(rest.len())),
        b'/' if rest.starts_with("/*") => Some(block_comment(rest)),
        b'"' => Some(string(rest)),
        b'r' => raw_string(rest),
        b'\'' => character(rest),
        _ => None,
    }
}

/// Returns the length of a block comment. Block comments nest.
fn block_comment(rest: &str) -> usize {
    let mut depth = 0_u32;
    let mut at = 0;
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

fn string(rest: &str) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// Returns the length of `r"..."`, `r#"..."#` and so on. `r#name` is an identifier.
fn raw_string(rest: &str) -> Option<usize> {
    let hashes = rest[1..].bytes().take_while(|&b| b == b'#').count();
    let open = 1 + hashes;
    if rest.as_bytes().get(open) != Some(&b'"') {
        return None;
    }
    let end = format!("\"{}", "#".repeat(hashes));
    let inside = &rest[open + 1..];
    let length = inside.find(&end).map_or(inside.len(), |at| at + end.len());
    Some(open + 1 + length)
}

/// Returns the length of `'x'` or `'\n'`. A lone `'a` is a lifetime.
fn character(rest: &str) -> Option<usize> {
    let mut chars = rest.char_indices().skip(1);
    let (_, first) = chars.next()?;
    if first != '\\' {
        let (at, next) = chars.next()?;
        return (next == '\'').then_some(at + 1);
    }
    // The escaped character may itself be a quote.
    chars.next();
    let end = chars.find(|(_, c)| *c == '\'')?;
    Some(end.0 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_comments_and_literals_are_removed() {
        let cases = [
            ("a(); // unsafe\nb();", "a(); \nb();"),
            ("a /* x /* unsafe */ y */ b", "a b"),
            (r#"f("todo!\" \\", x)"#, "f(, x)"),
            (r###"f(r#"a " b"#, br"\", x)"###, "f(, b, x)"),
            ("r#unsafe", "r#unsafe"),
            (
                "fn f<'a>(x: &'a str) -> char { '\"' }",
                "fn f<'a>(x: &'a str) -> char { }",
            ),
            (r"['\'', '\u{22}', '日', b'\\'] unsafe", "[, , , b] unsafe"),
            ("let x = \"unsafe", "let x = "),
            ("/* unsafe", ""),
        ];
        // Removed parts become spaces, so spaces are ignored.
        let bare = |text: &str| text.replace(' ', "");
        for (text, expected) in cases {
            let scrubbed = code(text);
            assert_eq!(bare(&scrubbed), bare(expected), "{text}");
            assert_eq!(scrubbed.lines().count(), text.lines().count(), "{text}");
        }
    }
}
