//! What runs in a scene: this program again, with the name of a load in its environment.

use std::fs;
use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

/// Names the load.
pub(super) const VARIABLE: &str = "NOCTULE_SCENE_LOAD";

/// Runs the load that the environment names, if it names one.
pub(crate) fn run_if_asked() -> Option<Result<()>> {
    let load = std::env::var(VARIABLE).ok()?;
    let words: Vec<&str> = load.split(' ').collect();
    Some(run(&words))
}

fn run(words: &[&str]) -> Result<()> {
    let number = |word: &str| word.parse::<u64>().context("a number");
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
        _ => bail!("no load is called {words:?}"),
    }
    Ok(())
}

fn spin_for(time: Option<Duration>) {
    let begin = Instant::now();
    while time.is_none_or(|time| begin.elapsed() < time) {
        std::hint::spin_loop();
    }
}

/// Sends datagrams to itself, whose receiving side is done by the softirqs of another CPU: so many that
/// its ksoftirqd has to help. It is in a network and a mount namespace of its own.
fn flood(cpu: u64) -> Result<()> {
    let steered = "/sys/class/net/lo/queues/rx-0/rps_cpus";
    fs::write(steered, format!("{:x}", 1u64 << cpu)).context(steered)?;
    let socket = UdpSocket::bind("127.0.0.1:0").context("a socket")?;
    loop {
        // Nobody listens: what comes back is an error of the next send.
        let _ = socket.send_to(&[0; 64], "127.0.0.1:9");
    }
}

/// Job after job, each in a group of its own below the folder, two at a time.
fn jobs(ms: &str, folder: &Path) -> Result<()> {
    let run = |lane: u32| -> Result<()> {
        let own = std::env::current_exe().context("the path of this program")?;
        for number in 0.. {
            let group = folder.join(format!("job-{lane}-{number}"));
            fs::create_dir(&group).context("a group")?;
            let enter = format!(
                "echo $$ > '{}/cgroup.procs' && exec \"$0\"",
                group.display()
            );
            let mut job = Command::new("/bin/sh");
            job.args(["-c", &enter]).arg(&own);
            job.env(VARIABLE, format!("burn {ms}"))
                .status()
                .context("a job")?;
            let _ = fs::remove_dir(&group);
        }
        Ok(())
    };
    thread::scope(|scope| {
        scope.spawn(|| run(1));
        run(2)
    })
}
