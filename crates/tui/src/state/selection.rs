//! The selected row, the detail pane that follows it, and scrolling.

use super::{App, Detail};
use crate::state::keys::Motion;

impl App {
    /// Returns the position of the selected row.
    pub(crate) fn selected(&self) -> Option<usize> {
        let key = self.selected.as_ref()?;
        self.lines.iter().position(|line| line.item.key == *key)
    }

    pub(super) fn unselect(&mut self) {
        self.selected = None;
        self.cursor = 0;
        self.offset = 0;
    }

    pub(super) fn select(&mut self, motion: Motion) {
        let last = self.lines.len().saturating_sub(1);
        let page = usize::from(self.areas().body.height).max(1);
        let to = match (motion, self.selected()) {
            (Motion::Home, _) => 0,
            (Motion::End, _) => last,
            // The first motion selects the row at the top of the screen.
            (_, None) => self.offset,
            (Motion::Up, Some(at)) => at.saturating_sub(1),
            (Motion::Down, Some(at)) => at + 1,
            (Motion::PageUp, Some(at)) => at.saturating_sub(page),
            (Motion::PageDown, Some(at)) => at + page,
        };
        self.cursor = to.min(last);
        self.selected = self.lines.get(self.cursor).map(|l| l.item.key.clone());
    }

    pub(super) fn select_row(&mut self, row: usize) {
        self.cursor = row;
        self.selected = self.lines.get(row).map(|line| line.item.key.clone());
    }

    /// After the table was scrolled, moves the selection onto the screen.
    pub(super) fn keep_on_screen(&mut self) {
        let page = usize::from(self.areas().body.height).max(1);
        let last = self.lines.len().saturating_sub(1);
        self.offset = self.offset.min(self.lines.len().saturating_sub(page));
        if let Some(at) = self.selected() {
            let lowest = (self.offset + page - 1).min(last);
            self.select_row(at.clamp(self.offset.min(lowest), lowest));
        }
    }

    pub(super) fn scroll(&mut self, motion: Motion) {
        let page = usize::from(self.areas().pane.height).max(1);
        // The last line is unknown here; `refresh` limits the value.
        self.scroll = match motion {
            Motion::Home => 0,
            Motion::End => usize::MAX,
            Motion::Up => self.scroll.saturating_sub(1),
            Motion::Down => self.scroll.saturating_add(1),
            Motion::PageUp => self.scroll.saturating_sub(page),
            Motion::PageDown => self.scroll.saturating_add(page),
        };
    }

    /// Keeps the selected row selected and visible. If the row has disappeared, selects the row at
    /// its position.
    pub(super) fn hold_selection(&mut self) {
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

    /// Updates the details to the right of the table. They describe the selected row, or the first
    /// row if no row is selected.
    pub(super) fn update_side_pane(&mut self) {
        let is_wide = self.areas().side.width > 0;
        let line = self.lines.get(self.selected().unwrap_or(0));
        let Some(line) = line.filter(|_| is_wide) else {
            self.beside = None;
            return;
        };
        let known = self
            .beside
            .take()
            .filter(|it| it.line.item.key == line.item.key);
        let about = known.map(|known| known.about);
        self.beside = Some(Detail {
            about: about.unwrap_or_else(|| self.about.0.about(&line.item.row)),
            line: line.clone(),
            gone: false,
        });
    }

    pub(super) fn hold_detail(&mut self) {
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
