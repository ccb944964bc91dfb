//! Draws each CPU: how busy it was over the last minute, and which groups ran on it.

use std::cmp::Reverse;
use std::collections::HashMap;

use noctule_analysis::{CpuUse, Party};
use noctule_model::{CgroupId, IdMap, Level};
use noctule_text::{escape, percent};
use ratatui::text::{Line, Span};

use crate::data::history;
use crate::data::waits;
use crate::draw::palette::Palette;
use crate::draw::spark::graph;
use crate::state::App;
use crate::text::{self, Align};

/// Letters for the groups with the most CPU time. All other groups share one symbol.
const LETTERS: [char; 12] = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k', 'l'];
const OTHERS: char = '.';
/// Character for a column in which interrupts or steal took more time than any group.
const TAKEN: char = '!';
/// Minimum share of a CPU's time in a column for which a group's letter is drawn.
const LITTLE: f64 = 0.05;
/// Minimum use over the last minute, in CPUs, for a group to get a letter.
const LEAST: f64 = 0.01;
/// Number of groups that are named next to a strip.
const NAMED: usize = 3;
/// Width of a CPU's number and share, and of the text to the right. The text is left out if the
/// strip would otherwise have less than half of its columns.
const NUMBER: usize = 14;
const NOW: usize = 36;

/// Draws a heading, the legend of letters, and two lines for each CPU.
pub(crate) fn lines(app: &App, width: usize, palette: &Palette) -> Vec<Line<'static>> {
    let cpus = &app.shown.cpus;
    let heading = " Each CPU: how busy, and below it the main group (! interrupts or steal)";
    let heading = text::keep_start(heading, width);
    let mut lines = vec![Line::styled(heading, palette.accent)];
    if cpus.now().is_empty() {
        lines.push(Line::raw(match app.shown.window {
            None => " no window has ended yet",
            Some(_) => " no values per CPU: an older noctule made this recording",
        }));
        return lines;
    }
    let level = waits::level(app.level());
    let parties = Parties::collect(cpus.all(), level);
    if parties.names.is_empty() {
        lines.push(Line::raw(
            " the groups on each CPU are known only if waits are measured",
        ));
    }
    lines.extend(parties.legend(width, palette));
    let room = width.saturating_sub(NUMBER + 1);
    let side = room
        .checked_sub(NOW)
        .filter(|room| *room >= history::LENGTH / 2);
    let columns = history::columns(side.unwrap_or(room).min(history::LENGTH));
    for cpu in cpus.numbers() {
        let cells = cpus.minute(cpu, columns);
        let now = cpus.now().iter().find(|it| it.cpu == cpu);
        let share = now.map_or_else(|| "off".into(), |it| percent(it.busy() * 100.0));
        let label = format!(" {:<6}{}", cpu, text::pad(&share, NUMBER - 8, Align::Right));
        let busy: Vec<Option<f32>> = cells.iter().map(|cell| busy(cell)).collect();
        let strip = graph(&busy, 1.0, 1).concat();
        let mut first = vec![Span::raw(label + " "), Span::styled(strip, palette.graph)];
        if let (Some(now), Some(_)) = (now, side) {
            first.push(Span::raw(format!("  {}", parties.describe(now))));
        }
        lines.push(Line::from(first));
        let mut second = vec![Span::raw(" ".repeat(NUMBER))];
        second.extend(cells.iter().map(|cell| parties.sign(cell, palette)));
        lines.push(Line::from(second));
    }
    lines
}

/// Returns the busy share of a CPU's time; `None` if unknown.
fn busy(cell: &[&CpuUse]) -> Option<f32> {
    let elapsed: u64 = cell.iter().map(|it| it.elapsed_ns).sum();
    let idle: u64 = cell.iter().map(|it| it.idle_ns).sum();
    (elapsed > 0).then(|| elapsed.saturating_sub(idle) as f32 / elapsed as f32)
}

/// Groups that ran within the minute, most CPU time first.
struct Parties {
    level: Level,
    names: Vec<String>,
    /// Number of `names` that have letters.
    lettered: usize,
    /// Positions in `names`. Each name is formatted only once.
    named: HashMap<String, usize>,
    cgroups: IdMap<CgroupId, usize>,
}

impl Parties {
    fn collect<'a>(uses: impl Iterator<Item = &'a CpuUse> + Clone, level: Level) -> Self {
        let mut this = Self {
            level,
            names: Vec::new(),
            lettered: 0,
            named: HashMap::new(),
            cgroups: IdMap::default(),
        };
        let mut sums: Vec<u64> = Vec::new();
        for (party, ns) in uses.clone().flat_map(|it| &it.holders) {
            let at = this.find_or_add(party);
            sums.resize(this.names.len(), 0);
            sums[at] += ns;
        }
        let mut order: Vec<usize> = (0..sums.len()).collect();
        order.sort_by_key(|at| (Reverse(sums[*at]), this.names[*at].clone()));
        // The longest elapsed time of any CPU.
        let mut elapsed: HashMap<u32, u64> = HashMap::new();
        uses.for_each(|it| *elapsed.entry(it.cpu).or_default() += it.elapsed_ns);
        let minute = elapsed.into_values().max().unwrap_or(0);
        let enough = |at: &&usize| sums[**at] as f64 >= LEAST * minute as f64;
        this.lettered = order.iter().filter(enough).count().min(LETTERS.len());
        let mut places = vec![0; order.len()];
        for (place, at) in order.iter().enumerate() {
            places[*at] = place;
        }
        this.cgroups.values_mut().for_each(|at| *at = places[*at]);
        this.named.values_mut().for_each(|at| *at = places[*at]);
        this.names = order.iter().map(|at| this.names[*at].clone()).collect();
        this
    }

    fn find_or_add(&mut self, party: &Party) -> usize {
        if let Some(known) = self.find(party) {
            return known;
        }
        let name = party.name(self.level);
        let known = self.named.get(&name).copied();
        let number = known.unwrap_or_else(|| {
            self.names.push(name.clone());
            self.names.len() - 1
        });
        if let Party::Group(owner) = party {
            self.cgroups.insert(owner.cgroup, number);
        }
        self.named.insert(name, number);
        number
    }

    fn find(&self, party: &Party) -> Option<usize> {
        match party {
            Party::Group(owner) => self.cgroups.get(&owner.cgroup).copied(),
            other => self.named.get(&other.name(self.level)).copied(),
        }
    }

    fn letter(&self, at: usize) -> Option<char> {
        LETTERS[..self.lettered].get(at).copied()
    }

    /// Draws the letters and names, on as many lines as they need.
    fn legend(&self, width: usize, palette: &Palette) -> Vec<Line<'static>> {
        let mut lines = vec![Vec::new()];
        let mut used = 0;
        let room = width.saturating_sub(1);
        for (letter, name) in LETTERS[..self.lettered].iter().zip(&self.names) {
            let name = text::shorten(&escape(name), room.saturating_sub(3).min(40));
            let long = 4 + text::width(&name);
            if used > 0 && used + long > room {
                lines.push(Vec::new());
                used = 0;
            }
            used += long;
            if let Some(line) = lines.last_mut() {
                line.push(Span::styled(format!(" {letter} "), palette.accent));
                line.push(Span::raw(name + " "));
            }
        }
        lines.into_iter().map(Line::from).collect()
    }

    /// Returns the symbol of the group with the most CPU time in a column.
    fn sign(&self, cell: &[&CpuUse], palette: &Palette) -> Span<'static> {
        let elapsed: u64 = cell.iter().map(|it| it.elapsed_ns).sum();
        let taken: u64 = cell.iter().filter_map(|it| it.taken_ns()).sum();
        let mut sums: HashMap<usize, u64> = HashMap::new();
        for (party, ns) in cell.iter().flat_map(|it| &it.holders) {
            if let Some(at) = self.find(party) {
                *sums.entry(at).or_default() += ns;
            }
        }
        let most = sums.into_iter().max_by_key(|(at, ns)| (*ns, Reverse(*at)));
        let enough = |ns: u64| ns as f64 > LITTLE * elapsed as f64;
        match most {
            _ if most.is_none_or(|(_, ns)| taken > ns) && enough(taken) => {
                Span::styled(TAKEN.to_string(), palette.alarm)
            }
            Some((at, ns)) if enough(ns) => {
                Span::raw(self.letter(at).unwrap_or(OTHERS).to_string())
            }
            _ => Span::raw(" "),
        }
    }

    /// Describes what ran on a CPU in the newest window.
    fn describe(&self, cpu: &CpuUse) -> String {
        let mut sums: HashMap<usize, u64> = HashMap::new();
        for (party, ns) in &cpu.holders {
            if let Some(at) = self.find(party) {
                *sums.entry(at).or_default() += ns;
            }
        }
        let share = |ns: u64| percent(cpu.part(ns) * 100.0);
        let mut most: Vec<(usize, u64)> = sums.into_iter().collect();
        most.sort_by_key(|(at, ns)| (Reverse(*ns), *at));
        let most = most.iter().take(NAMED);
        let mut words: Vec<String> = most
            .filter_map(|(at, ns)| Some(format!("{} {}", self.letter(*at)?, share(*ns))))
            .collect();
        for (word, ns) in [("irq", cpu.interrupt_ns), ("steal", cpu.steal_ns)] {
            if let Some(ns) = ns.filter(|ns| cpu.part(*ns) >= 0.01) {
                words.push(format!("{word} {}", share(ns)));
            }
        }
        words.join("  ")
    }
}
