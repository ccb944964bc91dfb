//! Tests which differences count as changes.

use std::sync::Arc;

use noctule_model::{CgroupId, CgroupRow, Comm, Counter, Group, Owner, ProcessRow, WaitRow};

use super::*;

const SECOND: u64 = 1_000_000_000;
const GROUPS: u64 = 40;

/// A simulated machine whose groups use the CPU and wait at random.
struct Machine {
    dice: u64,
    batch: Batch,
    /// The base of the CPU use in each second, and its random component, in milliseconds.
    use_ms: (u64, u64),
}

fn owner(id: u64, path: String) -> Arc<Owner> {
    Arc::new(Owner {
        cgroup: CgroupId(id),
        path,
        container: None,
        pod: None,
        unit: None,
    })
}

impl Machine {
    fn new(seed: u64) -> Self {
        Self::of(GROUPS, (50, 100), seed)
    }

    fn of(groups: u64, use_ms: (u64, u64), seed: u64) -> Self {
        let mut batch = Batch::default();
        for id in 0..groups {
            batch.cgroups.push(CgroupRow {
                id: CgroupId(id),
                owner: Some(owner(id, format!("/{id}"))),
                ..CgroupRow::default()
            });
            batch.waits.push(WaitRow {
                group: Group::Cgroup(CgroupId(id)),
                histogram: Histogram::default(),
            });
        }
        batch.measured = Counter::all().collect();
        Self {
            dice: seed | 1,
            batch,
            use_ms,
        }
    }

    fn roll(&mut self, end: u64) -> u64 {
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 7;
        self.dice ^= self.dice << 17;
        self.dice % end
    }

    /// The first group uses `more` times as much CPU and waits `longer` times as long.
    fn second(&mut self, more: u64, longer: u64) -> &Batch {
        self.second_with(100 * more, longer)
    }

    fn second_with(&mut self, percent: u64, longer: u64) -> &Batch {
        self.batch.taken_ns += SECOND;
        for place in 0..self.batch.cgroups.len() {
            let first = place == 0;
            let (percent, longer) = if first { (percent, longer) } else { (100, 1) };
            let (from, to) = self.use_ms;
            let cpu = (from * 1_000_000 + self.roll((to - from) * 1_000_000)) * percent / 100;
            self.batch.cgroups[place].counters[Counter::CpuTime] += cpu;
            let mut counts = vec![0; Histogram::BUCKETS];
            for _ in 0..30 {
                let wait = (20_000 + self.roll(400_000)) * longer;
                counts[Histogram::bucket(wait)] += 1;
            }
            self.batch.waits[place].histogram += &Histogram::from_counts(counts);
        }
        &self.batch
    }

    fn stretch(&mut self, seconds: u64, more: u64, longer: u64) -> Stretch {
        let mut stretch = Stretch::new(Level::Cgroup, 2 * SECOND);
        for _ in 0..=seconds {
            stretch.add(self.second(more, longer));
        }
        stretch
    }

    fn short_stretch(&mut self, seconds: u64, percent: u64) -> Stretch {
        let mut stretch = Stretch::new(Level::Cgroup, block_ns(seconds * SECOND));
        for _ in 0..=seconds {
            stretch.add(self.second_with(percent, 1));
        }
        stretch
    }
}

#[test]
fn fifty_percent_more_in_one_of_250_groups_is_found() {
    let (mut found, mut others) = (0, 0);
    let runs = 10;
    for seed in 1..=runs {
        let mut machine = Machine::of(250, (8, 12), seed * 104_729);
        let (a, b) = (
            machine.short_stretch(10, 100),
            machine.short_stretch(10, 150),
        );
        assert_eq!((a.blocks(), b.blocks()), (10, 10));
        let rows = differences(&a, &b);
        assert!(can_find_one(&a, &b, &rows));
        let mut changed = rows.iter().filter(|row| row.changed());
        found += u32::from(changed.any(|row| row.name == "/0" && row.usage.changed));
        others += rows
            .iter()
            .filter(|row| row.changed() && row.name != "/0")
            .count();
        // Six seconds are too short for this many groups, and `can_find_one` reports that.
        let (a, b) = (machine.short_stretch(6, 100), machine.short_stretch(6, 150));
        assert!(!can_find_one(&a, &b, &differences(&a, &b)));
    }
    assert!(
        found == runs as u32 && others <= 3,
        "{found} of {runs}, {others} others"
    );
}

#[test]
fn ten_unchanged_seconds_show_no_difference() {
    let mut called = 0;
    let runs = 20;
    for seed in 1..=runs {
        let mut machine = Machine::of(250, (8, 12), seed * 7919);
        let (a, b) = (
            machine.short_stretch(10, 100),
            machine.short_stretch(10, 100),
        );
        called += u32::from(differences(&a, &b).iter().any(Difference::changed));
    }
    assert!(called <= 4, "{called} of {runs} runs");
}

#[test]
fn short_recordings_are_divided_into_short_blocks() {
    let seconds = |length: u64| block_ns(length * SECOND) / SECOND;
    let lengths = [5, 10, 19, 20, 22, 60, 90, 1800, 7200].map(seconds);
    assert_eq!(lengths, [1, 1, 1, 2, 2, 2, 3, 60, 60]);
}

#[test]
fn unchanged_machine_shows_no_difference() {
    let mut called = 0;
    let runs = 20;
    for seed in 1..=runs {
        let mut machine = Machine::new(seed * 7919);
        let (a, b) = (machine.stretch(60, 1, 1), machine.stretch(60, 1, 1));
        assert_eq!((a.blocks(), b.blocks()), (30, 30));
        let rows = differences(&a, &b);
        assert_eq!(rows.len() as u64, GROUPS);
        called += u32::from(rows.iter().any(Difference::changed));
    }
    // If nothing changed, every discovery is false. One run in twenty may have false discoveries.
    assert!(called <= 4, "{called} of {runs} runs");
}

#[test]
fn only_the_changed_group_is_named() {
    let mut machine = Machine::new(11);
    let (a, b) = (machine.stretch(60, 1, 1), machine.stretch(40, 2, 4));
    let rows = differences(&a, &b);
    let first = &rows[0];
    assert_eq!(first.name, "/0");
    assert!(first.usage.changed && first.length.changed, "{first:?}");
    assert!(first.distance.is_some_and(|distance| distance > 0.5));
    let others = rows.iter().skip(1).filter(|row| row.changed()).count();
    assert!(others <= 2, "{others}");
}

#[test]
fn diff_of_a_command_contains_only_its_processes() {
    let row = |pid, followed, cpu_ns| {
        let mut row = ProcessRow {
            followed,
            ..ProcessRow::default()
        };
        row.id.pid = pid;
        row.comm = match followed {
            true => Comm::new(b"make"),
            false => Comm::new(b"other"),
        };
        row.counters[Counter::CpuTime] = cpu_ns;
        row
    };
    for (level, name) in [(Level::Process, "make"), (Level::Container, "the command")] {
        let mut stretch = Stretch::new(level, 2 * SECOND).of_command();
        for second in 0..=4 {
            stretch.add(&Batch {
                taken_ns: second * SECOND,
                processes: vec![
                    row(1, true, second * SECOND / 2),
                    row(2, false, second * SECOND),
                ],
                ..Batch::default()
            });
        }
        let rows = differences(&stretch, &stretch);
        let rows = rows.iter().map(|it| (&*it.name, it.before.cpu_ns));
        let rows: Vec<_> = rows.collect();
        assert_eq!(rows, [(name, 2 * SECOND)], "{level:?}");
    }
}

#[test]
fn long_recording_keeps_a_sample_of_its_blocks() {
    let mut machine = Machine::new(3);
    machine.batch.cgroups.truncate(4);
    let mut week = Stretch::new(Level::Cgroup, SECOND);
    let mut used = 0;
    for place in 0..=3 * u64::from(MOST_BLOCKS) {
        machine.batch.taken_ns += SECOND;
        let more = machine.roll(SECOND / 10);
        // The first batch is the base of the counters.
        used += if place == 0 { 0 } else { more };
        machine.batch.cgroups[0].counters[Counter::CpuTime] += more;
        week.add(&machine.batch);
    }
    assert_eq!(week.blocks(), MOST_BLOCKS as usize * 3 / 4);
    assert_eq!(week.length_ns(), 3 * u64::from(MOST_BLOCKS) * SECOND);
    let kept = week.groups.values().map(|seen| seen.blocks.len()).max();
    assert_eq!(kept, Some(week.blocks()));
    // The sums include every block.
    let rows = differences(&week, &Stretch::new(Level::Cgroup, SECOND));
    assert_eq!(rows[0].before.cpu_ns, used);
}

#[test]
fn time_after_the_last_block_is_reported_as_left_out() {
    let mut machine = Machine::new(5);
    let (odd, even) = (machine.stretch(61, 1, 1), machine.stretch(60, 1, 1));
    assert_eq!((odd.blocks(), even.blocks()), (30, 30));
    assert_eq!((odd.length_ns(), odd.left_out_ns()), (60 * SECOND, SECOND));
    assert_eq!((even.length_ns(), even.left_out_ns()), (60 * SECOND, 0));
    assert_eq!(Stretch::new(Level::Cgroup, SECOND).left_out_ns(), 0);
}

#[test]
fn figures_that_are_always_0_are_not_tested() {
    let mut machine = Machine::new(7);
    let (a, b) = (machine.stretch(60, 1, 1), machine.stretch(60, 1, 1));
    let rows = differences(&a, &b);
    assert!(rows.iter().all(|row| row.usage.p.is_some()));
    let idle = |stretch: &Stretch| {
        let mut stretch = stretch.clone();
        let all = stretch
            .groups
            .values_mut()
            .flat_map(|seen| &mut seen.blocks);
        all.for_each(|(_, figures)| figures[Figure::Use as usize] = Some(0.0));
        stretch
    };
    let rows = differences(&idle(&a), &idle(&b));
    assert!(
        rows.iter()
            .all(|row| row.usage.p.is_none() && row.length.p.is_some())
    );
}

#[test]
fn new_group_is_a_change_unless_blocks_are_too_few() {
    let mut machine = Machine::new(5);
    let short = machine.stretch(6, 1, 1);
    let rows = differences(&short, &machine.stretch(60, 9, 9));
    assert!(
        rows.iter()
            .all(|row| !row.changed() && row.usage.p.is_none())
    );
    let a = machine.stretch(40, 1, 1);
    machine.batch.cgroups[3].owner = Some(owner(3, "/new".into()));
    let b = machine.stretch(40, 1, 1);
    let rows = differences(&a, &b);
    let named = |name: &str| rows.iter().find(|row| row.name == name).expect("a row");
    assert!(named("/new").usage.changed && named("/3").usage.changed);
    assert_eq!(
        (named("/new").before.cpu_ns, named("/3").after.cpu_ns),
        (0, 0)
    );
}
