//! Implements `cargo lab fleet`: simulates many nodes, whose data is derived from a recording, with
//! a real VictoriaMetrics.
//!
//! It reads the `/metrics` page of a recording at two points in time. Each simulated node has the
//! same series. Names that belong to one node are changed per node. The counters of a node grow
//! like the counters of the recorded node, multiplied by a factor per node. On every third node,
//! one unit slows down another. The rules of `deploy/fleet` must find it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::http::{self, get};

mod node;

use node::{Nodes, Template};

/// Simulate a fleet with VictoriaMetrics, and print its cost and answers
///
/// The nodes are derived from a recording of at least 90 seconds (`noctule record`). Needs
/// victoria-metrics and vmalert (Debian: victoria-metrics).
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Number of simulated nodes. The alert needs one culprit on more than five nodes; every third
    /// node has it
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(16..=10_000))]
    nodes: u32,
    /// Duration of scraping in seconds; each node is scraped every 15 seconds
    #[arg(long, default_value_t = 180)]
    seconds: u64,
    /// The recording from which the nodes are derived
    #[arg(long, value_name = "DIR")]
    tape: PathBuf,
    /// Number of containers, units and other groups (each) per node with their own series
    #[arg(long, default_value_t = 12)]
    rows: u32,
    /// The noctule binary that reads the recording
    #[arg(long, value_name = "FILE", default_value = "target/release/noctule")]
    binary: PathBuf,
}

const SCRAPE_SECONDS: u64 = 15;

/// A child process that is killed on drop.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn run(root: &Path, args: &Args) -> Result<ExitCode> {
    let folder = std::env::temp_dir().join(format!("noctule-fleet-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let figures = simulate(root, args, &folder);
    // A leftover directory only wastes space.
    let _ = fs::remove_dir_all(&folder);
    figures?;
    Ok(ExitCode::SUCCESS)
}

/// Builds the template from the last minute of the recording. Both pages start at the same time, so
/// that the same rows have series.
fn template(args: &Args, folder: &Path) -> Result<Template> {
    let config = folder.join("noctule.toml");
    fs::write(
        &config,
        format!("[metrics]\nsubject_rows = {}\n", args.rows),
    )?;
    let first = recorded_page(args, &config, 30)?;
    let second = recorded_page(args, &config, 90)?;
    Ok(Template::new(&first, &second, 60.0))
}

/// Returns the page `/metrics` of the moment `seconds` after a start time. The start time is 90
/// seconds before the end of the recording.
fn recorded_page(args: &Args, config: &Path, seconds: u32) -> Result<String> {
    let address = http::free_address()?;
    let mut command = Command::new(&args.binary);
    command.args(["run", "--at=-90s", &format!("--for={seconds}s")]);
    command.arg("--listen").arg(&address);
    command
        .arg("--config")
        .arg(config)
        .arg("--from")
        .arg(&args.tape);
    let _agent = start(command, "build noctule, or pass its path with --binary")?;
    wait_until_ready(&address, "/livez")
        .with_context(|| format!("reading {}", args.tape.display()))?;
    get(&address, "/metrics")
}

fn simulate(root: &Path, args: &Args, folder: &Path) -> Result<()> {
    let template = template(args, folder)?;
    let series = template.series();
    say(&format!(
        "a node has {series} series, of which {} grow",
        template.growing()
    ));
    let nodes = Nodes::serve(template, args.nodes)?;
    let scrape = folder.join("scrape.yml");
    fs::write(&scrape, nodes.scrape_configuration(SCRAPE_SECONDS))?;
    let rules = fs::read_to_string(root.join("deploy/fleet/rules.yml"))?;
    let rules_file = folder.join("rules.yml");
    // Evaluate often enough for a short run.
    fs::write(
        &rules_file,
        rules
            .replace("interval: 1m", "interval: 15s")
            .replace("for: 15m", "for: 0s"),
    )?;
    let (store, alert) = (http::free_address()?, http::free_address()?);
    let flag = |name: &str, value: &dyn std::fmt::Display| format!("-{name}={value}");
    let _store = start_debian(
        "victoria-metrics",
        &[
            flag("storageDataPath", &folder.join("data").display()),
            flag("httpListenAddr", &store),
            flag("promscrape.config", &scrape.display()),
            flag("search.latencyOffset", &"1s"),
            // A query over all series of all nodes exceeds the default limit of 300,000.
            flag("search.maxUniqueTimeseries", &10_000_000),
            flag("search.maxQueryDuration", &"10m"),
            flag("loggerLevel", &"ERROR"),
        ],
    )?;
    wait_until_ready(&store, "/health")?;
    let url = format!("http://{store}");
    let _alert = start_debian(
        "vmalert",
        &[
            flag("rule", &rules_file.display()),
            flag("datasource.url", &url),
            flag("remoteWrite.url", &url),
            flag("notifier.url", &format_args!("http://{}", nodes.address())),
            flag("httpListenAddr", &alert),
            flag("loggerLevel", &"ERROR"),
        ],
    )?;
    thread::sleep(Duration::from_secs(args.seconds));
    print_cost(&store, args)?;
    check_answers(&store, nodes.culprit_nodes())?;
    ensure!(nodes.has_alerted(), "no alert names the culprit");
    say("the alert NoctuleFleetNoisyNeighbour was sent");
    Ok(())
}

fn start_debian(program: &str, args: &[String]) -> Result<Running> {
    let mut command = Command::new(program);
    command.args(args);
    start(command, "apt install victoria-metrics")
}

fn start(mut command: Command, hint: &str) -> Result<Running> {
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
    let program = command.get_program().to_string_lossy();
    let child = child.with_context(|| format!("{program}: {hint}"))?;
    Ok(Running(child))
}

fn wait_until_ready(address: &str, path: &str) -> Result<()> {
    for _ in 0..600 {
        if get(address, path).is_ok() {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(100));
    }
    bail!("no answer from {address}")
}

/// Runs a query. Returns labels and value of each row, and the duration.
fn query(address: &str, query: &str) -> Result<(Vec<(Value, f64)>, Duration)> {
    let began = Instant::now();
    let path = format!(
        "/api/v1/query?nocache=1&query={}",
        http::percent_encode(query)
    );
    let answer: Value = serde_json::from_str(&get(address, &path)?)?;
    let took = began.elapsed();
    let rows = answer["data"]["result"]
        .as_array()
        .context("the answer has no result")?;
    let row = |row: &Value| {
        let value = row["value"][1].as_str()?.parse().ok()?;
        Some((row["metric"].clone(), value))
    };
    Ok((rows.iter().filter_map(row).collect(), took))
}

fn single(address: &str, text: &str) -> Result<f64> {
    let (rows, _) = query(address, text)?;
    let row = rows
        .first()
        .with_context(|| format!("{text}: empty result"))?;
    Ok(row.1)
}

fn print_cost(store: &str, args: &Args) -> Result<()> {
    let up = single(store, "count(up{job=\"noctule\"} == 1)")?;
    let samples = single(store, "sum(scrape_samples_scraped{job=\"noctule\"})")?;
    let longest = single(store, "max(scrape_duration_seconds{job=\"noctule\"})")?;
    get(store, "/internal/force_flush")?;
    get(store, "/internal/force_merge")?;
    thread::sleep(Duration::from_secs(5));
    let own = get(store, "/metrics")?;
    let sum = |name: &str, part: &str| -> f64 {
        let lines = own
            .lines()
            .filter(|l| l.starts_with(name) && l.contains(part));
        lines
            .filter_map(|l| l.rsplit_once(' ')?.1.parse::<f64>().ok())
            .sum()
    };
    let rows = sum("vm_rows{", "storage/");
    let bytes = sum("vm_data_size_bytes{", "storage/");
    let index = sum("vm_data_size_bytes{", "indexdb");
    say(&format!("nodes: {up} of {} are up", args.nodes));
    // Each series has one sample per node.
    say(&format!("series: {samples}; longest scrape {longest:.3} s"));
    say(&format!(
        "samples: {:.0} per second",
        samples / SCRAPE_SECONDS as f64
    ));
    say(&format!(
        "on disk: {:.2} bytes per sample ({rows:.0} samples), {:.0} bytes of index per series",
        bytes / rows,
        index / samples
    ));
    let cpu = sum("process_cpu_seconds_total", "");
    say(&format!(
        "VictoriaMetrics: {:.0} MiB of memory, {:.2} CPUs",
        sum("process_resident_memory_bytes", "") / 1_048_576.0,
        cpu / args.seconds as f64
    ));
    Ok(())
}

/// Prints the results of the rules, and how long the same queries take without rules.
fn check_answers(store: &str, hurt: usize) -> Result<()> {
    let (rows, took) = query(
        store,
        "topk(3, fleet:noctule_culprit_nodes:count{culprit_kind!=\"kernel\"})",
    )?;
    say(&format!(
        "culprits on the most nodes (recorded, {took:.1?}):"
    ));
    for (labels, value) in &rows {
        say(&format!("  {value} nodes: {labels}"));
    }
    let found = rows
        .iter()
        .find(|(labels, _)| labels["culprit_unit"] == node::CULPRIT);
    let (_, nodes) = found.context("the rules did not find the simulated culprit")?;
    ensure!(
        *nodes as usize == hurt,
        "the rules found {nodes} of {hurt} nodes"
    );
    let recorded = |level: &str| {
        single(
            store,
            &format!("count({{__name__=~\"{level}:noctule_.*\"}})"),
        )
    };
    say(&format!(
        "recorded series: {} per node, {} of the fleet",
        recorded("instance")?,
        recorded("fleet")?
    ));
    let direct = "topk(3, sum by (culprit_kind, culprit_namespace, culprit_container, culprit_unit) \
        (rate({__name__=~\"noctule_(container|unit|cgroup)_sched_blame_seconds_total\", \
        culprit_kind!=\"other\"}[5m])))";
    let (_, took) = query(store, direct)?;
    say(&format!("the same query on the nodes' series: {took:.1?}"));
    let worst = "topk(5, sum by (instance) (rate(noctule_node_sched_wait_seconds_total[5m])))";
    let (_, took) = query(store, worst)?;
    say(&format!("worst nodes: {took:.1?}"));
    let cpu = "topk(10, sum by (unit) (rate({__name__=~\"noctule_(container|unit|cgroup)_cpu_seconds_total\"}[5m])))";
    let (_, took) = query(store, cpu)?;
    say(&format!("CPU time of units in the fleet: {took:.1?}"));
    Ok(())
}

fn say(line: &str) {
    use std::io::Write as _;
    // Stdout may be closed.
    let _ = writeln!(std::io::stdout(), "{line}");
}
