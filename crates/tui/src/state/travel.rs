//! The position in a recording.

use crate::data::Data;

/// A move in a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Travel {
    /// To the last batch that is not later than this moment, in nanoseconds since 1970.
    To(u64),
    /// To the previous batch.
    Back,
    /// To the next batch.
    On,
    /// Forward by this many minutes, or back if negative.
    Minutes(i64),
    /// Starts playback at this multiple of the recorded speed.
    Play(u32),
    /// Stops playback.
    Stop,
    /// To the next moment at which a group was hurt.
    Verdict,
}

/// Data to show at a position in a recording.
#[derive(Debug)]
pub(crate) struct Fresh {
    pub(crate) data: Data,
    /// The position: time of the last batch, in nanoseconds since 1970.
    pub(crate) time_unix_ns: u64,
    /// Playback speed; `None` while stopped.
    pub(crate) speed: Option<u32>,
    /// Whether more batches are still being read.
    pub(crate) busy: bool,
}

/// Parses a moment that the user typed, given the end of the recording, into nanoseconds since
/// 1970. If that fails, returns the reason.
pub type Moment = fn(&str, u64) -> Result<u64, String>;

/// Playback speeds. Each press of the key selects the next one.
const SPEEDS: [u32; 6] = [1, 2, 5, 10, 30, 60];

/// The recording, as the state represents it.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// End of the recording.
    pub(crate) end_unix_ns: u64,
    pub(crate) moment: Moment,
    /// The time that is shown.
    pub(crate) time_unix_ns: u64,
    pub(crate) speed: Option<u32>,
    pub(crate) busy: bool,
    /// The moment being typed.
    pub(crate) typed: String,
    /// Why the typed moment was rejected.
    pub(crate) refused: Option<String>,
    /// The move that the user requested; the loop takes it.
    pub(crate) wish: Option<Travel>,
}

impl Place {
    pub(crate) fn new(end_unix_ns: u64, moment: Moment) -> Self {
        Self {
            end_unix_ns,
            moment,
            time_unix_ns: 0,
            speed: None,
            busy: true,
            typed: String::new(),
            refused: None,
            wish: None,
        }
    }

    /// Plays, or plays faster. The fastest speed wraps around to the slowest.
    pub(crate) fn play(&mut self) {
        let faster = |now: &u32| SPEEDS.iter().find(|speed| *speed > now);
        let speed = self.speed.as_ref().and_then(faster).unwrap_or(&SPEEDS[0]);
        self.speed = Some(*speed);
        self.wish = Some(Travel::Play(*speed));
    }

    /// Stops or resumes playback.
    pub(crate) fn pause(&mut self) {
        match self.speed.take() {
            Some(_) => self.wish = Some(Travel::Stop),
            None => self.play(),
        }
    }

    /// Moves to the typed moment; returns false if it is invalid.
    pub(crate) fn accept(&mut self) -> bool {
        match (self.moment)(self.typed.trim(), self.end_unix_ns) {
            Ok(time) => {
                self.wish = Some(Travel::To(time));
                self.refused = None;
                self.typed.clear();
                true
            }
            Err(words) => {
                self.refused = Some(words);
                false
            }
        }
    }
}
