//! Loads of a scene: this program runs again, with the name of a load in its environment.

use std::fs;
use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

/// Environment variable with the load.
pub(super) const VARIABLE: &str = "NOCTULE_SCENE_LOAD";

/// Runs a load if the environment requests one.
pub(crate) fn run_if_requested() -> Option<Result<()>> {
    let load = std::env::var(VARIABLE).ok()?;
    let words: Vec<&str> = load.split(' ').collect();
    Some(run(&words))
}

fn run(words: &[&str]) -> Result<()> {
    let number = |word: &str| word.parse::<u64>().context("parsing a number");
    match words {
        ["spin", threads] => {
            for _ in 1..number(threads)? {
                thread::spawn(|| spin_for(None));
            }
            spin_for(None);
        }
        ["burn", ms] => spin_for(Some(Duration::from_millis(number(ms)?))),
        ["bursts", on, off] => loop {
            spin_for(Some(Duration::from_micros(number(on)?)));
            thread::sleep(Duration::from_micros(number(off)?));
        },
        ["flood", cpu] => return flood(number(cpu)?),
        ["jobs", ms, folder] => return jobs(ms, Path::new(folder)),
        _ => return super::held_load::run(words),
    }
    Ok(())
}

fn spin_for(time: Option<Duration>) {
    let begin = Instant::now();
    while time.is_none_or(|time| begin.elapsed() < time) {
        std::hint::spin_loop();
    }
}

/// Sends datagrams over the loopback interface. The given CPU receives them in softirqs, at a rate
/// that activates its ksoftirqd. The caller must have its own network and mount namespaces.
fn flood(cpu: u64) -> Result<()> {
    let steering = "/sys/class/net/lo/queues/rx-0/rps_cpus";
    fs::write(steering, format!("{:x}", 1u64 << cpu)).context(steering)?;
    let socket = UdpSocket::bind("127.0.0.1:0").context("creating a socket")?;
    loop {
        // There is no receiver, so the next send can return an error.
        let _ = socket.send_to(&[0; 64], "127.0.0.1:9");
    }
}

/// Runs jobs one after the other on two lanes, each job in its own group below the directory.
fn jobs(ms: &str, folder: &Path) -> Result<()> {
    let run = |lane: u32| -> Result<()> {
        let own = std::env::current_exe().context("finding the path of this program")?;
        for number in 0.. {
            let group = folder.join(format!("job-{lane}-{number}"));
            fs::create_dir(&group).context("creating a group")?;
            let enter = format!(
                "echo $$ > '{}/cgroup.procs' && exec \"$0\"",
                group.display()
            );
            let mut job = Command::new("/bin/sh");
            job.args(["-c", &enter]).arg(&own);
            job.env(VARIABLE, format!("burn {ms}"))
                .status()
                .context("running a job")?;
            let _ = fs::remove_dir(&group);
        }
        Ok(())
    };
    thread::scope(|scope| {
        scope.spawn(|| run(1));
        run(2)
    })
}
