//! Formats text for people, in one form for every table, view and message.
//!
//! All functions are pure and use no terminal, file or clock.

mod advice;
mod ascii;
mod asleep;
mod draw;
mod escape;
mod fit;
mod names;
mod reason;
mod table;
mod time;
mod units;

pub use advice::{advice, answer, cpu_numbers, facts};
pub use ascii::ascii;
pub use asleep::asleep;
pub use draw::{WAIT_LENGTHS, WAIT_SCALE, drawn, glyph, lengths, strip};
pub use escape::{escape, escape_bytes, is_unseen, lossless};
pub use fit::{Align, fold, keep_end, keep_start, pad, shorten, width, wrap};
pub use names::{command_name, exited, level_word, process_name, zone_name};
pub use reason::{cpus, sentence, verdict_word, waiting_now};
pub use table::{Cell, Head, Lines, Need, Place, Span, Tone, cause_colour, fit, table};
pub use time::{clock, clock_ms, clock_us, date_time};
pub use units::{
    bytes, count, counted, decimal, duration, frequency, half_width, joules, percent, rate, ratio,
    seconds, share, watts, watts_alone,
};
