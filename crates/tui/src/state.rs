//! The state: received data and the user's choices. The state does not depend on a terminal.

mod choose;
pub(crate) mod keys;
pub(crate) mod layout;
mod options;
mod selection;
pub(crate) mod travel;

use std::collections::HashSet;
use std::time::Duration;

use noctule_model::{Batch, Level, Reason};
use noctule_text::{clock, escape};
use ratatui::layout::Size;

use self::keys::{Action, Mode, Pointer, Press};
use self::layout::{Areas, Wanted};
pub use self::options::{About, Files, NoFiles, Options, View};
pub use self::travel::Moment;
use self::travel::{Fresh, Place, Travel};
use crate::data::Data;
use crate::data::commands::Commands;
use crate::data::history::LENGTH;
use crate::data::level::{self, Key, LEVELS};
use crate::data::waits::{self, LastVerdict};
use crate::table::columns::{self, COLUMNS};
use crate::table::headline::{Headline, headline};
use crate::table::lines::{self, Branch, Line, Wish};
use crate::table::{Charged, Facts, Item};

/// Maximum length of the filter, in characters.
const MAX_FILTER: usize = 128;

/// An event that changes the state.
#[derive(Debug)]
pub(crate) enum Input {
    /// A key was pressed.
    Key(Press),
    /// The mouse was used.
    Mouse(Pointer),
    /// The next batch arrived.
    Batch(Box<Batch>),
    /// The position in the recording changed, or more of the recording was read.
    Place(Box<Fresh>),
    /// The terminal was resized.
    Size(Size),
}

/// Returns the number of lines of the open pane at a width; 0 if none is open. `draw` implements
/// it.
pub(crate) type PaneHeight = fn(&App, u16) -> usize;

/// The row that the detail pane shows.
#[derive(Clone, Debug)]
pub(crate) struct Detail {
    /// The row when it was last in the table.
    pub(crate) line: Line,
    /// Whether the row has left the table.
    pub(crate) gone: bool,
    /// Facts read from files about the row.
    pub(crate) about: Vec<(&'static str, String)>,
}

/// The whole state.
#[derive(Clone, Debug)]
pub(crate) struct App {
    /// Name of the machine, safe for a terminal.
    pub(crate) hostname: String,
    /// Whether colours are allowed.
    pub(crate) color: bool,
    /// Whether the terminal can show only ASCII.
    pub(crate) ascii: bool,
    pub(crate) about: About,
    /// Time between two batches.
    pub(crate) interval: Duration,
    /// Difference between local time and UTC; see [`Options`].
    pub(crate) utc_offset: fn(u64) -> i32,
    /// The data on the screen.
    pub(crate) shown: Data,
    /// Data received since the pause; `None` if there is none.
    live: Option<Data>,
    /// Whether the screen is frozen.
    pub(crate) paused: bool,
    /// The current view.
    pub(crate) view: View,
    /// The level that the user chose; see [`App::level`].
    wished: Level,
    /// Position in [`COLUMNS`] of the column that the user chose to sort by.
    sort: usize,
    /// Whether the largest value comes first.
    pub(crate) descending: bool,
    /// Sort column and direction of each view, in the order of [`View`]. The current view uses
    /// `sort` and `descending` instead.
    orders: [(usize, bool); 4],
    /// Whether the user asked for a tree. Not every level has one.
    pub(crate) tree: bool,
    /// Whether the processes of a command are one row.
    pub(crate) merged: bool,
    collapsed: HashSet<Key>,
    /// Positions in [`COLUMNS`] of hidden columns.
    pub(crate) hidden: HashSet<usize>,
    /// The marked line in the pane of columns.
    pub(crate) marked: usize,
    /// Text that rows must contain.
    pub(crate) filter: String,
    /// The part of the screen that receives keys.
    pub(crate) mode: Mode,
    /// First visible line of the pane.
    pub(crate) scroll: usize,
    /// The row shown in the detail pane.
    pub(crate) detail: Option<Detail>,
    /// The row shown to the right of a wide overview.
    pub(crate) beside: Option<Detail>,
    /// The commands of each group, in the overview and in the view of waits.
    pub(crate) commands: Commands,
    /// The selected row. `None` until the user selects a row, so that the table keeps showing its
    /// first row.
    selected: Option<Key>,
    /// Last position of the selected row, which is used when the row has disappeared.
    cursor: usize,
    /// First visible line of the table.
    pub(crate) offset: usize,
    size: Size,
    pane_height: PaneHeight,
    /// The lines of the table.
    pub(crate) lines: Vec<Line>,
    /// The position in the recording, if a recording is shown.
    pub(crate) place: Option<Place>,
    /// Whether the user wants to quit.
    pub(crate) quit: bool,
}

impl App {
    /// Creates the state before the first batch.
    pub(crate) fn new(options: &Options, size: Size, pane_height: PaneHeight) -> Self {
        let mut app = Self {
            hostname: escape(&options.hostname),
            color: options.color,
            ascii: options.ascii,
            about: options.about.clone(),
            hidden: HashSet::new(),
            marked: 0,
            interval: options.interval,
            utc_offset: options.utc_offset,
            shown: Data::new(
                options.interval,
                options.thresholds,
                options.selection.clone(),
            ),
            live: None,
            paused: false,
            view: View::Overview,
            wished: options.level,
            sort: columns::VERDICT,
            descending: true,
            orders: View::ALL.map(|view| (default_sort(view), true)),
            tree: false,
            merged: options.by_command,
            collapsed: HashSet::new(),
            filter: String::new(),
            mode: Mode::Table,
            scroll: 0,
            detail: None,
            beside: None,
            commands: Commands::default(),
            selected: None,
            cursor: 0,
            offset: 0,
            size,
            pane_height,
            lines: Vec::new(),
            place: None,
            quit: false,
        };
        app.turn(options.view);
        app
    }

    /// Changes the state to the state of a recording with the given end.
    pub(crate) fn recorded(mut self, options: &Options, end_unix_ns: u64) -> Self {
        self.place = Some(Place::new(end_unix_ns, options.moment));
        self
    }

    /// Takes the position in the recording to which the user wants to move.
    pub(crate) fn take_travel(&mut self) -> Option<Travel> {
        self.place.as_mut()?.wish.take()
    }

    /// Returns the state after the input.
    pub(crate) fn step(mut self, input: Input) -> Self {
        match input {
            Input::Key(press) => {
                if let Some(action) = keys::action(self.mode, press, self.place.is_some()) {
                    self.act(action);
                }
            }
            Input::Mouse(pointer) => self.point(pointer),
            Input::Batch(batch) if self.paused => {
                let shown = &self.shown;
                self.live.get_or_insert_with(|| shown.clone()).push(*batch);
                return self;
            }
            Input::Batch(batch) => {
                self.shown.push(*batch);
                for detail in self.detail.iter_mut().chain(&mut self.beside) {
                    detail.about = self.about.0.about(&detail.line.item.row);
                }
            }
            Input::Place(fresh) => {
                let fresh = *fresh;
                self.shown = fresh.data;
                if let Some(place) = &mut self.place {
                    place.time_unix_ns = fresh.time_unix_ns;
                    place.speed = fresh.speed;
                    place.busy = fresh.busy;
                }
            }
            Input::Size(size) => self.size = size,
        }
        self.refresh();
        self
    }

    /// Returns the part of the state that columns need.
    pub(crate) fn facts(&self) -> Facts {
        let window = self.shown.window.as_ref();
        Facts {
            view: self.view,
            level: self.level(),
            window_ns: window.map_or(0, |w| w.length_ns),
            measured: window.map_or_else(Default::default, |w| w.measured),
            charged: window
                .and_then(|w| w.energy.as_ref())
                .map_or_else(Default::default, |energy| Charged::new(&energy.kinds)),
            nominal_hertz: window.and_then(|w| w.node.nominal_hertz),
            has_files: self.about.0.exist() && !self.is_tree(),
        }
    }

    /// Returns the position in [`COLUMNS`] of the sort column. If the level lacks the column that
    /// the user chose, this is the view's default.
    pub(crate) fn sort(&self) -> usize {
        match COLUMNS[self.sort].is_available(&self.facts()) {
            true => self.sort,
            false if COLUMNS[default_sort(self.view)].is_available(&self.facts()) => {
                default_sort(self.view)
            }
            // The default is the verdict, which processes do not have.
            false => columns::CPU,
        }
    }

    /// Returns the level of the rows. Waits are not recorded per process, so the view of waits
    /// shows containers instead.
    pub(crate) fn level(&self) -> Level {
        match self.view {
            View::Overview | View::Use | View::Energy => self.wished,
            View::Waits => waits::level(self.wished),
        }
    }

    /// Returns whether the view lacks the level that the user chose.
    pub(crate) fn falls_back(&self) -> bool {
        self.level() != self.wished
    }

    /// Returns the time span of the graphs, in nanoseconds.
    pub(crate) fn span_ns(&self) -> f64 {
        self.interval.as_nanos() as f64 * LENGTH as f64
    }

    /// Formats a moment as local time of day.
    pub(crate) fn clock(&self, unix_ns: u64) -> String {
        clock(unix_ns, (self.utc_offset)(unix_ns))
    }

    /// Returns whether rows are shown as a tree.
    pub(crate) fn is_tree(&self) -> bool {
        self.tree && self.view != View::Waits && level::has_tree(self.level())
    }

    /// Returns the parts of the screen.
    pub(crate) fn areas(&self) -> Areas {
        self.areas_of(self.size)
    }

    /// Returns the parts of a screen of the given size.
    pub(crate) fn areas_of(&self, size: Size) -> Areas {
        let table = matches!(self.mode, Mode::Table | Mode::Filter | Mode::Goto);
        let overview = self.view == View::Overview;
        let wanted = Wanted {
            warning: self.shown.warning().is_some(),
            zones: self.zones(),
            headline: match overview {
                true => self.headline(size).len() as u16,
                false => 0,
            },
            side: overview && table,
        };
        let areas = layout::areas(size, wanted);
        match self.mode {
            Mode::Help => areas.covered(),
            _ => areas,
        }
    }

    /// Returns the headline of the overview.
    pub(crate) fn verdict(&self) -> Headline {
        headline(&self.shown, self.level(), |last, level| {
            self.reason(last, level)
        })
    }

    /// Explains a verdict, with the commands behind it and the weights of the group and its culprit.
    pub(crate) fn reason(&self, last: &LastVerdict, level: Level) -> Reason {
        let mut reason = self.commands.complete(last.reason(level), level);
        let paths = last.row().paths();
        reason.settings.rivals = paths.and_then(|(own, culprit)| self.about.0.rivals(own, culprit));
        reason
    }

    /// Returns the lines of the headline on a screen of this size. The flag of a line is true if
    /// the line is part of the advice.
    pub(crate) fn headline(&self, size: Size) -> Vec<(String, bool)> {
        let room = usize::from(size.width).saturating_sub(2);
        let most = usize::from(layout::most_headline(size.height));
        self.verdict().lines(room, most)
    }

    /// Returns the number of lines that the zones take above the table: a heading, and one line for
    /// each zone.
    pub(crate) fn zones(&self) -> u16 {
        let energy = self.shown.window.as_ref().and_then(|w| w.energy.as_ref());
        match (self.view, energy) {
            (View::Energy, Some(energy)) => 1 + energy.zones.len() as u16,
            _ => 0,
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Quit => self.quit = true,
            Action::Help => self.toggle_help(),
            Action::Filter => self.mode = Mode::Filter,
            Action::Open => self.open(),
            Action::Blame => self.toggle(Mode::Blame),
            Action::Cpus => self.toggle(Mode::Cpus),
            Action::Columns => self.toggle(Mode::Columns),
            Action::Toggle => self.toggle_column(),
            Action::Choose => self.choose_column(),
            Action::Pause => self.pause(),
            Action::View(view) if self.view == view => self.turn(View::Overview),
            Action::View(view) => self.turn(view),
            Action::Tree => self.tree = !self.tree,
            Action::Merge => self.merged = !self.merged,
            Action::Collapse => self.collapse(true),
            Action::Expand => self.collapse(false),
            Action::SortNext => self.sort_by(1),
            Action::SortPrevious => self.sort_by(COLUMNS.len() - 1),
            Action::Reverse => self.descending = !self.descending,
            Action::Level(level) => self.show(level),
            Action::LevelNext => self.show(self.level_after(1)),
            Action::LevelPrevious => self.show(self.level_after(LEVELS.len() - 1)),
            Action::Move(motion) if self.mode == Mode::Table => self.select(motion),
            Action::Move(motion) if self.mode == Mode::Columns => self.mark(motion),
            Action::Move(motion) => self.scroll(motion),
            Action::Back => self.back(),
            Action::Accept => self.accept(),
            Action::Erase => drop(self.typed().pop()),
            Action::EraseAll => self.typed().clear(),
            Action::Type(c) if self.typed().chars().count() < MAX_FILTER => self.typed().push(c),
            Action::Type(_) => {}
            Action::Goto => self.mode = Mode::Goto,
            Action::Travel(travel) => self.travel(travel),
            Action::Play => self.place.iter_mut().for_each(Place::play),
        }
    }

    /// Returns the text being typed.
    fn typed(&mut self) -> &mut String {
        match (self.mode, &mut self.place) {
            (Mode::Goto, Some(place)) => &mut place.typed,
            _ => &mut self.filter,
        }
    }

    fn accept(&mut self) {
        let accepted = match (self.mode, &mut self.place) {
            (Mode::Goto, Some(place)) => place.accept(),
            _ => true,
        };
        if accepted {
            self.mode = Mode::Table;
        }
    }

    fn travel(&mut self, travel: Travel) {
        if let Some(place) = &mut self.place {
            place.wish = Some(travel);
        }
    }

    fn pause(&mut self) {
        if let Some(place) = &mut self.place {
            place.pause();
            return;
        }
        self.paused = !self.paused;
        if let Some(live) = self.live.take() {
            self.shown = live;
        }
    }

    fn level_after(&self, steps: usize) -> Level {
        LEVELS[(level::index(self.level()) + steps) % LEVELS.len()]
    }

    fn show(&mut self, level: Level) {
        let before = self.level();
        self.wished = level;
        if self.mode == Mode::Detail {
            // The row in the pane has another level.
            self.back();
        }
        if self.level() != before {
            self.unselect();
        }
    }

    /// Switches to the view, and closes the open pane. The selected row stays selected if the view
    /// contains it.
    fn turn(&mut self, view: View) {
        self.mode = Mode::Table;
        self.detail = None;
        self.orders[self.view as usize] = (self.sort, self.descending);
        self.view = view;
        (self.sort, self.descending) = self.orders[view as usize];
        self.list();
        if self.selected().is_none() {
            self.unselect();
        }
    }

    fn sort_by(&mut self, steps: usize) {
        let facts = self.facts();
        let mut next = self.sort();
        loop {
            next = (next + steps) % COLUMNS.len();
            if COLUMNS[next].is_available(&facts) && COLUMNS[next].sorts() {
                break;
            }
        }
        self.order_by(next);
    }

    /// Sorts by a column, in its default direction.
    pub(super) fn order_by(&mut self, column: usize) {
        self.sort = column;
        self.descending = COLUMNS[column].descends();
    }

    fn collapse(&mut self, collapse: bool) {
        let Some(line) = self.selected().map(|i| &self.lines[i]) else {
            return;
        };
        match (collapse, line.branch) {
            (true, Branch::Open) => drop(self.collapsed.insert(line.item.key.clone())),
            (false, Branch::Collapsed) => drop(self.collapsed.remove(&line.item.key)),
            _ => {}
        }
    }

    fn open(&mut self) {
        if let Some(line) = self.lines.get(self.selected().unwrap_or(0)) {
            self.selected = Some(line.item.key.clone());
            self.detail = Some(Detail {
                about: self.about.0.about(&line.item.row),
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
            Mode::Blame | Mode::Cpus | Mode::Columns => self.mode = Mode::Table,
            Mode::Detail => {
                self.mode = Mode::Table;
                self.detail = None;
            }
            Mode::Filter => {
                self.mode = Mode::Table;
                self.filter.clear();
            }
            Mode::Goto => {
                self.mode = Mode::Table;
                if let Some(place) = &mut self.place {
                    place.typed.clear();
                    place.refused = None;
                }
            }
            Mode::Table if self.filter.is_empty() => self.unselect(),
            Mode::Table => self.filter.clear(),
        }
    }

    /// Updates all derived state.
    fn refresh(&mut self) {
        self.list();
        self.hold_selection();
        self.hold_detail();
        self.update_side_pane();
        let areas = self.areas();
        self.look_up(areas.body.height.into());
        let all = (self.pane_height)(self, areas.pane.width);
        let hidden = all.saturating_sub(usize::from(areas.pane.height));
        self.scroll = self.scroll.min(hidden);
    }

    /// Reads the files of the rows on a page of this height. In a tree, a row stands for its
    /// descendants, so it has no such facts.
    fn look_up(&mut self, page: usize) {
        let (level, is_tree) = (self.level(), self.is_tree());
        let shown = self.lines.iter_mut().skip(self.offset).take(page);
        for line in shown.filter(|_| !is_tree && self.view == View::Overview) {
            let Item { row, .. } = &line.item;
            let (user, bytes) = (
                self.about.0.user(row),
                self.about.0.resident_bytes(row, level),
            );
            (line.item.user, line.item.resident_bytes) = (user, bytes);
        }
    }

    /// Rebuilds the list of rows.
    fn list(&mut self) {
        self.commands = match self.view {
            View::Overview | View::Waits => Commands::new(&self.shown, waits::level(self.level())),
            _ => Commands::default(),
        };
        let wish = Wish {
            commands: &self.commands,
            facts: self.facts(),
            filter: &self.filter.to_lowercase(),
            column: &COLUMNS[self.sort()],
            descending: self.descending,
            tree: self.is_tree(),
            merged: self.merged,
            collapsed: &self.collapsed,
        };
        self.lines = lines::lines(&self.shown, &wish);
    }
}

/// Returns the position in [`COLUMNS`] of the default sort column of a view.
const fn default_sort(view: View) -> usize {
    match view {
        View::Overview => columns::VERDICT,
        View::Use => columns::CPU,
        View::Waits => columns::WAIT,
        View::Energy => columns::WATTS,
    }
}
