//! A real Prometheus that scrapes the agent meanwhile, and what it says of the samples.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::http::{encoded, free_address, get};

/// Between two scrapes.
const SCRAPE_SECONDS: u64 = 5;

/// The server; ended when it is dropped.
pub(super) struct Prometheus {
    child: Child,
    address: String,
    began: Instant,
}

impl Prometheus {
    /// Starts one that scrapes this agent.
    pub(super) fn scraping(agent: &str, folder: &Path) -> Result<Self> {
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
            .context("prometheus (Debian: apt install prometheus)")?;
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

    /// What is wrong with the samples that it got, a line for each; `told` gets what they were.
    pub(super) fn judge(&self, told: &mut String) -> Result<Vec<String>> {
        let span = format!("{}s", self.began.elapsed().as_secs());
        let mut wrong = Vec::new();
        // What it refused of a scrape, by its own counters.
        let own = get(&self.address, "/metrics")?;
        for refused in [
            "prometheus_target_scrapes_sample_duplicate_timestamp_total",
            "prometheus_target_scrapes_sample_out_of_order_total",
            "prometheus_target_scrapes_sample_out_of_bounds_total",
        ] {
            let line = own.lines().find_map(|line| line.strip_prefix(refused));
            let count: f64 = line
                .with_context(|| format!("no {refused}"))?
                .trim()
                .parse()?;
            if count > 0.0 {
                wrong.push(format!("{refused}: {count}"));
            }
        }
        let counters = self.counters()?;
        ensure!(counters.len() > 20, "{} counters arrived", counters.len());
        // One query for each: all series at once are more samples than one query may have.
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
            told,
            "Prometheus: {good} of {scrapes} scrapes, {} samples of {} series, {} names of counters",
            self.number(&samples)?,
            self.number(&added)?,
            counters.len()
        )?;
        Ok(wrong)
    }

    /// The names of the samples of counters and histograms.
    fn counters(&self) -> Result<Vec<String>> {
        let path = "/api/v1/label/__name__/values?match[]=";
        let answer = get(
            &self.address,
            &format!("{path}{}", encoded("{job=\"noctule\"}")),
        )?;
        let answer: Value = serde_json::from_str(&answer)?;
        let names = answer["data"].as_array().context("no names")?.iter();
        let names = names.filter_map(|name| name.as_str().map(str::to_owned));
        let ends = ["_total", "_bucket", "_count", "_sum"];
        Ok(names
            .filter(|name| ends.iter().any(|end| name.ends_with(end)))
            .collect())
    }

    /// The only number of an answer.
    fn number(&self, query: &str) -> Result<f64> {
        let path = format!("/api/v1/query?query={}", encoded(query));
        let answer: Value = serde_json::from_str(&get(&self.address, &path)?)?;
        let value = answer["data"]["result"][0]["value"][1].as_str();
        let value = value.with_context(|| format!("{query}: no answer"))?;
        Ok(value.parse()?)
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // Its data goes with the folder. It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
