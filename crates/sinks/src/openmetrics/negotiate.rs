//! Content negotiation for `/metrics`.

/// A format of `/metrics`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Exposition {
    /// Prometheus' protobuf format, length-delimited. The only format with native histograms.
    Protobuf,
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// The Prometheus text format 0.0.4, which every scraper can read.
    #[default]
    Classic,
}

impl Exposition {
    /// All formats, in order of preference.
    pub const ALL: [Self; 3] = [Self::Protobuf, Self::OpenMetrics, Self::Classic];

    /// Returns the value of the header `Content-Type`.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
            }
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Classic => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// Chooses a format according to the header `Accept`.
    ///
    /// A client receives protobuf or OpenMetrics only if it names that format and does not prefer
    /// another format. OpenMetrics must be named with version 1.0.0 or without a version.
    ///
    /// All other clients, such as browsers and `curl`, receive the classic format. A client that
    /// accepts none of the formats receives it, too, because readable text is more useful than a
    /// 406. A media range with a malformed `q` is ignored.
    pub fn negotiate(accept: Option<&str>) -> Self {
        let mut best = (0.0, Self::Classic);
        let ranges = accept.unwrap_or_default().split(',');
        for range in ranges.filter_map(Range::parse) {
            let Some(format) = range.format() else {
                continue;
            };
            let rank = |format| Self::ALL.iter().position(|it| *it == format);
            let better = rank(format) < rank(best.1);
            if range.quality > best.0 || range.quality == best.0 && better && best.0 > 0.0 {
                best = (range.quality, format);
            }
        }
        best.1
    }
}

/// One media range of the header `Accept`.
struct Range<'a> {
    media: &'a str,
    version: Option<&'a str>,
    proto: Option<&'a str>,
    encoding: Option<&'a str>,
    quality: f32,
}

impl<'a> Range<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.split(';').map(str::trim);
        let mut range = Self {
            media: parts.next()?,
            version: None,
            proto: None,
            encoding: None,
            quality: 1.0,
        };
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            let value = value.trim().trim_matches('"');
            match name.trim() {
                name if name.eq_ignore_ascii_case("q") => {
                    range.quality = value.parse().ok().filter(|q| (0.0..=1.0).contains(q))?;
                }
                name if name.eq_ignore_ascii_case("version") => range.version = Some(value),
                name if name.eq_ignore_ascii_case("proto") => range.proto = Some(value),
                name if name.eq_ignore_ascii_case("encoding") => range.encoding = Some(value),
                _ => {}
            }
        }
        Some(range)
    }

    /// Returns the format that the media range names. A wildcard names no format. It would select
    /// the classic format anyway, and must not outrank OpenMetrics with a lower `q`.
    fn format(&self) -> Option<Exposition> {
        let is = |media: &str, version: &str| {
            self.media.eq_ignore_ascii_case(media) && self.version.is_none_or(|v| v == version)
        };
        if is("application/openmetrics-text", "1.0.0") {
            Some(Exposition::OpenMetrics)
        } else if is("text/plain", "0.0.4") {
            Some(Exposition::Classic)
        } else if is("application/vnd.google.protobuf", "")
            && self.proto == Some("io.prometheus.client.MetricFamily")
            && self.encoding == Some("delimited")
        {
            Some(Exposition::Protobuf)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Exposition::{self, Classic, OpenMetrics, Protobuf};

    #[test]
    fn accept_headers_of_real_scrapers_are_understood() {
        let cases = [
            // Prometheus 3, Prometheus 3 with native histograms, Prometheus 2.42, Prometheus 2.5.
            (
                "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                 application/openmetrics-text;version=0.0.1;q=0.5,\
                 text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,\
                 text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
                OpenMetrics,
            ),
            (
                "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;\
                 encoding=delimited;q=0.6,application/openmetrics-text;version=1.0.0;q=0.5,\
                 text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
                Protobuf,
            ),
            (
                "application/openmetrics-text;version=1.0.0,\
                 application/openmetrics-text;version=0.0.1;q=0.75,\
                 text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
                OpenMetrics,
            ),
            (
                "application/openmetrics-text; version=0.0.1,text/plain;version=0.0.4;q=0.5,\
                 */*;q=0.1",
                Classic,
            ),
            // Prometheus 2.42 with native histograms.
            (
                "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;\
                 encoding=delimited,application/openmetrics-text;version=1.0.0;q=0.8,\
                 text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
                Protobuf,
            ),
            (
                "application/vnd.google.protobuf;proto=another;encoding=delimited",
                Classic,
            ),
            (
                "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;\
                 encoding=text",
                Classic,
            ),
            // curl and a browser.
            ("*/*", Classic),
            (
                "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
                Classic,
            ),
        ];
        for (accept, expected) in cases {
            assert_eq!(Exposition::negotiate(Some(accept)), expected, "{accept}");
        }
    }

    #[test]
    fn quality_decides_and_malformed_ranges_are_ignored() {
        let cases = [
            ("application/openmetrics-text", OpenMetrics),
            ("Application/OpenMetrics-Text ; Q=0.1", OpenMetrics),
            (
                "application/openmetrics-text;version=\"1.0.0\"",
                OpenMetrics,
            ),
            ("application/openmetrics-text,text/plain", OpenMetrics),
            ("text/plain,application/openmetrics-text;q=0.9", Classic),
            ("*/*,application/openmetrics-text;q=0.1", OpenMetrics),
            ("application/openmetrics-text;q=0", Classic),
            ("application/openmetrics-text;q=nan", Classic),
            ("application/openmetrics-text;q=-1", Classic),
            ("application/openmetrics-text;q=2", Classic),
            ("application/openmetrics-text;version=2.0.0", Classic),
            ("image/png", Classic),
            (";;,,=;q=,", Classic),
            ("", Classic),
        ];
        for (accept, expected) in cases {
            assert_eq!(Exposition::negotiate(Some(accept)), expected, "{accept}");
        }
        assert_eq!(Exposition::negotiate(None), Classic);
    }
}
