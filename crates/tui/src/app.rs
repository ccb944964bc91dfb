//! The state: what was received and what the user asked for. It knows no terminal.

use std::collections::HashSet;
use std::time::Duration;

use noctule_model::{Batch, Level, escape_terminal};
use ratatui::layout::Size;

use crate::data::Data;
use crate::history::LENGTH;
use crate::keys::{self, Action, Mode, Motion, Press};
use crate::layout::{self, Areas};
use crate::level::{self, Key, LEVELS};
use crate::lines::{self, Fold, Line, Wish};
use crate::table::{self, COLUMNS, Facts};
use crate::{Options, pane};

/// Longest filter, in characters.
const MAX_FILTER: usize = 128;

/// Something that changes the state.
#[derive(Debug)]
pub(crate) enum Input {
    /// A key was struck.
    Key(Press),
    /// The next batch came.
    Batch(Box<Batch>),
    /// The terminal has this size now.
    Size(Size),
}

/// The row that the detail pane shows.
#[derive(Clone, Debug)]
pub(crate) struct Detail {
    /// The row as it was last seen.
    pub(crate) line: Line,
    /// It is not in the table any more.
    pub(crate) gone: bool,
}

/// The whole state.
#[derive(Clone, Debug)]
pub(crate) struct App {
    /// Name of the machine, safe for a terminal.
    pub(crate) hostname: String,
    /// Colours are allowed.
    pub(crate) color: bool,
    /// Time between two batches.
    pub(crate) interval: Duration,
    /// What is on the screen.
    pub(crate) shown: Data,
    /// What came since the pause; `None` until something did.
    live: Option<Data>,
    /// The screen is frozen.
    pub(crate) paused: bool,
    /// What the rows stand for.
    pub(crate) level: Level,
    /// Position in [`COLUMNS`] of the column that was chosen to sort by.
    sort: usize,
    /// Largest first.
    pub(crate) descending: bool,
    /// The tree was asked for; not every level has one.
    pub(crate) tree: bool,
    folded: HashSet<Key>,
    /// What the rows must contain.
    pub(crate) filter: String,
    /// What the keys act on.
    pub(crate) mode: Mode,
    /// First line of the pane that is shown.
    pub(crate) scroll: usize,
    /// The row of the detail pane.
    pub(crate) detail: Option<Detail>,
    /// The selected row; `None` until the user chooses one, so that the table stays at its top.
    selected: Option<Key>,
    /// Where the selected row was, for when it is gone.
    cursor: usize,
    /// First line of the table that is shown.
    pub(crate) offset: usize,
    size: Size,
    /// The lines of the table.
    pub(crate) lines: Vec<Line>,
    /// The user wants to leave.
    pub(crate) quit: bool,
}

impl App {
    /// The state before the first batch.
    pub(crate) fn new(options: &Options, size: Size) -> Self {
        Self {
            hostname: escape_terminal(&options.hostname),
            color: options.color,
            interval: options.interval,
            shown: Data::default(),
            live: None,
            paused: false,
            level: options.level,
            sort: table::CPU,
            descending: true,
            tree: false,
            folded: HashSet::new(),
            filter: String::new(),
            mode: Mode::Table,
            scroll: 0,
            detail: None,
            selected: None,
            cursor: 0,
            offset: 0,
            size,
            lines: Vec::new(),
            quit: false,
        }
    }

    /// The state after the input.
    pub(crate) fn step(mut self, input: Input) -> Self {
        match input {
            Input::Key(press) => {
                if let Some(action) = keys::action(self.mode, press) {
                    self.act(action);
                }
            }
            Input::Batch(batch) if self.paused => {
                let shown = &self.shown;
                self.live.get_or_insert_with(|| shown.clone()).push(*batch);
                return self;
            }
            Input::Batch(batch) => self.shown.push(*batch),
            Input::Size(size) => self.size = size,
        }
        self.refresh();
        self
    }

    /// The columns' view of the state.
    pub(crate) fn facts(&self) -> Facts {
        let window = self.shown.window.as_ref();
        Facts {
            level: self.level,
            window_ns: window.map_or(0, |w| w.length_ns),
            measured: window.map_or_else(Default::default, |w| w.measured),
            nominal_hertz: window.and_then(|w| w.node.nominal_hertz),
        }
    }

    /// Position in [`COLUMNS`] of the column that sorts: the one that was chosen, where the level
    /// has it.
    pub(crate) fn sort(&self) -> usize {
        match (COLUMNS[self.sort].exists)(&self.facts()) {
            true => self.sort,
            false => table::CPU,
        }
    }

    /// Time that the graphs span, in nanoseconds.
    pub(crate) fn span_ns(&self) -> f64 {
        self.interval.as_nanos() as f64 * LENGTH as f64
    }

    /// The order is that of the tree.
    pub(crate) fn is_tree(&self) -> bool {
        self.tree && level::has_tree(self.level)
    }

    /// The parts of the screen.
    pub(crate) fn areas(&self) -> Areas {
        layout::areas(self.size, self.shown.warning().is_some())
    }

    /// Position of the selected row.
    pub(crate) fn selected(&self) -> Option<usize> {
        let key = self.selected.as_ref()?;
        self.lines.iter().position(|line| line.item.key == *key)
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Quit => self.quit = true,
            Action::Help => self.toggle_help(),
            Action::Filter => self.mode = Mode::Filter,
            Action::Open => self.open(),
            Action::Pause => self.pause(),
            Action::Tree => self.tree = !self.tree,
            Action::Fold => self.fold(true),
            Action::Unfold => self.fold(false),
            Action::SortNext => self.sort_by(1),
            Action::SortPrevious => self.sort_by(COLUMNS.len() - 1),
            Action::Reverse => self.descending = !self.descending,
            Action::Level(level) => self.show(level),
            Action::LevelNext => self.show(self.level_after(1)),
            Action::LevelPrevious => self.show(self.level_after(LEVELS.len() - 1)),
            Action::Move(motion) if self.mode == Mode::Table => self.select(motion),
            Action::Move(motion) => self.scroll(motion),
            Action::Back => self.back(),
            Action::Accept => self.mode = Mode::Table,
            Action::Erase => drop(self.filter.pop()),
            Action::EraseAll => self.filter.clear(),
            Action::Type(c) if self.filter.chars().count() < MAX_FILTER => self.filter.push(c),
            Action::Type(_) => {}
        }
    }

    fn pause(&mut self) {
        self.paused = !self.paused;
        if let Some(live) = self.live.take() {
            self.shown = live;
        }
    }

    fn level_after(&self, steps: usize) -> Level {
        LEVELS[(level::index(self.level) + steps) % LEVELS.len()]
    }

    fn show(&mut self, level: Level) {
        if level != self.level {
            self.level = level;
            self.unselect();
        }
    }

    fn unselect(&mut self) {
        self.selected = None;
        self.cursor = 0;
        self.offset = 0;
    }

    fn sort_by(&mut self, steps: usize) {
        let facts = self.facts();
        let mut next = self.sort();
        loop {
            next = (next + steps) % COLUMNS.len();
            if (COLUMNS[next].exists)(&facts) {
                break;
            }
        }
        self.sort = next;
        self.descending = COLUMNS[next].descends();
    }

    fn fold(&mut self, fold: bool) {
        let Some(line) = self.selected().map(|i| &self.lines[i]) else {
            return;
        };
        match (fold, line.fold) {
            (true, Fold::Open) => drop(self.folded.insert(line.item.key.clone())),
            (false, Fold::Closed) => drop(self.folded.remove(&line.item.key)),
            _ => {}
        }
    }

    fn open(&mut self) {
        if let Some(line) = self.lines.get(self.selected().unwrap_or(0)) {
            self.selected = Some(line.item.key.clone());
            self.detail = Some(Detail {
                line: line.clone(),
                gone: false,
            });
            self.scroll = 0;
            self.mode = Mode::Detail;
        }
    }

    fn toggle_help(&mut self) {
        self.scroll = 0;
        self.mode = match (self.mode, &self.detail) {
            (Mode::Help, Some(_)) => Mode::Detail,
            (Mode::Help, None) => Mode::Table,
            _ => Mode::Help,
        };
    }

    fn back(&mut self) {
        match self.mode {
            Mode::Help => self.toggle_help(),
            Mode::Detail => {
                self.mode = Mode::Table;
                self.detail = None;
            }
            Mode::Filter => {
                self.mode = Mode::Table;
                self.filter.clear();
            }
            Mode::Table if self.filter.is_empty() => self.unselect(),
            Mode::Table => self.filter.clear(),
        }
    }

    fn select(&mut self, motion: Motion) {
        let last = self.lines.len().saturating_sub(1);
        let page = usize::from(self.areas().body.height).max(1);
        let to = match (motion, self.selected()) {
            (Motion::Home, _) => 0,
            (Motion::End, _) => last,
            // The first key makes the selection visible where the eye is: at the top.
            (_, None) => self.offset,
            (Motion::Up, Some(at)) => at.saturating_sub(1),
            (Motion::Down, Some(at)) => at + 1,
            (Motion::PageUp, Some(at)) => at.saturating_sub(page),
            (Motion::PageDown, Some(at)) => at + page,
        };
        self.cursor = to.min(last);
        self.selected = self.lines.get(self.cursor).map(|l| l.item.key.clone());
    }

    fn scroll(&mut self, motion: Motion) {
        let page = usize::from(self.areas().pane.height).max(1);
        // The end is not known here; `refresh` stops at it.
        self.scroll = match motion {
            Motion::Home => 0,
            Motion::End => usize::MAX,
            Motion::Up => self.scroll.saturating_sub(1),
            Motion::Down => self.scroll.saturating_add(1),
            Motion::PageUp => self.scroll.saturating_sub(page),
            Motion::PageDown => self.scroll.saturating_add(page),
        };
    }

    /// Makes everything that is derived agree with the rest.
    fn refresh(&mut self) {
        let wish = Wish {
            facts: self.facts(),
            filter: &self.filter.to_lowercase(),
            column: &COLUMNS[self.sort()],
            descending: self.descending,
            tree: self.tree,
            folded: &self.folded,
        };
        self.lines = lines::lines(&self.shown, &wish);
        self.hold_selection();
        self.hold_detail();
        let areas = self.areas();
        let hidden =
            pane::height(self, areas.pane.width).saturating_sub(usize::from(areas.pane.height));
        self.scroll = self.scroll.min(hidden);
    }

    /// Keeps the selected row selected and on the screen; when it is gone, the one in its place.
    fn hold_selection(&mut self) {
        let page = usize::from(self.areas().body.height).max(1);
        if self.selected.is_some() && !self.lines.is_empty() {
            let last = self.lines.len() - 1;
            self.cursor = self.selected().unwrap_or(self.cursor.min(last));
            self.selected = Some(self.lines[self.cursor].item.key.clone());
            let lowest = (self.cursor + 1).saturating_sub(page);
            self.offset = self.offset.clamp(lowest, self.cursor);
        }
        self.offset = self.offset.min(self.lines.len().saturating_sub(page));
    }

    fn hold_detail(&mut self) {
        if let Some(detail) = &mut self.detail {
            let key = &detail.line.item.key;
            let found = self.lines.iter().find(|line| line.item.key == *key);
            detail.gone = found.is_none();
            if let Some(line) = found {
                detail.line = line.clone();
            }
        }
    }
}
