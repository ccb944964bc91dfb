//! Tests that the pressure of groups is the kernel's own figure.

use std::fs;

use rustix::process::Pid;

use crate::support::affinity::{last_cpu, pin};
use crate::support::agent::Agent;
use crate::support::burner::Burner;
use crate::support::cgroup::Group;
use crate::support::{self, Part, wait_until};

const METRIC: &str = "container_resources_cpu_pressure_waiting_seconds_total";

#[test]
fn unit_pressure_matches_its_file_or_is_absent() {
    let _machine = support::shared_but(&[Part::LastCpu]);
    let agent = Agent::start(&["--interval", "200ms", "--names", "coroot"]);
    let group = Group::named(&format!(
        "noctule-test-{}-pressed.service",
        std::process::id()
    ));
    let burners = [(); 2].map(|()| Burner::within(&group));
    for burner in &burners {
        pin(Pid::from_raw(burner.pid() as i32), last_cpu());
    }
    let id = group.path();
    let labels = [("container_id", id.as_str()), ("kind", "some")];
    wait_until("the unit has series", || {
        let used = "container_resources_cpu_usage_seconds_total";
        agent.value(used, &labels[..1]).is_some()
    });
    let file = group.folder().join("cpu.pressure");
    if !file.exists() {
        let mut samples = agent.metrics().into_iter();
        assert!(!samples.any(|sample| sample.name.contains("_pressure_")));
        return;
    }
    let of_kernel = || {
        let text = fs::read_to_string(&file).expect("a file");
        let some = text.lines().next().expect("a line");
        let (_, us) = some.rsplit_once("total=").expect("a total");
        us.parse::<f64>().expect("a number") / 1e6
    };
    wait_until("both burners have waited", || of_kernel() > 1.0);
    let before = of_kernel();
    let mut shown = 0.0;
    wait_until("the agent has read the file", || {
        shown = agent.value(METRIC, &labels).unwrap_or(0.0);
        shown >= before
    });
    assert!(shown <= of_kernel(), "{shown}");
}
