//! Runs a real Prometheus that scrapes the agent, and checks the samples that it received.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::http::{free_address, get, percent_encode};

/// Scrape interval.
const SCRAPE_SECONDS: u64 = 5;

/// A Prometheus server that is killed on drop.
pub(super) struct Prometheus {
    child: Child,
    address: String,
    began: Instant,
}

impl Prometheus {
    /// Starts a server that scrapes this agent.
    pub(super) fn start(agent: &str, folder: &Path) -> Result<Self> {
        let config = folder.join("prometheus.yml");
        fs::write(
            &config,
            format!(
                "global: {{scrape_interval: {SCRAPE_SECONDS}s, scrape_timeout: {SCRAPE_SECONDS}s}}\n\
                 scrape_configs: [{{job_name: noctule, static_configs: [{{targets: ['{agent}']}}]}}]\n"
            ),
        )?;
        let address = free_address()?;
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                folder.join("tsdb").display()
            ))
            .arg(format!("--web.listen-address={address}"))
            .arg("--log.level=error")
            .stdin(Stdio::null())
            .spawn()
            .context("starting prometheus (Debian: apt install prometheus)")?;
        let this = Self {
            child,
            address,
            began: Instant::now(),
        };
        for _ in 0..600 {
            if get(&this.address, "/-/ready").is_ok() {
                return Ok(this);
            }
            thread::sleep(Duration::from_millis(100));
        }
        bail!("Prometheus is not ready after a minute")
    }

    /// Returns one line per problem with the received samples, and appends statistics to `summary`.
    pub(super) fn judge(&self, summary: &mut String) -> Result<Vec<String>> {
        let span = format!("{}s", self.began.elapsed().as_secs());
        let mut wrong = Vec::new();
        // Rejected samples, according to Prometheus's own counters.
        let own = get(&self.address, "/metrics")?;
        for rejected in [
            "prometheus_target_scrapes_sample_duplicate_timestamp_total",
            "prometheus_target_scrapes_sample_out_of_order_total",
            "prometheus_target_scrapes_sample_out_of_bounds_total",
        ] {
            let line = own.lines().find_map(|line| line.strip_prefix(rejected));
            let count: f64 = line
                .with_context(|| format!("no metric {rejected}"))?
                .trim()
                .parse()?;
            if count > 0.0 {
                wrong.push(format!("{rejected}: {count}"));
            }
        }
        let counters = self.counters()?;
        ensure!(
            counters.len() > 20,
            "only {} counters arrived",
            counters.len()
        );
        // One query per counter, because all series together exceed the sample limit of a query.
        for name in &counters {
            let resets = self.number(&format!("sum(resets({name}{{job=\"noctule\"}}[{span}]))"))?;
            if resets > 0.0 {
                wrong.push(format!("{name}: {resets} resets"));
            }
        }
        let scrapes = self.number(&format!(
            "sum(count_over_time(up{{job=\"noctule\"}}[{span}]))"
        ))?;
        let good = self.number(&format!(
            "sum(sum_over_time(up{{job=\"noctule\"}}[{span}]))"
        ))?;
        let samples = format!("sum_over_time(scrape_samples_scraped{{job=\"noctule\"}}[{span}])");
        let added = format!("sum_over_time(scrape_series_added{{job=\"noctule\"}}[{span}])");
        writeln!(
            summary,
            "Prometheus: {good} of {scrapes} scrapes, {} samples of {} series, {} names of counters",
            self.number(&samples)?,
            self.number(&added)?,
            counters.len()
        )?;
        Ok(wrong)
    }

    /// Returns the sample names of counters and histograms.
    fn counters(&self) -> Result<Vec<String>> {
        let path = "/api/v1/label/__name__/values?match[]=";
        let answer = get(
            &self.address,
            &format!("{path}{}", percent_encode("{job=\"noctule\"}")),
        )?;
        let answer: Value = serde_json::from_str(&answer)?;
        let names = answer["data"]
            .as_array()
            .context("the answer has no names")?
            .iter();
        let names = names.filter_map(|name| name.as_str().map(str::to_owned));
        let ends = ["_total", "_bucket", "_count", "_sum"];
        Ok(names
            .filter(|name| ends.iter().any(|end| name.ends_with(end)))
            .collect())
    }

    /// Returns the single number of a query result.
    fn number(&self, query: &str) -> Result<f64> {
        let path = format!("/api/v1/query?query={}", percent_encode(query));
        let answer: Value = serde_json::from_str(&get(&self.address, &path)?)?;
        let value = answer["data"]["result"][0]["value"][1].as_str();
        let value = value.with_context(|| format!("{query}: empty result"))?;
        Ok(value.parse()?)
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // The data is removed with the directory. The server may have exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
