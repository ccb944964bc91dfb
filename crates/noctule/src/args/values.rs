//! Parses the values of options.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use clap::builder::{PathBufValueParser, PossibleValuesParser, TypedValueParser};

/// The longest accepted duration. Adding it to a clock does not overflow.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 86_400);

/// Parses a duration such as `10s` or `1h30m`; a plain number means seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let duration = match text.parse::<f64>() {
        Ok(seconds) if plain => Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX),
        _ => humantime::parse_duration(text).map_err(|error| {
            format!("{error}; use a form such as 10s or 1h30m, or a number of seconds")
        })?,
    };
    if duration > LONGEST {
        return Err("must be at most 100 years".into());
    }
    Ok(duration)
}

/// Parses `ADDRESS:PORT`; `:9470` and `localhost:9470` mean 127.0.0.1.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    let (host, port) = text.rsplit_once(':').unwrap_or((text, ""));
    match (host, port.parse()) {
        ("" | "localhost", Ok(port)) => Ok((IpAddr::V4(Ipv4Addr::LOCALHOST), port).into()),
        _ => text.parse().map_err(|_| {
            "must be an address and a port, such as 127.0.0.1:9470, localhost:9470 or :9470".into()
        }),
    }
}

/// Parses a path and makes it absolute.
pub(super) fn path() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| match path.is_absolute() {
        true => Ok(path),
        false => std::env::current_dir().map(|current| below(&current, &path)),
    })
}

/// Accepts the names of these values.
pub(super) fn named<T: Clone + Send + Sync>(
    values: &'static [(&'static str, T)],
) -> impl TypedValueParser<Value = T> {
    let names = PossibleValuesParser::new(values.iter().map(|(name, _)| *name));
    names.try_map(move |text| {
        let value = values.iter().find(|(name, _)| *name == text);
        value.map(|(_, value)| value.clone()).ok_or("unknown name")
    })
}

/// Joins the paths and removes `.` and `..`.
fn below(current: &Path, path: &Path) -> PathBuf {
    let mut whole = current.to_owned();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(whole.pop()),
            Component::CurDir => {}
            part => whole.push(part),
        }
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_number_is_seconds() {
        let cases = [
            ("10", 10_000),
            ("0.5", 500),
            ("10s", 10_000),
            ("1m", 60_000),
        ];
        for (text, ms) in cases {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in [
            "",
            "soon",
            "-1",
            "1e3",
            "inf",
            "1.2.3",
            "99999999999999999999999",
        ] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_address_without_a_host_is_loopback() {
        for text in [":9470", "localhost:9470", "127.0.0.1:9470"] {
            let expected = SocketAddr::from(([127, 0, 0, 1], 9470));
            assert_eq!(address(text), Ok(expected), "{text}");
        }
        assert!(address("[::1]:80").is_ok_and(|it| it.is_ipv6()));
        for text in ["", "here", "localhost", ":", ":99999", "9470"] {
            assert!(address(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_relative_path_begins_at_the_current_directory() {
        let cases = [
            (".", "/a/b"),
            ("c", "/a/b/c"),
            ("../c/./d", "/a/c/d"),
            ("../../../c", "/c"),
        ];
        for (path, whole) in cases {
            let found = below(Path::new("/a/b"), Path::new(path));
            assert_eq!(found, Path::new(whole), "{path}");
        }
    }
}
