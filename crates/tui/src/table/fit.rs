//! Chooses which columns fit, and their widths.

use std::collections::HashSet;

use noctule_model::Level;
pub(crate) use noctule_text::Place as Placed;
use noctule_text::{Need, fit as choose};

use crate::data::history;
use crate::table::columns::COLUMNS;
use crate::table::{Cell, Facts, View};

/// Blanks between columns.
const GAP: usize = 1;

/// Chooses the columns that fit into `width`, each followed by one blank. Spare width goes first to
/// names, then to graphs, and what remains to the name column, because paths can be long. `hidden`
/// contains the positions in [`COLUMNS`] that the user has hidden.
pub(crate) fn fit(facts: &Facts, hidden: &HashSet<usize>, width: usize, tree: bool) -> Vec<Placed> {
    let there: Vec<usize> = (0..COLUMNS.len())
        .filter(|&i| COLUMNS[i].is_available(facts) && !hidden.contains(&i))
        .collect();
    let needs: Vec<Need> = there
        .iter()
        .map(|&i| {
            let column = &COLUMNS[i];
            let (least, turn) = match column.cell {
                Cell::Name => (name_width(facts, width, tree), 0),
                // The columns of the verdict and the culprit grow with the terminal before another
                // column is added.
                Cell::Verdict => ((width / 4).clamp(column.width, column.widest), 1),
                Cell::Text(_) if facts.view == View::Waits => {
                    ((width / 5).clamp(column.width, column.widest), 1)
                }
                Cell::Text(_) if has_verdicts(facts) => {
                    ((width / 7).clamp(column.width, column.widest), 1)
                }
                Cell::Text(_) => (column.width, 1),
                _ => (column.width, 2),
            };
            Need {
                least,
                most: column.widest.max(least),
                priority: column.priority,
                turn,
            }
        })
        .collect();
    let mut placed = choose(&needs, width, GAP);
    for place in &mut placed {
        place.column = there[place.column];
        if matches!(COLUMNS[place.column].cell, Cell::Minute) {
            place.width = history::columns(place.width);
        }
    }
    let used: usize = placed.iter().map(|place| place.width + GAP).sum();
    let name = |place: &&mut Placed| matches!(COLUMNS[place.column].cell, Cell::Name);
    if let Some(name) = placed.iter_mut().find(name) {
        name.width += (width + GAP).saturating_sub(used);
    }
    placed
}

/// Returns whether rows have a verdict and a culprit, which need room.
fn has_verdicts(facts: &Facts) -> bool {
    match facts.view {
        View::Waits => true,
        View::Overview => facts.level != Level::Process,
        View::Use | View::Energy => false,
    }
}

/// Returns the minimum width of the name. With 11 columns, CPU use still fits on a terminal of 20
/// columns. The kernel truncates process names to 15 characters; other names, and trees, can have
/// any length.
fn name_width(facts: &Facts, width: usize, tree: bool) -> usize {
    match (width, facts.level) {
        (0..40, _) if has_verdicts(facts) => width.saturating_sub(12).clamp(4, 14),
        (0..40, _) => 11,
        (40..110, _) if has_verdicts(facts) => 17,
        // Leaves room for the column of waits that the row caused, in addition to the waits in
        // progress.
        (110..150, _) if has_verdicts(facts) => 26,
        (_, Level::Process) if !tree => 17,
        (40..75, _) => 20,
        (_, Level::Process) => 28,
        _ => 30,
    }
}
