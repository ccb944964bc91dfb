//! Parses the query of a request. Unknown and repeated parameters are errors.

use std::collections::BTreeMap;

/// Maximum length of a query, in bytes.
const MOST_BYTES: usize = 1024;

/// Decoded parameters by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query(BTreeMap<&'static str, String>);

/// An error in a query, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueryError(pub(crate) String);

impl Query {
    pub(crate) fn parse(text: &str, known: &[&'static str]) -> Result<Self, QueryError> {
        if text.len() > MOST_BYTES {
            let words = format!("the query is longer than {MOST_BYTES} bytes");
            return Err(QueryError(words));
        }
        let mut parameters = BTreeMap::new();
        for part in text.split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let Some(name) = known.iter().find(|it| **it == name) else {
                let words = match known {
                    [] => "this resource takes no parameters".to_owned(),
                    known => format!("unknown parameter; expected one of {}", known.join(", ")),
                };
                return Err(QueryError(words));
            };
            let value = decode(value)
                .ok_or_else(|| QueryError(format!("{name}: not percent-encoded UTF-8")))?;
            if parameters.insert(*name, value).is_some() {
                return Err(QueryError(format!("{name} is given more than once")));
            }
        }
        Ok(Self(parameters))
    }

    /// Returns the value of a parameter.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Returns a text that is the same for equivalent queries.
    pub(crate) fn canonical(&self) -> String {
        let parts = self
            .0
            .iter()
            .map(|(name, value)| format!("{name}={value:?}"));
        parts.collect::<Vec<_>>().join("&")
    }
}

fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                let digits = std::str::from_utf8(&digits).ok()?;
                // `from_str_radix` would accept a sign.
                let hex = digits.bytes().all(|it| it.is_ascii_hexdigit());
                u8::from_str_radix(digits, 16).ok().filter(|_| hex)?
            }
            b'+' => b' ',
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[&str] = &["from", "filter"];

    #[test]
    fn parameters_are_decoded() {
        let query = Query::parse("filter=a%20b%2Fc+d&from=12", KNOWN).expect("right");
        assert_eq!(query.get("filter"), Some("a b/c d"));
        assert_eq!(query.get("from"), Some("12"));
        assert_eq!(query.get("to"), None);
        let other = Query::parse("from=12&filter=a+b/c%20d", KNOWN).expect("right");
        assert_eq!(query.canonical(), other.canonical());
        assert_eq!(Query::parse("", KNOWN), Ok(Query::default()));
    }

    #[test]
    fn wrong_queries_are_refused_with_a_hint() {
        let cases = [
            ("to=1", "expected one of from, filter"),
            ("from=1&from=2", "more than once"),
            ("filter=%zz", "not percent-encoded"),
            ("filter=%+1", "not percent-encoded"),
            ("filter=%ff", "not percent-encoded"),
            ("filter=%2", "not percent-encoded"),
        ];
        for (text, words) in cases {
            let QueryError(said) = Query::parse(text, KNOWN).expect_err(text);
            assert!(said.contains(words), "{text}: {said}");
        }
        let long = format!("filter={}", "x".repeat(MOST_BYTES));
        assert!(Query::parse(&long, KNOWN).is_err());
        let QueryError(said) = Query::parse("x=1", &[]).expect_err("none");
        assert!(said.contains("no parameters"));
    }
}
