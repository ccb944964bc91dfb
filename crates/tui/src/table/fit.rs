//! Which columns fit, and how wide they are.

use noctule_model::Level;

use crate::data::history;
use crate::table::columns::COLUMNS;
use crate::table::{Cell, Facts, View};

/// A column and the room that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    /// Position in [`COLUMNS`].
    pub(crate) column: usize,
    /// Columns of the terminal.
    pub(crate) width: usize,
}

/// Chooses the columns that fit into `width`, each followed by one blank column, and gives them
/// the room that is left.
pub(crate) fn fit(facts: &Facts, width: usize, tree: bool) -> Vec<Placed> {
    let mut chosen: Vec<usize> = (0..COLUMNS.len())
        .filter(|&i| COLUMNS[i].is_there(facts))
        .collect();
    chosen.sort_by_key(|&i| COLUMNS[i].priority);
    let least = |i: usize| match COLUMNS[i].cell {
        Cell::Name => name_width(facts, width, tree),
        _ => COLUMNS[i].width,
    };
    let mut used = 0;
    let fitting = chosen.iter().take_while(|&&i| {
        used += least(i) + 1;
        // The last column needs no blank after it.
        used <= width + 1
    });
    let count = fitting.count().max(1);
    chosen.truncate(count);
    chosen.sort_unstable();
    let mut placed: Vec<Placed> = chosen
        .into_iter()
        .map(|column| Placed {
            column,
            width: least(column),
        })
        .collect();
    let used: usize = placed.iter().map(|p| p.width + 1).sum();
    widen(&mut placed, (width + 1).saturating_sub(used));
    placed
}

/// Shares out what is left over: names first, then the graphs; the rest goes to the name, since
/// paths can be of any length.
fn widen(placed: &mut [Placed], mut room: usize) {
    let by_need = [is_name, is_text, is_graph];
    for needs in by_need {
        for place in placed.iter_mut() {
            let column = &COLUMNS[place.column];
            if needs(&column.cell) {
                let most = column.widest.min(place.width + room);
                let most = match column.cell {
                    Cell::Minute => history::columns(most),
                    _ => most,
                };
                let more = most.saturating_sub(place.width);
                place.width += more;
                room -= more;
            }
        }
    }
    if let Some(name) = placed
        .iter_mut()
        .find(|place| is_name(&COLUMNS[place.column].cell))
    {
        name.width += room;
    }
}

fn is_name(cell: &Cell) -> bool {
    matches!(cell, Cell::Name)
}

fn is_text(cell: &Cell) -> bool {
    matches!(cell, Cell::Text(_) | Cell::Verdict)
}

fn is_graph(cell: &Cell) -> bool {
    matches!(cell, Cell::Minute | Cell::Causes)
}

/// Width of the name at least: 11 columns leave room for the CPU use where there are only 20. The
/// kernel cuts the names of processes to 15 characters; the others, and trees, can be of any length.
fn name_width(facts: &Facts, width: usize, tree: bool) -> usize {
    match (width, facts.level) {
        (0..40, _) => 11,
        (40..110, _) if facts.view == View::Waits => 17,
        (_, Level::Process) if !tree => 17,
        (40..75, _) => 20,
        (_, Level::Process) => 28,
        _ => 30,
    }
}
