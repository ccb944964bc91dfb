//! Key bindings. One table drives the dispatcher, the footer and the help.

use noctule_model::Level;
use ratatui::crossterm::event::{
    Event, KeyCode, KeyEventKind, KeyModifiers, MouseButton, MouseEventKind,
};

use super::travel::Travel;
use crate::table::View;

/// The part of the screen that receives keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    #[default]
    Table,
    /// The input line of the filter.
    Filter,
    /// The input line for a moment of a recording.
    Goto,
    /// The pane of one row.
    Detail,
    Help,
    /// The matrix of victims and culprits.
    Blame,
    /// The pane of CPUs.
    Cpus,
    /// The pane of columns.
    Columns,
}

/// A key press.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Press {
    pub(crate) code: KeyCode,
    /// Whether Ctrl is held.
    pub(crate) ctrl: bool,
}

/// A movement in the table or in a pane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Motion {
    /// One line up.
    Up,
    /// One line down.
    Down,
    /// One screen up.
    PageUp,
    /// One screen down.
    PageDown,
    /// To the first line.
    Home,
    /// To the last line.
    End,
}

/// The effect of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Ends the program.
    Quit,
    /// Opens or closes the help.
    Help,
    /// Opens the filter line.
    Filter,
    /// Opens the pane of the selected row, or of the first row.
    Open,
    /// Opens or closes the matrix of victims and culprits.
    Blame,
    /// Opens or closes the pane of CPUs.
    Cpus,
    /// Opens or closes the pane of columns.
    Columns,
    /// Shows or hides the marked column.
    Toggle,
    /// Sorts by the marked column and closes the pane.
    Choose,
    /// Freezes or resumes the display.
    Pause,
    /// Switches to the view, or back to the overview.
    View(View),
    /// Switches between tree and flat list.
    Tree,
    /// Adds up the processes of each command, or shows them one by one.
    Merge,
    /// Collapses the selected row of the tree.
    Collapse,
    /// Expands the selected row of the tree.
    Expand,
    /// Sorts by the next column.
    SortNext,
    /// Sorts by the previous column.
    SortPrevious,
    /// Reverses the order.
    Reverse,
    /// Shows the level.
    Level(Level),
    /// Shows the next level.
    LevelNext,
    /// Shows the previous level.
    LevelPrevious,
    /// Moves the selection, or scrolls the pane.
    Move(Motion),
    /// Closes the open pane or input line. If none is open, clears the filter, then the selection.
    Back,
    /// Leaves the filter line and keeps the filter.
    Accept,
    /// Removes the last character of the filter.
    Erase,
    /// Removes the whole filter.
    EraseAll,
    /// Adds a character to the filter.
    Type(char),
    /// Opens the input line for a moment of a recording.
    Goto,
    /// Moves to another place in a recording.
    Travel(Travel),
    /// Plays a recording, faster with each press.
    Play,
}

/// A mouse action and its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pointer {
    /// The action.
    pub(crate) what: Pointed,
    /// Column on the screen.
    pub(crate) x: u16,
    /// Line on the screen.
    pub(crate) y: u16,
}

/// A mouse action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pointed {
    /// The left button was pressed.
    Click,
    /// The wheel was turned up.
    Up,
    /// The wheel was turned down.
    Down,
}

impl Pointer {
    /// Returns the mouse action of a terminal event, if it has a meaning here.
    pub(crate) fn from_event(event: &Event) -> Option<Self> {
        let mouse = event.as_mouse_event()?;
        let what = match mouse.kind {
            MouseEventKind::Down(MouseButton::Left) => Pointed::Click,
            MouseEventKind::ScrollUp => Pointed::Up,
            MouseEventKind::ScrollDown => Pointed::Down,
            _ => return None,
        };
        Some(Self {
            what,
            x: mouse.column,
            y: mouse.row,
        })
    }
}

/// Keys that have the same effect.
pub(crate) struct Binding {
    /// The keys. The footer shows the first key.
    pub(crate) keys: &'static [Press],
    /// The modes in which the keys are active.
    pub(crate) modes: &'static [Mode],
    /// The effect.
    pub(crate) action: Action,
    /// The effect in words; empty if the previous line of the help describes it.
    pub(crate) help: &'static str,
    /// The label in the footer, if it appears there.
    pub(crate) footer: Option<&'static str>,
}

const fn key(code: KeyCode) -> Press {
    Press { code, ctrl: false }
}

const fn char(c: char) -> Press {
    key(KeyCode::Char(c))
}

const fn ctrl(c: char) -> Press {
    Press {
        code: KeyCode::Char(c),
        ctrl: true,
    }
}

const TABLE: &[Mode] = &[Mode::Table];
const FILTER: &[Mode] = &[Mode::Filter];
const GOTO: &[Mode] = &[Mode::Goto];
const COLUMNS: &[Mode] = &[Mode::Columns];
const PANES: &[Mode] = &[
    Mode::Detail,
    Mode::Help,
    Mode::Blame,
    Mode::Cpus,
    Mode::Columns,
];
/// The modes with the keys of views and levels. These keys replace the open pane.
#[rustfmt::skip]
const SHOWING: &[Mode] = &[Mode::Table, Mode::Detail, Mode::Blame, Mode::Cpus];
const CHOOSING: &[Mode] = &[Mode::Table, Mode::Columns];
const NOT_CHOOSING: &[Mode] = &[
    Mode::Table,
    Mode::Detail,
    Mode::Help,
    Mode::Blame,
    Mode::Cpus,
];
#[rustfmt::skip]
const NOT_TYPING: &[Mode] = &[Mode::Table, Mode::Detail, Mode::Help, Mode::Blame, Mode::Cpus, Mode::Columns];
#[rustfmt::skip]
const EVERYWHERE: &[Mode] = &[Mode::Table, Mode::Detail, Mode::Help, Mode::Blame, Mode::Cpus, Mode::Columns, Mode::Filter, Mode::Goto];

const fn bind(
    keys: &'static [Press],
    modes: &'static [Mode],
    action: Action,
    help: &'static str,
    footer: Option<&'static str>,
) -> Binding {
    Binding {
        keys,
        modes,
        action,
        help,
        footer,
    }
}

/// All key bindings, in the order of the help and the footer. A narrow terminal cuts the footer at
/// the right.
#[rustfmt::skip]
pub(crate) const KEYS: &[Binding] = &[
    bind(&[char('q')], NOT_TYPING, Action::Quit, "quit", Some("quit")),
    bind(&[ctrl('c')], EVERYWHERE, Action::Quit, "quit, also while typing", None),
    bind(&[char('?'), char('h')], NOT_TYPING, Action::Help, "open or close this help", Some("help")),
    bind(&[char(' ')], COLUMNS, Action::Toggle, "show or hide the column", Some("show/hide")),
    bind(&[key(KeyCode::Enter)], COLUMNS, Action::Choose, "sort by the column", Some("sort by it")),
    bind(&[key(KeyCode::Esc)], PANES, Action::Back, "close the pane", Some("close")),
    bind(&[char('/')], TABLE, Action::Filter, "filter by any name or pid", Some("filter")),
    bind(&[key(KeyCode::Enter)], TABLE, Action::Open, "details of the selected row", Some("details")),
    bind(&[char('a')], SHOWING, Action::View(View::Overview), "overview: who is hurt, why", None),
    bind(&[char('U')], SHOWING, Action::View(View::Use), "CPU use, and back", Some("CPU use")),
    bind(&[char('w')], SHOWING, Action::View(View::Waits), "waits, and back", Some("waits")),
    bind(&[char('e')], SHOWING, Action::View(View::Energy), "energy, and back", Some("energy")),
    bind(&[char('b')], SHOWING, Action::Blame, "victims and their culprits", Some("blame")),
    bind(&[char('C')], SHOWING, Action::Cpus, "each CPU and its main group", Some("CPUs")),
    bind(&[char(' ')], NOT_CHOOSING, Action::Pause, "freeze; collection continues", Some("pause")),
    bind(&[key(KeyCode::Tab)], SHOWING, Action::LevelNext, "next level", Some("level")),
    bind(&[key(KeyCode::BackTab)], SHOWING, Action::LevelPrevious, "previous level", None),
    bind(&[char('1'), char('p')], SHOWING, Action::Level(Level::Process), "processes", None),
    bind(&[char('2'), char('c')], SHOWING, Action::Level(Level::Container), "containers; or unit, cgroup", None),
    bind(&[char('3'), char('u')], SHOWING, Action::Level(Level::Unit), "systemd units; or cgroup", None),
    bind(&[char('4'), char('o')], SHOWING, Action::Level(Level::Pod), "pods; or container, unit", None),
    bind(&[char('5'), char('g')], SHOWING, Action::Level(Level::Cgroup), "cgroups, each on its own", None),
    bind(&[char('f')], CHOOSING, Action::Columns, "columns: show, hide, sort", Some("columns")),
    bind(&[char('s'), char('>')], TABLE, Action::SortNext, "sort by the next column", Some("sort")),
    bind(&[char('<')], TABLE, Action::SortPrevious, "sort by the previous column", None),
    bind(&[char('r')], CHOOSING, Action::Reverse, "reverse the order", Some("reverse")),
    bind(&[char('t')], TABLE, Action::Tree, "tree; rows sum their subtree", Some("tree")),
    bind(&[char('m')], TABLE, Action::Merge, "one row for each command", None),
    bind(&[key(KeyCode::Left), char('-')], TABLE, Action::Collapse, "collapse the row", None),
    bind(&[key(KeyCode::Right), char('+')], TABLE, Action::Expand, "expand the row", None),
    bind(&[key(KeyCode::Up), char('k')], NOT_TYPING, Action::Move(Motion::Up), "up", None),
    bind(&[key(KeyCode::Down), char('j')], NOT_TYPING, Action::Move(Motion::Down), "down", None),
    bind(&[key(KeyCode::PageUp)], NOT_TYPING, Action::Move(Motion::PageUp), "one screen up", None),
    bind(&[key(KeyCode::PageDown)], NOT_TYPING, Action::Move(Motion::PageDown), "one screen down", None),
    bind(&[key(KeyCode::Home)], NOT_TYPING, Action::Move(Motion::Home), "go to the first row", None),
    bind(&[key(KeyCode::End)], NOT_TYPING, Action::Move(Motion::End), "go to the last row", None),
    bind(&[key(KeyCode::Esc)], TABLE, Action::Back, "clear filter, then selection", None),
    bind(&[key(KeyCode::Enter)], FILTER, Action::Accept, "keep the filter, stop typing", Some("keep")),
    bind(&[key(KeyCode::Esc)], FILTER, Action::Back, "clear the filter", Some("clear")),
    bind(&[key(KeyCode::Backspace)], FILTER, Action::Erase, "delete the last character", None),
    bind(&[ctrl('u')], FILTER, Action::EraseAll, "delete all", None),
];

/// Number of bindings that are listed before the bindings of a recording: quit and help.
const FIRST: usize = 3;

/// Key bindings of a recording. These bindings take precedence over [`KEYS`].
#[rustfmt::skip]
pub(crate) const TRAVEL_KEYS: &[Binding] = &[
    bind(&[key(KeyCode::Left)], TABLE, Action::Travel(Travel::Back), "one batch back", Some("back")),
    bind(&[key(KeyCode::Right)], TABLE, Action::Travel(Travel::On), "one batch forward", Some("on")),
    bind(&[char('[')], NOT_TYPING, Action::Travel(Travel::Minutes(-1)), "one minute back", Some("-1m")),
    bind(&[char(']')], NOT_TYPING, Action::Travel(Travel::Minutes(1)), "one minute forward", Some("+1m")),
    bind(&[char('g')], SHOWING, Action::Goto, "go to a time: 03:10, -10m", Some("go to")),
    bind(&[char('p')], NOT_TYPING, Action::Play, "play; again: up to 60x", Some("play")),
    bind(&[char(' ')], NOT_CHOOSING, Action::Pause, "stop, or play", None),
    bind(&[char('v')], NOT_TYPING, Action::Travel(Travel::Verdict), "go to the next verdict", Some("verdict")),
    bind(&[key(KeyCode::Enter)], GOTO, Action::Accept, "go to the time", Some("go")),
    bind(&[key(KeyCode::Esc)], GOTO, Action::Back, "keep current time", Some("stay")),
    bind(&[key(KeyCode::Backspace)], GOTO, Action::Erase, "delete the last character", None),
    bind(&[ctrl('u')], GOTO, Action::EraseAll, "delete all", None),
];

/// Returns the key bindings with their labels. For a recording, keys that it overrides are left
/// out.
pub(crate) fn bindings(recorded: bool) -> Vec<(&'static Binding, Vec<String>)> {
    let own = if recorded { TRAVEL_KEYS } else { &[] };
    let is_own = |press: &Press, binding: &Binding| {
        let covers = |own: &Binding| binding.modes.iter().all(|mode| own.modes.contains(mode));
        own.iter().any(|it| it.keys.contains(press) && covers(it))
    };
    let not_own = |binding: &'static Binding| {
        let keys = binding.keys.iter().filter(|press| !is_own(press, binding));
        let labels: Vec<String> = keys.map(Press::label).collect();
        (!labels.is_empty()).then_some((binding, labels))
    };
    let labels = |binding: &'static Binding| {
        let labels = binding.keys.iter().map(Press::label);
        (binding, labels.collect::<Vec<_>>())
    };
    let (first, others) = KEYS.split_at(FIRST);
    let own = own.iter().map(labels);
    let first = first.iter().filter_map(not_own);
    let others = others.iter().filter_map(not_own);
    first.chain(own).chain(others).collect()
}

/// Returns the action of the key in the mode. In an input line, every unbound character is text.
pub(crate) fn action(mode: Mode, press: Press, recorded: bool) -> Option<Action> {
    let own = if recorded { TRAVEL_KEYS } else { &[] };
    let bound = own
        .iter()
        .chain(KEYS)
        .find(|b| b.modes.contains(&mode) && b.keys.contains(&press));
    match (bound, mode, press) {
        (Some(binding), ..) => Some(binding.action),
        (
            None,
            Mode::Filter | Mode::Goto,
            Press {
                code: KeyCode::Char(c),
                ctrl: false,
            },
        ) if !c.is_control() => Some(Action::Type(c)),
        _ => None,
    }
}

impl Press {
    /// Returns the key press of a terminal event, if the event is one. Shift is part of the
    /// character. A key pressed with Alt is not treated as that key.
    pub(crate) fn from_event(event: &Event) -> Option<Self> {
        let key = event.as_key_event()?;
        let plain = key
            .modifiers
            .difference(KeyModifiers::SHIFT | KeyModifiers::CONTROL);
        let pressed = key.kind != KeyEventKind::Release && plain.is_empty();
        pressed.then_some(Self {
            code: key.code,
            ctrl: key.modifiers.contains(KeyModifiers::CONTROL),
        })
    }

    /// Returns the name of the key.
    pub(crate) fn label(&self) -> String {
        let name = match self.code {
            KeyCode::Char(' ') => "Space".to_owned(),
            KeyCode::Char(c) if self.ctrl => c.to_uppercase().to_string(),
            KeyCode::Char(c) => c.to_string(),
            KeyCode::Up => "↑".to_owned(),
            KeyCode::Down => "↓".to_owned(),
            KeyCode::Left => "←".to_owned(),
            KeyCode::Right => "→".to_owned(),
            KeyCode::PageUp => "PgUp".to_owned(),
            KeyCode::PageDown => "PgDn".to_owned(),
            KeyCode::BackTab => "Shift-Tab".to_owned(),
            other => format!("{other:?}"),
        };
        if self.ctrl {
            format!("Ctrl-{name}")
        } else {
            name
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::crossterm::event::KeyEvent;

    #[test]
    fn every_key_does_what_its_help_says() {
        for binding in KEYS {
            assert!(!binding.keys.is_empty() && !binding.modes.is_empty());
            assert!(!binding.help.is_empty());
            for &mode in binding.modes {
                for &press in binding.keys {
                    let label = press.label();
                    assert_eq!(
                        action(mode, press, false),
                        Some(binding.action),
                        "{label} {mode:?}"
                    );
                    assert!(label.len() <= 9, "{label} is too long for the help");
                }
            }
        }
    }

    #[test]
    fn keys_of_a_recording_take_precedence() {
        for binding in TRAVEL_KEYS {
            for (&mode, press) in binding.modes.iter().flat_map(|mode| {
                let keys = binding.keys.iter();
                keys.map(move |press| (mode, press))
            }) {
                assert_eq!(action(mode, *press, true), Some(binding.action));
            }
        }
        // The help lists each key once per mode.
        let mut seen = std::collections::HashSet::new();
        for (binding, labels) in bindings(true) {
            for (mode, label) in binding.modes.iter().flat_map(|mode| {
                let labels = labels.iter().cloned();
                labels.map(move |label| (format!("{mode:?}"), label))
            }) {
                assert!(
                    seen.insert((mode.clone(), label.clone())),
                    "{label} in {mode}"
                );
            }
        }
    }

    #[test]
    fn typing_takes_every_character_but_ctrl_c_still_quits() {
        for c in ['q', '?', '/', ' ', 'é', '1'] {
            assert_eq!(action(Mode::Filter, char(c), false), Some(Action::Type(c)));
        }
        assert_eq!(action(Mode::Filter, ctrl('c'), false), Some(Action::Quit));
        assert_eq!(action(Mode::Filter, ctrl('x'), false), None);
    }

    #[test]
    fn shift_belongs_to_the_character_but_alt_does_not() {
        let event = |c, modifiers| Event::Key(KeyEvent::new(KeyCode::Char(c), modifiers));
        assert_eq!(
            Press::from_event(&event('?', KeyModifiers::SHIFT)),
            Some(char('?'))
        );
        assert_eq!(Press::from_event(&event('q', KeyModifiers::ALT)), None);
        assert_eq!(
            Press::from_event(&event('c', KeyModifiers::CONTROL)),
            Some(ctrl('c'))
        );
        assert_eq!(Press::from_event(&Event::FocusLost), None);
    }
}
