//! Entry points and main loop.

mod keyboard;
pub(crate) mod player;
mod screen;

use std::io::{self, IsTerminal as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

use noctule_model::Batch;
use ratatui::crossterm::event::Event;
use ratatui::layout::Size;

use crate::draw::{self, pane};
use crate::state::keys::{Pointer, Press};
use crate::state::travel::{Fresh, Travel};
use crate::state::{App, Input, Options};
use crate::terminal::keyboard::Keyboard;
use crate::terminal::screen::Screen;

pub use self::player::{Recorded, Run};

/// Maximum delay before the loop notices a batch or the request to stop. Keys are noticed
/// immediately.
const PATIENCE: Duration = Duration::from_millis(50);

/// Why the view ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The user or `stop` requested it.
    Quit,
    /// The sender of batches no longer exists.
    SourceGone,
}

/// Takes over the terminal and shows the batches until `q`, Ctrl-C, `stop` or the end of the
/// channel.
///
/// Every batch must be sent, in order, because each batch lists only the processes that ended since
/// the previous batch. The terminal is restored before this function returns. If a thread panics,
/// the panic message is printed after the terminal was restored.
///
/// # Errors
///
/// Fails if standard output is not a terminal, the terminal no longer exists, or another thread
/// panicked.
pub fn run(batches: Receiver<Batch>, options: &Options, stop: &AtomicBool) -> io::Result<End> {
    show(|app| app, &Source::Live(batches), options, stop)
}

/// Like [`run`], but shows a recording. `start` is the run and the moment to begin at, in
/// nanoseconds since 1970.
///
/// # Errors
///
/// Like [`run`], or the player thread cannot be started.
pub fn replay(
    recorded: &dyn Recorded,
    start: (usize, u64),
    options: &Options,
    stop: &AtomicBool,
) -> io::Result<End> {
    let end = recorded.runs().last().map_or(0, |run| run.end_unix_ns);
    let (travels, wishes) = mpsc::channel();
    let (pictures, places) = mpsc::sync_channel(player::LANE);
    std::thread::scope(|threads| {
        let play = move || player::play(recorded, options, start, &wishes, &pictures);
        std::thread::Builder::new()
            .name("player".into())
            .spawn_scoped(threads, play)?;
        let source = Source::Recorded(places, travels);
        show(|app| app.recorded(options, end), &source, options, stop)
    })
}

fn show(
    begin: impl FnOnce(App) -> App,
    source: &Source,
    options: &Options,
    stop: &AtomicBool,
) -> io::Result<End> {
    if !io::stdout().is_terminal() {
        return Err(io::Error::other(
            "standard output is not a terminal: use noctule stat or noctule waits",
        ));
    }
    let mut screen = Screen::take()?;
    let keyboard = Keyboard::listen()?;
    let app = begin(App::new(options, screen.terminal.size()?, pane::height));
    let ends = Ends {
        stop,
        panicked: &screen.panicked.clone(),
    };
    let mut draw = |app: &App| {
        screen.terminal.draw(|frame| draw::draw(app, frame))?;
        Ok(())
    };
    drive(app, &mut draw, &keyboard.events, source, &ends)
}

/// The source of batches.
pub(crate) enum Source {
    /// The live node.
    Live(Receiver<Batch>),
    /// A recording, and the channel for moves within the recording.
    Recorded(Receiver<Fresh>, mpsc::Sender<Travel>),
}

impl Source {
    fn next(&self) -> Result<Input, TryRecvError> {
        match self {
            Self::Live(batches) => batches.try_recv().map(Box::new).map(Input::Batch),
            Self::Recorded(places, _) => places.try_recv().map(Box::new).map(Input::Place),
        }
    }

    fn travel(&self, wish: Travel) {
        if let Self::Recorded(_, travels) = self {
            // If the player no longer exists, the next call of `next` reports that.
            let _ = travels.send(wish);
        }
    }
}

/// Flags that end the view.
pub(crate) struct Ends<'a> {
    /// Set by the caller to stop.
    pub(crate) stop: &'a AtomicBool,
    /// Set after a panic, when the terminal is already restored.
    pub(crate) panicked: &'a AtomicBool,
}

/// The main loop: waits for input and redraws after changes.
pub(crate) fn drive(
    mut app: App,
    draw: &mut dyn FnMut(&App) -> io::Result<()>,
    events: &Receiver<io::Result<Event>>,
    source: &Source,
    ends: &Ends<'_>,
) -> io::Result<End> {
    draw(&app)?;
    loop {
        let mut changed = false;
        let mut event = events.recv_timeout(PATIENCE);
        while let Ok(received) = event {
            if let Some(input) = input(&received?) {
                app = app.step(input);
                changed = true;
                if let Some(wish) = app.take_travel() {
                    source.travel(wish);
                }
            }
            event = events.try_recv().map_err(|_| RecvTimeoutError::Timeout);
        }
        if ends.panicked.load(Ordering::Relaxed) {
            return Err(io::Error::other("a thread of noctule panicked"));
        }
        if matches!(event, Err(RecvTimeoutError::Disconnected)) {
            return Err(io::Error::other("cannot read the keyboard"));
        }
        if app.quit || ends.stop.load(Ordering::Relaxed) {
            return Ok(End::Quit);
        }
        // If processing a batch takes longer than the interval, another batch is always ready. The
        // screen and the keyboard must not wait until no batch is ready.
        let since = Instant::now();
        while since.elapsed() < PATIENCE {
            match source.next() {
                Ok(input) => app = app.step(input),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return Ok(End::SourceGone),
            }
            changed = true;
        }
        if changed {
            draw(&app)?;
        }
    }
}

fn input(event: &Event) -> Option<Input> {
    match event {
        Event::Resize(width, height) => Some(Input::Size(Size::new(*width, *height))),
        other => Press::from_event(other)
            .map(Input::Key)
            .or_else(|| Pointer::from_event(other).map(Input::Mouse)),
    }
}
