//! `noctule top` on a synthetic node: to look at the view without a kernel.
//!
//! `cargo run -p noctule-tui --example demo [batches]` ends after that many batches, if given.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;
use std::{env, io, thread};

use noctule_model::*;
use noctule_tui::{Options, run};

const TICK: Duration = Duration::from_secs(1);

fn main() -> io::Result<()> {
    let count = env::args().nth(1).and_then(|n| n.parse().ok());
    let (sender, batches) = sync_channel(1);
    thread::spawn(move || send(&sender, count.unwrap_or(u64::MAX)));
    let options = Options {
        level: Level::Process,
        interval: TICK,
        hostname: "demo".into(),
        color: env::var_os("NO_COLOR").is_none(),
    };
    let end = run(batches, &options, &AtomicBool::new(false))?;
    println!("{end:?}");
    Ok(())
}

fn send(sender: &SyncSender<Batch>, count: u64) {
    let mut batch = start();
    for tick in 0..count {
        step(&mut batch, tick);
        if sender.send(batch.clone()).is_err() {
            return;
        }
        thread::sleep(if tick < 40 {
            Duration::from_millis(20)
        } else {
            TICK
        });
    }
    if env::var_os("DEMO_PANIC").is_some() {
        panic!("on purpose");
    }
}

const PATHS: [&str; 8] = [
    "/",
    "/init.scope",
    "/system.slice/nginx.service",
    "/system.slice/postgresql@16-main.service",
    "/user.slice/user-1000.slice/session-3.scope",
    "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1f3c.slice/cri-containerd-4e1d.scope",
    "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1f3c.slice/cri-containerd-77aa.scope",
    "/system.slice/日本語\x1b[31m.service",
];

fn owner(i: usize) -> Owner {
    let path = PATHS[i];
    let name = path.rsplit('/').next().unwrap_or_default();
    let mut owner = Owner {
        path: path.into(),
        ..Owner::unknown(CgroupId(i as u64 + 1))
    };
    owner.unit = name.ends_with("service").then(|| name.to_owned());
    if name.starts_with("cri") {
        owner.container = Some(Container {
            id: name[15..19].repeat(16),
            runtime: Runtime::Containerd,
            role: ContainerRole::Workload,
            name: (i == 5).then(|| "shop-frontend".into()),
            chain: vec![],
        });
        owner.pod = Some(Pod {
            uid: "1f3c0b1e-0000-4000-8000-000000000001".into(),
            qos: "burstable",
            name: Some("shop-7d9f".into()),
            namespace: Some("web".into()),
        });
    }
    owner
}

fn start() -> Batch {
    let owners: Vec<Arc<Owner>> = (0..PATHS.len()).map(|i| Arc::new(owner(i))).collect();
    let names = [
        "systemd",
        "kthreadd",
        "kworker/3:1-events",
        "nginx",
        "nginx",
        "postgres",
        "bash",
        "cargo",
        "rustc",
        "shop",
        "日本語サーバ",
        "e\x1b[31mvil",
        "node",
    ];
    let parents = [0, 0, 2, 1, 4, 1, 1, 7, 8, 1, 1, 1, 10];
    let groups = [1, 0, 0, 2, 2, 3, 4, 4, 4, 5, 7, 7, 6];
    let processes = (0..60).map(|i| {
        let kind = i % names.len();
        ProcessRow {
            id: ProcessId {
                pid: i as u32 + 1,
                start_ns: 1_000_000 * i as u64,
            },
            parent_pid: parents[kind],
            comm: Comm::new(names[kind].as_bytes()),
            cgroup: owners[groups[kind]].cgroup,
            owner: Some(owners[groups[kind]].clone()),
            kernel_thread: kind == 1 || kind == 2,
            ..ProcessRow::default()
        }
    });
    Batch {
        boot_unix_ns: 1_760_000_000_000_000_000,
        time_unix_ns: 1_760_086_400_000_000_000,
        node: Node {
            cpus: 8,
            nominal_hertz: Some(2_400_000_000),
            ..Node::default()
        },
        measured: Counter::all().collect(),
        processes: processes.collect(),
        cgroups: owners
            .iter()
            .map(|o| CgroupRow {
                id: o.cgroup,
                owner: Some(o.clone()),
                ..CgroupRow::default()
            })
            .collect(),
        features: [Feature {
            name: "energy",
            state: FeatureState::Off,
            reason: "no RAPL".into(),
            mend: String::new(),
        }]
        .into(),
        ..Batch::default()
    }
}

fn step(batch: &mut Batch, tick: u64) {
    let ns = TICK.as_nanos() as u64;
    batch.sequence += 1;
    batch.taken_ns += ns;
    batch.time_unix_ns += ns;
    let mut total = Counters::default();
    for (i, row) in batch.processes.iter_mut().enumerate() {
        let wave = ((tick as f64 / (3.0 + i as f64)).sin() + 1.0) / 2.0;
        if i > 12 && (tick + i as u64 * 7) % 23 != 0 {
            continue;
        }
        let used = (wave * 2e9 / (1.0 + i as f64 * 1.5)) as u64;
        let mut grown = Counters::default();
        grown[Counter::CpuTime] = used;
        grown[Counter::Cycles] = used * 3;
        grown[Counter::ReferenceCycles] = used * 24 / 10;
        grown[Counter::Instructions] = used * (i as u64 % 4 + 1);
        grown[Counter::CacheMisses] = used / 900;
        grown[Counter::PageReads] = used / 100_000;
        grown[Counter::SwitchesVoluntary] = 100 + i as u64;
        grown[Counter::SwitchesPreempted] = i as u64;
        grown[Counter::Softirq(3)] = used / 1_000_000;
        row.counters += &grown;
        total += &grown;
        let group = batch.cgroups.iter_mut().find(|g| g.id == row.cgroup);
        group.expect("made with it").counters += &grown;
    }
    let node = &mut batch.node;
    node.elapsed_ns += 8 * ns;
    node.idle_ns += 8 * ns - total[Counter::CpuTime] - ns / 20;
    node.total += &total;
    batch.agent.cpu_ns += 3_100_000;
    batch.agent.resident_bytes = 19_500_000;
    batch.agent.programs = Some(vec![ProgramCost {
        run_ns: 41_200,
        runs: 100,
        ..ProgramCost::default()
    }]);
    batch.losses = vec![Loss {
        kind: "exit_record",
        place: "switch.exits",
        count: tick / 40 * 12,
    }];
}
