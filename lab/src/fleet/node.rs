//! Simulates nodes.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::Result;

/// The unit that slows down another one on every third node.
pub(super) const CULPRIT: &str = "noisy.service";

/// Blame of the culprit, in seconds per second.
const BLAME: f64 = 0.4;

/// A series of the agent.
struct Series {
    /// Name and labels; `\u{1}` marks where the name of the node is inserted.
    text: String,
    value: f64,
    /// Growth per second, or 0 for series that are not counters.
    rate: f64,
}

/// The series of a node.
pub(super) struct Template {
    series: Vec<Series>,
}

impl Template {
    /// Creates a template from two pages in the text format that are that many seconds apart.
    pub(super) fn new(first: &str, second: &str, seconds: f64) -> Self {
        let before: HashMap<&str, f64> = samples(first).collect();
        let is_counter = |text: &str| {
            let name = text.split('{').next().unwrap_or_default();
            let ends = ["_total", "_bucket", "_count", "_sum"];
            ends.iter().any(|end| name.ends_with(end))
        };
        let series = samples(second).map(|(text, value)| {
            let was = before.get(text).copied().unwrap_or(value);
            let rate = if is_counter(text) {
                (value - was).max(0.0) / seconds
            } else {
                0.0
            };
            Series {
                text: mark_node_labels(text),
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

    /// Returns the page of a node after that many seconds.
    fn page(&self, node: u32, seconds: f64) -> String {
        // 0.5 to 1.5 times the agent's load.
        let factor = 0.5 + f64::from(node.wrapping_mul(2_654_435_761) >> 16 & 1023) / 1023.0;
        let mut page = String::with_capacity(self.series.len() * 160);
        let suffix = format!("-n{node}");
        for series in &self.series {
            let value = series.value + series.rate * factor * seconds;
            let text = series.text.replace('\u{1}', &suffix);
            // Writing to a `String` cannot fail.
            let _ = writeln!(page, "{text} {value}");
        }
        if has_culprit(node) {
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

fn has_culprit(node: u32) -> bool {
    node.is_multiple_of(3)
}

/// Returns name with labels, and value, of each sample.
fn samples(page: &str) -> impl Iterator<Item = (&str, f64)> {
    let lines = page.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| {
        let (text, value) = line.rsplit_once(' ')?;
        Some((text, value.parse().ok()?))
    })
}

/// Marks the labels whose values belong to one node: ids and pods.
fn mark_node_labels(text: &str) -> String {
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

/// The nodes, each of which is a path of one server. The server also receives the alerts.
pub(super) struct Nodes {
    address: String,
    count: u32,
    alerted: Arc<AtomicBool>,
}

impl Nodes {
    /// Starts a server on its own threads that runs until the process ends.
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
                // An error affects only the response to this scraper.
                thread::spawn(move || server.answer(stream).ok());
            }
        });
        Ok(Self {
            address,
            count,
            alerted,
        })
    }

    /// Returns the address for alerts.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Whether an alert names the culprit.
    pub(super) fn has_alerted(&self) -> bool {
        self.alerted.load(Ordering::Relaxed)
    }

    /// Returns the number of nodes with the culprit.
    pub(super) fn culprit_nodes(&self) -> usize {
        (0..self.count).filter(|node| has_culprit(*node)).count()
    }

    /// Returns the scrape configuration of the Prometheus server.
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
    fn nodes_grow_like_the_recording_under_own_names() {
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
    fn every_third_node_has_the_culprit() {
        let template = Template::new(FIRST, SECOND, 10.0);
        for node in 0..9 {
            let page = template.page(node, 10.0);
            assert_eq!(page.contains(CULPRIT), node % 3 == 0, "{node}");
        }
        assert!(template.page(3, 10.0).contains("} 4\n"));
    }
}
