//! Choices made in panes and with the mouse: columns, rows, sort order.

use super::App;
use crate::state::keys::{Mode, Motion, Pointed, Pointer};
use crate::table::Cell;
use crate::table::columns::COLUMNS;
use crate::table::fit;

/// Lines scrolled by one turn of the wheel.
const WHEEL: usize = 3;

impl App {
    /// Opens or closes a pane.
    pub(super) fn toggle(&mut self, pane: Mode) {
        self.scroll = 0;
        self.detail = None;
        self.mode = if self.mode == pane { Mode::Table } else { pane };
        if self.mode == Mode::Columns {
            let sort = self.sort();
            let there = self.choices();
            self.marked = there.iter().position(|&i| i == sort).unwrap_or(0);
        }
    }

    /// Returns the positions of the columns that the current view offers.
    pub(crate) fn choices(&self) -> Vec<usize> {
        let facts = self.facts();
        let there = |&i: &usize| COLUMNS[i].is_available(&facts);
        (0..COLUMNS.len()).filter(there).collect()
    }

    /// Moves the mark, and scrolls the pane with it.
    pub(super) fn mark(&mut self, motion: Motion) {
        let last = self.choices().len().saturating_sub(1);
        let page = usize::from(self.areas().pane.height).max(1);
        let to = match motion {
            Motion::Home => 0,
            Motion::End => last,
            Motion::Up => self.marked.saturating_sub(1),
            Motion::Down => self.marked + 1,
            Motion::PageUp => self.marked.saturating_sub(page),
            Motion::PageDown => self.marked + page,
        };
        self.marked = to.min(last);
        // The first line is a heading, and the columns follow.
        let least = (self.marked + 2).saturating_sub(page);
        self.scroll = self.scroll.clamp(least, self.marked.max(least));
    }

    /// Shows or hides the marked column. The name cannot be hidden.
    pub(super) fn toggle_column(&mut self) {
        let Some(&column) = self.choices().get(self.marked) else {
            return;
        };
        if !matches!(COLUMNS[column].cell, Cell::Name) && !self.hidden.remove(&column) {
            self.hidden.insert(column);
        }
    }

    /// Sorts by the marked column and closes the pane.
    pub(super) fn choose_column(&mut self) {
        let chosen = self.choices().get(self.marked).copied();
        if let Some(column) = chosen.filter(|&column| COLUMNS[column].sorts()) {
            self.order_by(column);
            self.mode = Mode::Table;
        }
    }

    /// Handles a click or a turn of the wheel. A click on a heading sorts by that column or
    /// reverses the order. A click on a row selects it, and opens it if it is already selected.
    pub(super) fn point(&mut self, pointer: Pointer) {
        match (pointer.what, self.mode) {
            (Pointed::Up, Mode::Table | Mode::Filter | Mode::Goto) => {
                self.offset = self.offset.saturating_sub(WHEEL);
                self.keep_on_screen();
            }
            (Pointed::Down, Mode::Table | Mode::Filter | Mode::Goto) => {
                self.offset += WHEEL;
                self.keep_on_screen();
            }
            (Pointed::Up, _) => self.turn_wheel(Motion::Up),
            (Pointed::Down, _) => self.turn_wheel(Motion::Down),
            (Pointed::Click, Mode::Table) => self.click(pointer),
            (Pointed::Click, _) => {}
        }
    }

    fn turn_wheel(&mut self, motion: Motion) {
        for _ in 0..WHEEL {
            match self.mode {
                Mode::Columns => self.mark(motion),
                _ => self.scroll(motion),
            }
        }
    }

    fn click(&mut self, at: Pointer) {
        let areas = self.areas();
        let (titles, body) = (areas.titles, areas.body);
        if titles.height > 0 && at.y == titles.y {
            self.click_title(usize::from(at.x), usize::from(titles.width));
        } else if (body.y..body.y + body.height).contains(&at.y) {
            let row = self.offset + usize::from(at.y - body.y);
            match self.selected() {
                Some(selected) if selected == row => self.open(),
                _ if row < self.lines.len() => self.select_row(row),
                _ => {}
            }
        }
    }

    fn click_title(&mut self, x: usize, width: usize) {
        // The selection mark precedes the first column.
        let room = width.saturating_sub(1);
        let placed = fit::fit(&self.facts(), &self.hidden, room, self.is_tree());
        let mut end = 1;
        let clicked = placed.iter().find(|place| {
            end += place.width + 1;
            x < end
        });
        match clicked {
            Some(place) if place.column == self.sort() => self.descending = !self.descending,
            Some(place) if COLUMNS[place.column].sorts() => self.order_by(place.column),
            _ => {}
        }
    }
}
