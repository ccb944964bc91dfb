//! Redaction of well-known secrets in the arguments of programs.

mod rules;

use std::sync::LazyLock;

use regex::bytes::{Captures, Regex};
use rules::{ENDS, FLAGS, Flag, HARMLESS_ENDS, PARTS, SWITCHES, TOKENS, Value, WORDS};

/// The replacement for a secret.
const REDACTED: &[u8] = b"<redacted>";

/// Matches a name, a separator and a value, as in variables, options, query strings, JSON and
/// connection strings.
static PAIR: LazyLock<Regex> = LazyLock::new(|| {
    compile(
        r#"(?<name>[A-Za-z][\w.-]*)(?<mark>\\?["']?\s*(?:=>|:=|==?|:)\s*)(?:(?<open>\\?["'])(?<quoted>[^"']*?)(?<close>\\?["']|$)|(?<bare>[^\s"'&;,|)}\]\\]+))"#,
    )
});

/// Matches the password in `scheme://user:password@host`, or a long user name that is itself a
/// token.
static USER_INFO: LazyLock<Regex> = LazyLock::new(|| {
    compile(r#"(?<scheme>[A-Za-z][\w+.-]*://)(?:(?<user>[^\s/?\#:@"']*:)[^\s/?\#"']+|[\w-]{20,})@"#)
});

/// Matches `Bearer X`, `Basic X` and `Digest X`.
static SCHEME: LazyLock<Regex> =
    LazyLock::new(|| compile(r"(?<word>\b(?i:bearer|basic|digest)\s+)[\w.~+/=-]{8,}"));

static TOKEN: LazyLock<Regex> = LazyLock::new(|| compile(&format!(r"\b(?:{})", TOKENS.join("|"))));

/// Matches a private key up to its end marker, or to the end of the argument if there is none.
static PRIVATE_KEY: LazyLock<Regex> = LazyLock::new(|| {
    compile(
        r"(?s)(?<begin>-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----).*?(?<end>-----END [A-Z ]*-----|$)",
    )
});

/// Matches webhook addresses: the address is the only credential that a webhook has.
static HOOK: LazyLock<Regex> = LazyLock::new(|| {
    compile(
        r"(?<host>\b(?:hooks\.slack\.com/(?:services|workflows)|discord(?:app)?\.com/api/webhooks)/)[\w/-]+",
    )
});

fn compile(expression: &str) -> Regex {
    Regex::new(&format!("(?-u){expression}")).expect("constants, each of which a test uses")
}

/// Replaces well-known secrets in the arguments of a program.
///
/// Values are recognized by the name of their option, variable, header or JSON key (`rules`). Other
/// rules recognize options of particular programs (`curl -u user:X`, `mysql -pX`), and tokens by
/// their format. Other secrets are not found. To exclude those, events must be recorded without
/// arguments.
pub fn redact(args: &mut [Vec<u8>]) {
    let mut line = Line::default();
    for arg in args {
        line.redact(arg);
    }
}

/// State that the previous arguments leave for the next argument.
#[derive(Default)]
struct Line {
    flags: Vec<&'static Flag>,
    next: Option<Value>,
    started: bool,
}

impl Line {
    fn redact(&mut self, arg: &mut Vec<u8>) {
        let first = !std::mem::replace(&mut self.started, true);
        if let Some(value) = self.next.take()
            && (value != Value::Secret || !arg.starts_with(b"-"))
        {
            *arg = hide(value, arg);
            return;
        }
        self.note_program(arg);
        if first {
            return;
        }
        if let Some(same) = self.flag(arg) {
            *arg = same;
            return;
        }
        if is_option(arg) {
            self.next = Some(Value::Secret);
            return;
        }
        if let Some(hidden) = assignment(arg) {
            *arg = hidden;
            return;
        }
        // The argument may be a whole command line.
        if arg.iter().any(u8::is_ascii_whitespace) {
            *arg = words(arg);
        }
        *arg = patterns(arg);
    }

    /// Adds the secret-carrying flags of a program, if the argument is the name of one.
    fn note_program(&mut self, arg: &[u8]) {
        let base = arg.rsplit(|byte| *byte == b'/').next().unwrap_or(arg);
        let has = |flag: &&Flag| flag.programs.iter().any(|it| it.as_bytes() == base);
        self.flags.extend(FLAGS.iter().filter(has));
    }

    /// Returns the argument with the secret after its flag redacted, or `None` if no flag matches.
    /// If the value is in the next argument, that argument will be redacted.
    fn flag(&mut self, arg: &[u8]) -> Option<Vec<u8>> {
        for flag in &self.flags {
            for name in flag.flags.iter().map(|name| name.as_bytes()) {
                let Some(rest) = arg.strip_prefix(name) else {
                    continue;
                };
                if rest.is_empty() {
                    self.next = flag.next.then_some(flag.value);
                    return Some(arg.to_vec());
                }
                let long = name.starts_with(b"--");
                let value = match rest.strip_prefix(b"=") {
                    Some(value) if long => value,
                    _ if long || !flag.same => continue,
                    _ => rest,
                };
                let before = &arg[..arg.len() - value.len()];
                return Some([before, &hide(flag.value, value)].concat());
            }
        }
        None
    }
}

fn hide(value: Value, text: &[u8]) -> Vec<u8> {
    match value {
        Value::Secret => REDACTED.to_vec(),
        Value::After(mark) => match text.iter().position(|byte| *byte == mark) {
            Some(at) => [&text[..=at], REDACTED].concat(),
            None => text.to_vec(),
        },
    }
}

/// Redacts the value of `NAME=VALUE` if the name denotes a secret. The value ends at the argument's
/// end and must not contain white space.
fn assignment(arg: &[u8]) -> Option<Vec<u8>> {
    let at = arg.iter().position(|byte| *byte == b'=')?;
    let (name, value) = (&arg[..at], &arg[at + 1..]);
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    let is_one = name.iter().all(is_name) && !value.iter().any(u8::is_ascii_whitespace);
    (is_one && !value.is_empty() && is_secret(name)).then(|| [&arg[..=at], REDACTED].concat())
}

/// Redacts each word of a text as if it were an argument. White space is preserved.
fn words(text: &[u8]) -> Vec<u8> {
    let mut line = Line {
        started: true,
        ..Line::default()
    };
    let mut out = Vec::with_capacity(text.len());
    for part in text.split_inclusive(u8::is_ascii_whitespace) {
        let end = part.iter().rposition(|byte| !byte.is_ascii_whitespace());
        let (word, blank) = part.split_at(end.map_or(0, |at| at + 1));
        if !word.is_empty() {
            let mut word = word.to_vec();
            line.word(&mut word);
            out.extend_from_slice(&word);
        }
        out.extend_from_slice(blank);
    }
    out
}

impl Line {
    /// Redacts a word of a text. Quotes around the secret are preserved.
    fn word(&mut self, word: &mut Vec<u8>) {
        let quote = |byte: &u8| matches!(byte, b'"' | b'\'');
        let begin = word.iter().position(|b| !quote(b)).unwrap_or(word.len());
        let closing = |b: &u8| quote(b) || matches!(b, b';' | b')' | b'|' | b'&');
        let end = word
            .iter()
            .rposition(|b| !closing(b))
            .map_or(begin, |at| at + 1)
            .max(begin);
        let mut inner = word[begin..end].to_vec();
        if let Some(value) = self.next.take()
            && (value != Value::Secret || !inner.starts_with(b"-"))
        {
            inner = hide(value, &inner);
        } else {
            self.note_program(&inner);
            if let Some(same) = self.flag(&inner) {
                inner = same;
            } else if is_option(&inner) {
                self.next = Some(Value::Secret);
            }
        }
        *word = [&word[..begin], &inner, &word[end..]].concat();
    }
}

/// Replaces secrets that are recognizable by their format, anywhere in the argument.
fn patterns(arg: &[u8]) -> Vec<u8> {
    // A header: everything after its name is the secret.
    if let Some(at) = arg.iter().position(|byte| *byte == b':')
        && !arg[..at].iter().any(u8::is_ascii_whitespace)
        && arg.get(at + 1) == Some(&b' ')
        && is_secret(&arg[..at])
    {
        return [&arg[..=at], b" ", REDACTED].concat();
    }
    let text = PRIVATE_KEY.replace_all(arg, &b"$begin<redacted>$end"[..]);
    let text = USER_INFO.replace_all(&text, &b"$scheme$user<redacted>@"[..]);
    let text = HOOK.replace_all(&text, &b"$host<redacted>"[..]);
    let text = SCHEME.replace_all(&text, &b"$word<redacted>"[..]);
    let text = PAIR.replace_all(&text, pair);
    TOKEN.replace_all(&text, REDACTED).into_owned()
}

fn pair(found: &Captures<'_>) -> Vec<u8> {
    let part = |name| found.name(name).map_or(&b""[..], |it| it.as_bytes());
    let value = found.name("quoted").or_else(|| found.name("bare"));
    let value = value.map_or(&b""[..], |it| it.as_bytes());
    // The value is neither the `//` of `https://` nor a shell variable.
    if value.is_empty()
        || value.starts_with(b"//")
        || value.starts_with(b"$")
        || !is_secret(part("name"))
    {
        return found[0].to_vec();
    }
    [
        part("name"),
        part("mark"),
        part("open"),
        REDACTED,
        part("close"),
    ]
    .concat()
}

/// Returns whether the argument is an option whose value, a secret, is in the next argument.
fn is_option(arg: &[u8]) -> bool {
    let ends = |byte: &u8| *byte == b'=' || byte.is_ascii_whitespace();
    arg.starts_with(b"-") && !arg.iter().any(ends) && is_secret(arg)
}

/// Returns whether the name denotes a secret.
fn is_secret(name: &[u8]) -> bool {
    if SWITCHES.iter().any(|it| name.starts_with(it.as_bytes())) {
        return false;
    }
    let words = split_name(name);
    let Some(last) = words.last() else {
        return false;
    };
    let joined = words.concat();
    let ends = |end: &&str| joined.ends_with(*end);
    if ends(&"secretid") {
        return true;
    }
    if HARMLESS_ENDS.contains(&last.as_str()) || ["file", "path", "url", "stdin"].iter().any(ends) {
        return false;
    }
    let is_token = |word: &String| word.trim_end_matches(|c: char| c.is_ascii_digit()) == "token";
    PARTS.iter().any(|part| joined.contains(part))
        || words.iter().any(is_token)
        || ENDS.iter().any(ends)
        || WORDS.contains(&last.as_str())
}

/// Splits a name into lower-case words. `db-pass`, `DB_PASS`, `db.pass` and `dbPass` give the same
/// two.
fn split_name(name: &[u8]) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_small = false;
    for &byte in name {
        let begins = byte.is_ascii_uppercase() && was_small;
        if (begins || !byte.is_ascii_alphanumeric())
            && words.last().is_some_and(|it| !it.is_empty())
        {
            words.push(String::new());
        }
        if byte.is_ascii_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.push(char::from(byte.to_ascii_lowercase()));
        }
        was_small = byte.is_ascii_lowercase() || byte.is_ascii_digit();
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests;
