//! Formats each event as a line of text or JSON.

use noctule_kernel::TraceEvents;
use noctule_text::{Align, clock_us, escape, escape_bytes, pad, width};
use noctule_trace::print::{self, symbol_text};
use noctule_trace::watch::{Arrival, Losses};
use rustix::time::ClockId;

use super::json;
use crate::commands::trace::event_stream::{Kallsyms, KernelNames, Watched, monotonic_ns, ns};
use crate::print::{Paint, utc_offset};

/// Column widths that fit `HH:MM:SS.uuuuuu`, a three-digit CPU, and a name with a six-digit pid.
const TIME: usize = 15;
const CPU: usize = 3;
const THREAD: usize = 23;

/// Formats records as lines.
pub(in crate::commands) struct Lines<'a> {
    events: &'a [Watched],
    names: KernelNames<'a>,
    json: bool,
    paint: Paint,
    /// Difference between Unix time and `CLOCK_MONOTONIC`.
    since: u64,
    width: usize,
}

impl<'a> Lines<'a> {
    pub(in crate::commands) fn new(
        events: &'a [Watched],
        symbols: &'a Kallsyms,
        kernel: &'a TraceEvents,
        json: bool,
        paint: Paint,
    ) -> Self {
        let width = events.iter().map(|event| event.name.len()).max();
        Self {
            events,
            names: KernelNames::new(symbols, kernel),
            json,
            paint,
            since: ns(ClockId::Realtime).saturating_sub(monotonic_ns()),
            width: width.unwrap_or(0),
        }
    }

    /// Returns the header line.
    pub(in crate::commands) fn head(&self) -> String {
        if self.json {
            return String::new();
        }
        let width = self.width;
        let names = format!(
            "{:TIME$}  {:>CPU$}  {:THREAD$}  {:width$}  fields",
            "time", "cpu", "thread", "event"
        );
        self.paint.bold(&names) + "\n"
    }

    /// Formats an event, preceded by a gap if events were lost before it.
    pub(in crate::commands) fn event(&self, arrival: &Arrival, out: &mut String) {
        self.line(arrival, None, out);
    }

    /// Formats a trigger's action at its event, with the stack if one was captured.
    pub(in crate::commands) fn trigger(&self, arrival: &Arrival, label: &str, out: &mut String) {
        self.line(arrival, Some(label), out);
        if !self.json {
            for address in &arrival.stack {
                *out += &format!("{:TIME$}  => {}\n", "", self.frame(*address));
            }
        }
    }

    /// Returns the kernel function at this address.
    fn frame(&self, address: u64) -> String {
        escape(&symbol_text(address, true, 0, &self.names))
    }

    fn line(&self, arrival: &Arrival, label: Option<&str>, out: &mut String) {
        self.gap(arrival.time_ns, arrival.lost, 0, out);
        let Some(event) = self.events.get(usize::from(arrival.event)) else {
            return;
        };
        let text = self.text(event, arrival);
        let time = self.unix_ns(arrival.time_ns);
        if self.json {
            let mut object = json::event(event, arrival, time, &text);
            if let Some(label) = label {
                let frames = arrival.stack.iter();
                let frames = frames.map(|address| (*address, self.frame(*address)));
                json::add_trigger(&mut object, label, frames);
            }
            *out += &object.to_string();
            out.push('\n');
            return;
        }
        let thread = format!("{}[{}]", escape_bytes(&arrival.comm), arrival.pid);
        let thread = pad(&thread, THREAD.max(width(&thread)), Align::Left);
        let columns = self.width;
        let label = label.map_or(String::new(), |label| self.paint.bold(label) + ": ");
        let line = format!(
            "{}  {:>CPU$}  {thread}  {:columns$}  {label}{}\n",
            self.clock(time),
            arrival.cpu,
            event.name,
            escape(&text),
        );
        *out += &line;
    }

    /// Formats the last gap, if events were lost or skipped after the last event.
    pub(in crate::commands) fn losses(&self, losses: &Losses, out: &mut String) {
        self.gap(monotonic_ns(), losses.lost, losses.skipped, out);
    }

    fn gap(&self, time_ns: u64, lost: u64, skipped: u64, out: &mut String) {
        if lost == 0 && skipped == 0 {
            return;
        }
        let time = self.unix_ns(time_ns);
        if self.json {
            *out += &json::gap(time, lost, skipped);
            out.push('\n');
            return;
        }
        let mut words = Vec::new();
        if lost > 0 {
            let events = if lost == 1 { "event" } else { "events" };
            words.push(format!("{lost} {events} lost: the buffer was full"));
        }
        if skipped > 0 {
            let hits = if skipped == 1 { "hit" } else { "hits" };
            words.push(format!(
                "{skipped} {hits} skipped by the kernel, because they interrupted other BPF \
                 programs"
            ));
        }
        let words = format!("--- {} ---", words.join("; "));
        *out += &format!("{}  {}\n", self.clock(time), self.paint.warning(&words));
    }

    /// Formats the fields with the event's print format.
    fn text(&self, event: &Watched, arrival: &Arrival) -> String {
        let mut text = String::new();
        if event.system == "syscalls" && print::syscall(&event.format, &arrival.record, &mut text) {
            return text;
        }
        match &event.print {
            Some(print) if print.unresolved().is_empty() => {
                print.render(&arrival.record, &self.names, &mut text);
            }
            _ => print::fields(&event.format, &arrival.record, &mut text),
        }
        // Some print formats end with a line feed, which the kernel's trace file also shows.
        text.truncate(text.trim_end_matches('\n').len());
        text
    }

    fn clock(&self, unix_ns: u64) -> String {
        self.paint.dim(&clock_us(unix_ns, utc_offset(unix_ns)))
    }

    fn unix_ns(&self, monotonic_ns: u64) -> u64 {
        self.since.saturating_add(monotonic_ns)
    }
}
