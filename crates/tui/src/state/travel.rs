//! The place in a recording.

use crate::data::Data;

/// Where to go in a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Travel {
    /// To the last batch that is not after this moment, nanoseconds since 1970.
    To(u64),
    /// To the batch before.
    Back,
    /// To the next.
    On,
    /// On or back by so many minutes.
    Minutes(i64),
    /// On by itself, so many times as fast as it was recorded.
    Play(u32),
    /// No longer on by itself.
    Stop,
    /// To the next moment at which somebody was hurt.
    Verdict,
}

/// What a place in a recording shows.
#[derive(Debug)]
pub(crate) struct Fresh {
    pub(crate) data: Data,
    /// The place: time of the last batch, nanoseconds since 1970.
    pub(crate) time_unix_ns: u64,
    /// It goes on by itself.
    pub(crate) speed: Option<u32>,
    /// More is being read.
    pub(crate) busy: bool,
}

/// A moment as people type it, with the end of the recording, in nanoseconds since 1970; or why it is none.
pub type Moment = fn(&str, u64) -> Result<u64, String>;

/// How fast a recording plays: each stroke of the key takes the next.
const SPEEDS: [u32; 6] = [1, 2, 5, 10, 30, 60];

/// What the state has of a recording.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// End of the recording.
    pub(crate) end_unix_ns: u64,
    pub(crate) moment: Moment,
    /// The place that is shown.
    pub(crate) time_unix_ns: u64,
    pub(crate) speed: Option<u32>,
    pub(crate) busy: bool,
    /// The moment that is being typed.
    pub(crate) typed: String,
    /// Why it was not understood.
    pub(crate) refused: Option<String>,
    /// Where the user wants to go; the loop takes it.
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

    /// Plays, or plays faster; after the fastest comes the slowest.
    pub(crate) fn play(&mut self) {
        let faster = |now: &u32| SPEEDS.iter().find(|speed| *speed > now);
        let speed = self.speed.as_ref().and_then(faster).unwrap_or(&SPEEDS[0]);
        self.speed = Some(*speed);
        self.wish = Some(Travel::Play(*speed));
    }

    /// Stops, or plays.
    pub(crate) fn pause(&mut self) {
        match self.speed.take() {
            Some(_) => self.wish = Some(Travel::Stop),
            None => self.play(),
        }
    }

    /// To the moment that was typed; false where it is none.
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
