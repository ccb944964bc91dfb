//! Simulated nodes.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::Result;

/// The unit that makes another one wait on each third node.
pub(super) const CULPRIT: &str = "noisy.service";

/// How long the other waits behind it, in seconds for each second.
const BLAME: f64 = 0.4;

/// One series of the agent.
struct Series {
    /// Name and labels; `\u{1}` stands where the node is named.
    text: String,
    value: f64,
    /// For each second; 0 for what does not only go up.
    rate: f64,
}

/// What a node has.
pub(super) struct Template {
    series: Vec<Series>,
}

impl Template {
    /// From two pages in the text format, that many seconds apart.
    pub(super) fn new(first: &str, second: &str, seconds: f64) -> Self {
        let before: HashMap<&str, f64> = samples(first).collect();
        let rises = |text: &str| {
            let name = text.split('{').next().unwrap_or_default();
            let ends = ["_total", "_bucket", "_count", "_sum"];
            ends.iter().any(|end| name.ends_with(end))
        };
        let series = samples(second).map(|(text, value)| {
            let was = before.get(text).copied().unwrap_or(value);
            let rate = if rises(text) {
                (value - was).max(0.0) / seconds
            } else {
                0.0
            };
            Series {
                text: named(text),
                value,
                rate,
            }
        });
        Self {
            series: series.collect(),
        }
    }

    pub(super) fn series(&self) -> usize {
        self.series.len()
    }

    pub(super) fn growing(&self) -> usize {
        self.series
            .iter()
            .filter(|series| series.rate > 0.0)
            .count()
    }

    /// The page of a node after that many seconds.
    fn page(&self, node: u32, seconds: f64) -> String {
        // 0.5 to 1.5 of the agent's load.
        let factor = 0.5 + f64::from(node.wrapping_mul(2_654_435_761) >> 16 & 1023) / 1023.0;
        let mut page = String::with_capacity(self.series.len() * 160);
        let suffix = format!("-n{node}");
        for series in &self.series {
            let value = series.value + series.rate * factor * seconds;
            let text = series.text.replace('\u{1}', &suffix);
            // Writing to a string cannot fail.
            let _ = writeln!(page, "{text} {value}");
        }
        if is_hurt(node) {
            let _ = writeln!(
                page,
                "noctule_unit_sched_blame_seconds_total{{unit=\"web.service\",culprit=\"unit:{CULPRIT}\",\
                 culprit_kind=\"unit\",culprit_unit=\"{CULPRIT}\"}} {}",
                BLAME * seconds
            );
        }
        page
    }
}

fn is_hurt(node: u32) -> bool {
    node.is_multiple_of(3)
}

/// Name with labels, and value, of each sample.
fn samples(page: &str) -> impl Iterator<Item = (&str, f64)> {
    let lines = page.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| {
        let (text, value) = line.rsplit_once(' ')?;
        Some((text, value.parse().ok()?))
    })
}

/// Marks the ends of the labels that belong to one node: ids and pods.
fn named(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = ["container_id=\"", "pod=\"", "pod_uid=\""]
        .iter()
        .filter_map(|label| rest.find(label).map(|at| at + label.len()))
        .min()
    {
        let end = rest[at..].find('"').map_or(rest.len(), |end| at + end);
        out.push_str(&rest[..end]);
        out.push('\u{1}');
        rest = &rest[end..];
    }
    out.push_str(rest);
    out
}

/// The nodes, each at a path of one server, which also takes the alerts of the rules.
pub(super) struct Nodes {
    address: String,
    count: u32,
    alerted: Arc<AtomicBool>,
}

impl Nodes {
    /// Answers on threads of its own until the process ends.
    pub(super) fn serve(template: Template, count: u32) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?.to_string();
        let alerted = Arc::new(AtomicBool::new(false));
        let server = Arc::new(Server {
            template,
            began: Instant::now(),
            alerted: alerted.clone(),
        });
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let server = server.clone();
                // A scraper that goes away costs its answer.
                thread::spawn(move || server.answer(stream).ok());
            }
        });
        Ok(Self {
            address,
            count,
            alerted,
        })
    }

    /// Where alerts are to be sent.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Whether an alert names the culprit.
    pub(super) fn alerted(&self) -> bool {
        self.alerted.load(Ordering::Relaxed)
    }

    /// How many nodes have the culprit.
    pub(super) fn hurt(&self) -> usize {
        (0..self.count).filter(|node| is_hurt(*node)).count()
    }

    /// For the server that scrapes them.
    pub(super) fn scrape_configuration(&self, seconds: u64) -> String {
        let mut text = format!(
            "global: {{scrape_interval: {seconds}s}}\nscrape_configs:\n- job_name: noctule\n  \
             honor_labels: true\n  static_configs:\n"
        );
        for node in 0..self.count {
            let _ = writeln!(
                text,
                "  - {{targets: ['{}'], labels: {{__metrics_path__: /node/{node}/metrics, instance: node-{node}}}}}",
                self.address
            );
        }
        text
    }
}

struct Server {
    template: Template,
    began: Instant,
    alerted: Arc<AtomicBool>,
}

impl Server {
    fn answer(&self, mut stream: TcpStream) -> Result<()> {
        let mut reader = BufReader::new(stream.try_clone()?);
        loop {
            let (mut request, mut line, mut length) = (String::new(), String::new(), 0);
            if reader.read_line(&mut request)? == 0 {
                return Ok(());
            }
            while reader.read_line(&mut line)? > 2 {
                let header = line.to_ascii_lowercase();
                if let Some(value) = header.strip_prefix("content-length:") {
                    length = value.trim().parse()?;
                }
                line.clear();
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body)?;
            if String::from_utf8_lossy(&body).contains(CULPRIT) {
                self.alerted.store(true, Ordering::Relaxed);
            }
            let node = request.split('/').nth(2).and_then(|node| node.parse().ok());
            let page =
                node.map(|node| self.template.page(node, self.began.elapsed().as_secs_f64()));
            let page = page.unwrap_or_default();
            write!(
                stream,
                "HTTP/1.1 200 OK\r\ncontent-type: text/plain; version=0.0.4\r\ncontent-length: {}\r\n\r\n{page}",
                page.len()
            )?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str =
        "# HELP x y\na_total{container_id=\"c\",op=\"r\"} 10\ng{pod=\"p\",pod_uid=\"u\"} 3\n";
    const SECOND: &str =
        "a_total{container_id=\"c\",op=\"r\"} 30\ng{pod=\"p\",pod_uid=\"u\"} 5\nnew_total 7\n";

    #[test]
    fn a_node_grows_as_the_agent_did_under_names_of_its_own() {
        let template = Template::new(FIRST, SECOND, 10.0);
        assert_eq!((template.series(), template.growing()), (3, 1));
        let page = template.page(1, 0.0);
        assert_eq!(
            page,
            "a_total{container_id=\"c-n1\",op=\"r\"} 30\ng{pod=\"p-n1\",pod_uid=\"u-n1\"} 5\nnew_total 7\n"
        );
        let later = template.page(1, 100.0);
        let grown: f64 = samples(&later).next().expect("a sample").1;
        assert!((130.0..=330.0).contains(&grown), "{grown}");
    }

    #[test]
    fn each_third_node_has_the_culprit() {
        let template = Template::new(FIRST, SECOND, 10.0);
        for node in 0..9 {
            let page = template.page(node, 10.0);
            assert_eq!(page.contains(CULPRIT), node % 3 == 0, "{node}");
        }
        assert!(template.page(3, 10.0).contains("} 4\n"));
    }
}
