//! A simulated node, and functions to drive and read its screen.

use std::sync::Arc;
use std::time::Duration;

use noctule_analysis::{Row, Selection, Thresholds};
use noctule_model::{
    Batch, Blame, BlameRow, Cause, CgroupId, CgroupRow, Comm, Container, ContainerRole, Counter,
    Counters, CpuRow, CpuWeight, Feature, FeatureId, FeatureState, Group, Histogram, Level,
    Measured, Node, Owner, Pod, ProcessId, ProcessRow, Rivals, Runtime, WaitRow, Waiting,
};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::{Cell, CellWidth as _};
use ratatui::crossterm::event::KeyCode;
use ratatui::layout::Size;
use ratatui::style::{Color, Modifier};

use crate::draw::{self, pane};
use crate::state::keys::Press;
use crate::state::{About, Files, Options, View};
use crate::state::{App, Input};

/// Length of a tick in nanoseconds.
pub(crate) const TICK: u64 = 1_000_000_000;

/// A node with four CPUs. Time passes only when the test calls [`Fake::tick`].
#[derive(Clone)]
pub(crate) struct Fake {
    pub(crate) batch: Batch,
}

impl Fake {
    /// Creates a node on which nothing runs yet. Every counter is measured.
    pub(crate) fn new() -> Self {
        let node = Node {
            cpus: 4,
            nominal_hertz: Some(2_000_000_000),
            ..Node::default()
        };
        let mut batch = Batch {
            boot_unix_ns: 1_767_225_600 * TICK,
            time_unix_ns: 1_767_268_800 * TICK,
            node,
            measured: Counter::all().collect(),
            ..Batch::default()
        };
        batch.agent.resident_bytes = 19_500_000;
        Self { batch }
    }

    /// Adds a process. The group of a process is created with its first process.
    pub(crate) fn process(mut self, pid: u32, parent: u32, comm: &str, path: &str) -> Self {
        let owner = self.group(path);
        self.batch.processes.push(ProcessRow {
            id: ProcessId {
                pid,
                start_ns: u64::from(pid) * TICK,
            },
            parent_pid: parent,
            comm: Comm::new(comm.as_bytes()),
            cgroup: owner.cgroup,
            owner: Some(owner),
            kernel_thread: parent == 2 || pid == 2,
            ..ProcessRow::default()
        });
        self
    }

    /// Marks every counter except CPU time as not measured.
    pub(crate) fn unmeasured(mut self) -> Self {
        self.batch.measured = Measured::NONE.with(Counter::CpuTime);
        self
    }

    /// Adds a feature in the given state.
    pub(crate) fn off(self, id: FeatureId, state: FeatureState) -> Self {
        self.off_with_fix(id, state, "")
    }

    /// Adds a feature in the given state, with advice on how to enable it.
    pub(crate) fn off_with_fix(mut self, id: FeatureId, state: FeatureState, mend: &str) -> Self {
        let feature = Feature {
            id,
            state,
            reason: "made up".into(),
            mend: mend.into(),
        };
        let features = self.batch.features.iter().cloned().chain([feature]);
        self.batch.features = features.collect();
        self
    }

    /// Adds `count` waits of `victim` for `culprit`, each of `each` nanoseconds, to the next
    /// second.
    pub(crate) fn behind(&mut self, victim: &str, culprit: &str, count: u64, each: u64) {
        let [victim, culprit] = [victim, culprit].map(|path| self.group(path).cgroup);
        let wait_ns = count * each;
        self.waited(victim, count, each);
        self.row(victim).counters[Counter::Wait(Cause::Neighbour)] += wait_ns;
        let (victim, culprit) = (Group::Cgroup(victim), Group::Cgroup(culprit));
        let blames = &mut self.batch.blames;
        let known = blames
            .iter()
            .position(|row| (row.victim, row.culprit) == (victim, culprit));
        let at = known.unwrap_or_else(|| {
            blames.push(BlameRow {
                victim,
                culprit,
                blame: Blame::default(),
            });
            blames.len() - 1
        });
        blames[at].blame += &Blame {
            wait_ns,
            preemptions: count / 3,
        };
    }

    /// Adds CPU time of these groups, and steal time, to the next second.
    pub(crate) fn on_cpu(&mut self, cpu: u32, steal_ns: u64, holders: &[(&str, u64)]) {
        let groups = holders.iter();
        let groups: Vec<_> = groups
            .map(|(path, ns)| (self.group(path).cgroup, *ns))
            .collect();
        let holders = groups.iter().map(|(id, ns)| (Group::Cgroup(*id), *ns));
        let cpus = &mut self.batch.cpus;
        let at = cpus.partition_point(|row| row.cpu < cpu);
        if cpus.get(at).is_none_or(|row| row.cpu != cpu) {
            let row = CpuRow {
                cpu,
                steal_ns: Some(0),
                ..CpuRow::default()
            };
            cpus.insert(at, row);
        }
        let row = &mut cpus[at];
        row.holders = holders.collect();
        let busy = steal_ns + groups.iter().map(|(_, ns)| ns).sum::<u64>();
        row.elapsed_ns += TICK;
        row.idle_ns += TICK - busy;
        row.steal_ns = row.steal_ns.map(|ns| ns + steal_ns);
    }

    /// Adds waits with a cause other than a neighbour to the next second.
    pub(crate) fn waits(&mut self, group: &str, cause: Cause, count: u64, each: u64) {
        let group = self.group(group).cgroup;
        self.waited(group, count, each);
        let counters = &mut self.row(group).counters;
        counters[Counter::Wait(cause)] += count * each;
        if cause == Cause::Throttle {
            counters[Counter::SwitchesThrottled] += count;
        }
    }

    /// Sets the group's number of waiting threads and their longest wait, starting with the next
    /// batch.
    pub(crate) fn waits_now(&mut self, group: &str, threads: u64, longest_ns: u64) {
        let group = self.group(group).cgroup;
        self.row(group).waiting = Waiting {
            threads,
            longest_ns,
        };
    }

    fn waited(&mut self, group: CgroupId, count: u64, each: u64) {
        let mut counts = vec![0; Histogram::BUCKETS];
        counts[Histogram::bucket(each)] = count;
        let grown = Histogram::from_counts(counts);
        let group = Group::Cgroup(group);
        let waits = &mut self.batch.waits;
        match waits.iter_mut().find(|row| row.group == group) {
            Some(row) => row.histogram += &grown,
            None => waits.push(WaitRow {
                group,
                histogram: grown,
            }),
        }
    }

    fn row(&mut self, group: CgroupId) -> &mut CgroupRow {
        let row = self.batch.cgroups.iter_mut().find(|row| row.id == group);
        row.expect("it was made")
    }

    fn group(&mut self, path: &str) -> Arc<Owner> {
        let owners = self
            .batch
            .cgroups
            .iter()
            .filter_map(|row| row.owner.clone());
        if let Some(owner) = owners.into_iter().find(|owner| owner.path == path) {
            return owner;
        }
        let id = CgroupId(self.batch.cgroups.len() as u64 + 100);
        let owner = Arc::new(owner(id, path));
        self.batch.cgroups.push(CgroupRow {
            id,
            owner: Some(owner.clone()),
            counters: Counters::default(),
            ..CgroupRow::default()
        });
        owner
    }

    /// Advances by one second, in which each of these processes uses this percentage of a CPU.
    pub(crate) fn tick(&mut self, used: &[(u32, u64)]) -> Batch {
        let batch = &mut self.batch;
        batch.sequence += 1;
        batch.taken_ns += TICK;
        batch.time_unix_ns += TICK;
        batch.agent.cpu_ns += 3_100_000;
        let mut total = Counters::default();
        for &(pid, percent) in used {
            let row = batch.processes.iter_mut().find(|row| row.id.pid == pid);
            let row = row.expect("the test made this process");
            let grown = growth(percent * TICK / 100);
            row.counters += &grown;
            total += &grown;
            let group = batch
                .cgroups
                .iter_mut()
                .find(|group| group.id == row.cgroup);
            group.expect("made with its process").counters += &grown;
        }
        batch.node.elapsed_ns += 4 * TICK;
        batch.node.idle_ns += 4 * TICK - total[Counter::CpuTime] - TICK / 50;
        batch.node.total += &total;
        batch.clone()
    }

    /// Ends the process. The next batch lists it as ended; later batches do not list it.
    pub(crate) fn exit(&mut self, pid: u32) -> ProcessRow {
        let at = self
            .batch
            .processes
            .iter()
            .position(|row| row.id.pid == pid);
        let mut row = self
            .batch
            .processes
            .remove(at.expect("the test made this process"));
        row.exited = true;
        row.counters += &growth(TICK / 10);
        row
    }
}

fn growth(cpu_ns: u64) -> Counters {
    let mut grown = Counters::default();
    grown[Counter::CpuTime] = cpu_ns;
    grown[Counter::Cycles] = cpu_ns * 3;
    grown[Counter::ReferenceCycles] = cpu_ns * 2;
    grown[Counter::Instructions] = cpu_ns * 4;
    grown[Counter::CacheMisses] = cpu_ns / 1_000;
    grown[Counter::PageReads] = cpu_ns / 100_000;
    grown[Counter::SwitchesVoluntary] = 7;
    grown[Counter::SwitchesPreempted] = cpu_ns / 10_000_000;
    grown[Counter::Softirq(3)] = cpu_ns / 1_000_000;
    grown
}

fn owner(id: CgroupId, path: &str) -> Owner {
    let name = path.rsplit('/').next().unwrap_or_default();
    let mut owner = Owner {
        path: path.into(),
        ..Owner::unknown(id)
    };
    let is_unit = name.ends_with(".service") || name.starts_with("session");
    owner.unit = is_unit.then(|| name.to_owned());
    if let Some(short) = name
        .strip_prefix("cri-")
        .and_then(|n| n.strip_suffix(".scope"))
    {
        owner.container = Some(Container {
            id: short.repeat(16),
            runtime: Runtime::Containerd,
            role: ContainerRole::Workload,
            name: Some(format!("shop-{short}")),
            image: None,
            chain: Vec::new(),
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

/// Fixed facts about rows.
struct MadeUp;

impl Files for MadeUp {
    fn about(&self, row: &Row) -> Vec<(&'static str, String)> {
        match &row.process {
            Some(_) => vec![("command", "made up --for tests".to_owned())],
            None => vec![("CPU weight", "100".to_owned())],
        }
    }
}

/// [`MadeUp`], and files for the columns of the overview.
pub(crate) struct WithColumns;

impl Files for WithColumns {
    fn exist(&self) -> bool {
        true
    }

    fn user(&self, row: &Row) -> Option<String> {
        row.process.as_ref().map(|_| "www-data".to_owned())
    }

    fn resident_bytes(&self, row: &Row, _: Level) -> Option<u64> {
        (row.owner.path != "/").then_some(19_500_000)
    }

    fn rivals(&self, own: &str, culprit: &str) -> Option<Rivals> {
        let with = |path: &str, weight| (path.to_owned(), CpuWeight::Weight(weight));
        Some(Rivals {
            own: with(own, 100),
            culprit: with(culprit, 800),
        })
    }
}

/// Returns options with fixed facts about rows.
pub(crate) fn options(level: Level) -> Options {
    Options {
        level,
        by_command: false,
        view: View::Use,
        thresholds: Thresholds::default(),
        selection: Selection::default(),
        interval: Duration::from_nanos(TICK),
        hostname: "bat-1".into(),
        utc_offset: |_| 2 * 3600,
        about: About(Arc::new(MadeUp)),
        moment: |text, _| text.parse().map_err(|_| "not a number".to_owned()),
        ascii: false,
        color: true,
    }
}

/// Returns the state before the first batch.
pub(crate) fn app(level: Level, width: u16, height: u16) -> App {
    App::new(&options(level), Size::new(width, height), pane::height)
}

/// Returns the state after these batches.
pub(crate) fn feed(app: App, batches: impl IntoIterator<Item = Batch>) -> App {
    let batches = batches.into_iter().map(Box::new).map(Input::Batch);
    batches.fold(app, App::step)
}

/// Returns the state after these keys, separated by blanks. Each is a character or the name of a
/// key.
pub(crate) fn press(app: App, keys: &str) -> App {
    let press = |word: &str| Press {
        ctrl: word.starts_with('^'),
        code: match word.trim_start_matches('^') {
            "Enter" => KeyCode::Enter,
            "Esc" => KeyCode::Esc,
            "Tab" => KeyCode::Tab,
            "BackTab" => KeyCode::BackTab,
            "Backspace" => KeyCode::Backspace,
            "Space" => KeyCode::Char(' '),
            "Up" => KeyCode::Up,
            "Down" => KeyCode::Down,
            "Left" => KeyCode::Left,
            "Right" => KeyCode::Right,
            "PgUp" => KeyCode::PageUp,
            "PgDn" => KeyCode::PageDown,
            "Home" => KeyCode::Home,
            "End" => KeyCode::End,
            one => KeyCode::Char(one.chars().next().expect("a word has a character")),
        },
    };
    keys.split_whitespace()
        .map(press)
        .map(Input::Key)
        .fold(app, App::step)
}

/// Draws the state on a terminal.
pub(crate) fn terminal(app: &App, width: u16, height: u16) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("it cannot fail");
    terminal
        .draw(|frame| draw::draw(app, frame))
        .expect("it cannot fail");
    terminal
}

/// Returns the colours of the screen. A letter or digit represents each styled cell; `*` is bold or
/// faint.
pub(crate) fn colours(app: &App, width: u16, height: u16) -> String {
    let terminal = terminal(app, width, height);
    let buffer = terminal.backend().buffer();
    let letter = |cell: &Cell| match cell.fg {
        Color::Reset if cell.modifier.contains(Modifier::REVERSED) => 'I',
        Color::Reset if !cell.modifier.is_empty() => '*',
        Color::Reset => ' ',
        Color::Cyan => 'C',
        Color::Green => 'G',
        Color::Red => 'R',
        Color::Magenta => 'M',
        Color::Indexed(number) => {
            let of_cause = |cause: &Cause| noctule_text::cause_colour(*cause) == Some(number);
            let place = Cause::ALL.iter().position(of_cause);
            place.map_or('?', |place| char::from(b'0' + place as u8))
        }
        _ => '?',
    };
    let mut text = String::new();
    for y in 0..height {
        let line: String = (0..width).map(|x| letter(&buffer[(x, y)])).collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Returns the screen as text, without trailing blanks.
pub(crate) fn screen(app: &App, width: u16, height: u16) -> String {
    let terminal = terminal(app, width, height);
    let buffer = terminal.backend().buffer();
    let mut text = String::new();
    for y in 0..height {
        let (mut line, mut x) = (String::new(), 0);
        while x < width {
            let cell = &buffer[(x, y)];
            line.push_str(cell.symbol());
            // A wide character covers the cells after it.
            x += cell.symbol().cell_width().max(1);
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Returns the names of the table's lines, in order.
pub(crate) fn names(app: &App) -> Vec<String> {
    let name = |line: &crate::table::lines::Line| format!("{}{}", line.guide, line.name);
    app.lines.iter().map(name).collect()
}
