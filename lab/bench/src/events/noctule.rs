//! Parses the agent's own lines, which docs/json.md describes.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde_json::Value;

use super::lines::{ARGUMENT, unspecified};
use super::{Arguments, Change, End, Ends, Event, Flags, Reported};

/// Lost events by name.
pub(crate) type Gap = BTreeMap<String, u64>;

/// Parses a line. Returns `None` for events without a variant here.
pub(super) fn read(line: &str) -> Option<Reported> {
    let value: Value = serde_json::from_str(line).ok()?;
    // Objects older than the agent are not events.
    if value["noctule.origin"] == "existing" {
        return None;
    }
    Some(Reported {
        at: value["time_unix_nano"].as_u64(),
        netns: value["netns.cookie"].as_u64(),
        event: event(&value)?,
    })
}

fn event(value: &Value) -> Option<Event> {
    let number = |key: &str| value[key].as_u64()?.try_into().ok();
    let pid = || number("process.pid");
    let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let name = || text("process.executable.name");
    let parent = number("process.parent_pid");
    let tcp = |change| Some(Event::Tcp(change, ends(value)?));
    match value["event.name"].as_str()? {
        "process.start" => Some(Event::Start {
            pid: pid()?,
            parent,
        }),
        "process.exec" => Some(Event::Exec {
            pid: pid()?,
            parent,
            name: name(),
            arguments: arguments(value),
        }),
        "process.exit" => Some(Event::Exit {
            pid: pid()?,
            parent,
            name: name(),
            end: match value["process.exit.signal"].as_i64() {
                Some(signal) => End::Signal(signal),
                None => End::Code(value["process.exit.code"].as_i64()?),
            },
        }),
        "oom.kill" => Some(Event::Oom { pid: pid()? }),
        "tcp.listen" => tcp(Change::Listen),
        "tcp.listen_close" => tcp(Change::ListenClose),
        "tcp.connect" => tcp(Change::Connect),
        "tcp.connect_failed" => tcp(Change::ConnectFailed),
        "tcp.accept" => tcp(Change::Accept),
        "tcp.close" => tcp(Change::Close),
        "tcp.retransmit" => Some(Event::Retransmit(value["tcp.segments"].as_u64()?)),
        "file.open" => Some(Event::Open {
            pid: pid()?,
            path: text("file.path"),
            flags: Flags::default(),
            failed: value["error.errno"].is_number(),
        }),
        "gap" => {
            let lost = value["lost"].as_object()?.iter();
            let one = |(name, count): (&String, &Value)| Some((name.clone(), count.as_u64()?));
            Some(Event::Gap(lost.filter_map(one).collect()))
        }
        _ => None,
    }
}

fn arguments(value: &Value) -> Arguments {
    let words = value["process.command_args"].as_array();
    let words = words.into_iter().flatten().skip(1);
    let words: Vec<&str> = words.filter_map(Value::as_str).collect();
    let long = words.iter().any(|word| word.len() >= ARGUMENT);
    Arguments {
        words: words.join(" ").trim_end().to_owned(),
        // Peers cut long arguments.
        truncated: long || value["process.command_args.truncated"] == true,
    }
}

fn ends(value: &Value) -> Option<Ends> {
    let ipv6 = value["network.type"] == "ipv6";
    let end = |which: &str| {
        let address = value[format!("network.{which}.address")].as_str();
        let address =
            address.map_or(Some(unspecified(ipv6)), |text| text.parse::<IpAddr>().ok())?;
        let port = value[format!("network.{which}.port")].as_u64().unwrap_or(0);
        Some((address, port.try_into().ok()?))
    };
    Some(Ends::new(end("local")?, end("peer")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_keys_are_parsed() {
        let line = r#"{"time_unix_nano":7,"event.name":"process.exec","process.pid":3,
            "process.executable.name":"sh","process.command_args":["sh","-c","true"]}"#;
        let reported = read(line).expect("an event");
        assert_eq!(reported.at, Some(7));
        let arguments = Arguments {
            words: "-c true".into(),
            truncated: false,
        };
        let expected = Event::Exec {
            pid: 3,
            parent: None,
            name: "sh".into(),
            arguments,
        };
        assert_eq!(reported.event, expected);
        let gap = read(r#"{"event.name":"gap","lost":{"file.open":3}}"#).expect("an event");
        assert_eq!(gap.event, Event::Gap(Gap::from([("file.open".into(), 3)])));
    }

    #[test]
    fn listener_has_no_remote_end() {
        let line = r#"{"event.name":"tcp.listen","network.type":"ipv6",
            "network.local.address":"::1","network.local.port":80,"netns.cookie":5}"#;
        let reported = read(line).expect("an event");
        let Event::Tcp(Change::Listen, ends) = reported.event else {
            panic!("{reported:?}");
        };
        assert_eq!(ends.local.to_string(), "[::1]:80");
        assert_eq!(ends.peer.to_string(), "[::]:0");
        assert_eq!(reported.netns, Some(5));
    }

    #[test]
    fn existing_objects_are_not_events() {
        let line = r#"{"event.name":"process.start","process.pid":3,"noctule.origin":"existing"}"#;
        assert_eq!(read(line), None);
    }
}
