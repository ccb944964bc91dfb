//! Outcomes of requests.

use std::time::Duration;

use prost::Message;

/// The outcome of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The receiver accepted the request.
    Accepted {
        /// Number of items in the request that the receiver rejected. The receiver would reject
        /// them again.
        rejected: u64,
        /// The receiver's message about rejected items, or a warning; may be empty.
        said: String,
    },
    /// A temporary failure. The request will be sent again.
    Later {
        /// Minimum delay, if the receiver specified one.
        after: Option<Duration>,
        /// The reason, for people.
        why: String,
    },
    /// A permanent failure. The receiver would refuse the request again.
    Refused {
        /// The reason, for people.
        why: String,
    },
}

impl Outcome {
    pub(crate) fn later(why: impl Into<String>) -> Self {
        Self::Later {
            after: None,
            why: why.into(),
        }
    }
}

/// The response to a request. A response has the same fields for every signal.
#[derive(Clone, PartialEq, Message)]
struct ExportAnswer {
    #[prost(message, optional, tag = "1")]
    partial: Option<PartialSuccess>,
}

#[derive(Clone, PartialEq, Message)]
struct PartialSuccess {
    #[prost(int64, tag = "1")]
    rejected: i64,
    #[prost(string, tag = "2")]
    said: String,
}

/// Reads the response to an accepted request. An unreadable response counts as full success: the
/// receiver reported success, and sending the request again would count it twice.
pub(crate) fn accepted(body: &[u8]) -> Outcome {
    let answer = ExportAnswer::decode(body).unwrap_or_default();
    let partial = answer.partial.unwrap_or_default();
    Outcome::Accepted {
        rejected: partial.rejected.try_into().unwrap_or(0),
        said: partial.said,
    }
}

/// `google.rpc.Status`, the body of an error.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Status {
    #[prost(int32, tag = "1")]
    pub(crate) code: i32,
    #[prost(string, tag = "2")]
    pub(crate) said: String,
    #[prost(message, repeated, tag = "3")]
    pub(crate) details: Vec<Detail>,
}

/// `google.protobuf.Any`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Detail {
    #[prost(string, tag = "1")]
    pub(crate) kind: String,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) value: Vec<u8>,
}

/// `google.rpc.RetryInfo`.
#[derive(Clone, Copy, PartialEq, Message)]
struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    delay: Option<Delay>,
}

/// `google.protobuf.Duration`.
#[derive(Clone, Copy, PartialEq, Message)]
struct Delay {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanoseconds: i32,
}

impl Status {
    /// Returns the delay before a retry, if the response specifies one.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        let mut details = self.details.iter();
        let info = details.find(|it| it.kind.ends_with("/google.rpc.RetryInfo"))?;
        let delay = RetryInfo::decode(info.value.as_slice()).ok()?.delay?;
        let seconds = delay.seconds.try_into().ok()?;
        let nanoseconds = delay.nanoseconds.try_into().unwrap_or(0);
        Some(Duration::new(seconds, nanoseconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partial_success_counts_rejected_items() {
        let body = ExportAnswer {
            partial: Some(PartialSuccess {
                rejected: 3,
                said: "too old".into(),
            }),
        };
        let expected = Outcome::Accepted {
            rejected: 3,
            said: "too old".into(),
        };
        assert_eq!(accepted(&body.encode_to_vec()), expected);
        let none = Outcome::Accepted {
            rejected: 0,
            said: String::new(),
        };
        for body in [b"".as_slice(), b"{}", b"\xff\xff"] {
            assert_eq!(accepted(body), none, "{body:?}");
        }
    }

    #[test]
    fn retry_delay_is_found_in_the_details() {
        let info = RetryInfo {
            delay: Some(Delay {
                seconds: 2,
                nanoseconds: 500_000_000,
            }),
        };
        let detail = |kind: &str, value| Detail {
            kind: format!("type.googleapis.com/{kind}"),
            value,
        };
        let status = Status {
            code: 8,
            said: "busy".into(),
            details: vec![
                detail("google.rpc.ErrorInfo", vec![1]),
                detail("google.rpc.RetryInfo", info.encode_to_vec()),
            ],
        };
        assert_eq!(status.retry_after(), Some(Duration::from_millis(2500)));
        assert_eq!(Status::default().retry_after(), None);
    }
}
