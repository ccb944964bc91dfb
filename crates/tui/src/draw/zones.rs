//! Draws the energy zones: what each meter counted in the window, and its attribution.

use noctule_analysis::{EnergyReport, ZoneReport};
use noctule_model::{FeatureState, ZoneAccount};
use noctule_text::{half_width, watts_alone, zone_name};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use crate::draw::line::put;
use crate::draw::palette::Palette;
use crate::state::App;
use crate::text::{self, Align};

/// Width of a zone's name, and of a figure with the blank before it.
const NAME: usize = 18;
const FIGURE: usize = 9;

/// A column: heading and energy.
type Part = (&'static str, fn(&ZoneAccount) -> u64);

/// Columns in order of priority: a narrow screen drops the last ones first.
const PARTS: [Part; 6] = [
    ("W", |account| account.total_uj),
    ("idle", |account| account.idle_uj),
    ("active", |account| account.active_uj),
    ("unattr.", |account| account.unattributed_uj),
    ("irq", |account| account.interrupts_uj),
    ("other", |account| account.other_uj),
];

/// Draws a heading, and a line for each zone that fits.
pub(crate) fn draw(app: &App, area: Rect, palette: &Palette, frame: &mut Frame<'_>) {
    let Some(window) = &app.shown.window else {
        return;
    };
    let Some(energy) = window.energy.as_ref().filter(|_| area.height > 0) else {
        return;
    };
    let room = usize::from(area.width).saturating_sub(1 + NAME);
    // The error column follows these columns and is dropped last.
    let parts = &PARTS[..(room / FIGURE).saturating_sub(1).min(PARTS.len())];
    put(frame, area, 0, &heading(parts, energy, palette));
    for (y, zone) in (1..).zip(&energy.zones) {
        put(
            frame,
            area,
            y,
            &line(zone, parts, window.length_ns, palette),
        );
    }
}

fn heading(parts: &[Part], energy: &EnergyReport, palette: &Palette) -> Line<'static> {
    let name = match energy.is_model() {
        true => "model, no meter",
        false => "zone, watts",
    };
    let mut out = format!(" {}", text::pad(name, NAME, Align::Left));
    for (title, _) in parts {
        out.push_str(&text::pad(title, FIGURE, Align::Right));
    }
    out.push_str(&text::pad("error", FIGURE, Align::Right));
    Line::styled(out, palette.faint)
}

fn line(zone: &ZoneReport, parts: &[Part], window_ns: u64, palette: &Palette) -> Line<'static> {
    let mut out = format!(
        " {}",
        text::pad(
            &text::shorten(&zone_name(&zone.zone), NAME),
            NAME,
            Align::Left
        )
    );
    if zone.state != FeatureState::On {
        return Line::from(vec![
            Span::raw(out),
            Span::styled("  not read (noctule doctor)", palette.alarm),
        ]);
    }
    for (_, part) in parts {
        let watts = part(&zone.account) as f64 * 1e3 / window_ns.max(1) as f64;
        // If a meter did not move, there is no figure.
        let figure = match zone.still {
            true => "-".to_owned(),
            false => watts_alone(watts),
        };
        out.push_str(&text::pad(&figure, FIGURE, Align::Right));
    }
    let error = zone.error_ratio.map_or_else(|| "-".into(), half_width);
    out.push_str(&text::pad(&error, FIGURE, Align::Right));
    Line::raw(out)
}
