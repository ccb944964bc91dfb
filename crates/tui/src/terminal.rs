//! The way in, and the loop.

mod keyboard;
mod screen;

use std::io::{self, IsTerminal as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::Duration;

use noctule_model::Batch;
use ratatui::crossterm::event::Event;
use ratatui::layout::Size;

use crate::draw::{self, pane};
use crate::state::keys::{Pointer, Press};
use crate::state::{App, Input, Options};
use crate::terminal::keyboard::Keyboard;
use crate::terminal::screen::Screen;

/// How long a batch or the order to stop may lie before it is seen. A key is seen at once.
const PATIENCE: Duration = Duration::from_millis(50);

/// Why the view ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The user, or `stop`, wanted it.
    Quit,
    /// Nobody sends batches any more.
    SourceGone,
}

/// Takes the terminal and shows the batches until `q`, Ctrl-C, `stop` or the end of the channel.
///
/// Every batch must be sent, in order: each names only the processes that ended since the one
/// before. The terminal is given back before this returns, and before the message of a panic, in
/// whichever thread, is printed.
///
/// # Errors
///
/// Standard output is not a terminal, the terminal is gone, or another thread panicked.
pub fn run(batches: Receiver<Batch>, options: &Options, stop: &AtomicBool) -> io::Result<End> {
    if !io::stdout().is_terminal() {
        return Err(io::Error::other("standard output is not a terminal"));
    }
    let mut screen = Screen::take()?;
    let keyboard = Keyboard::listen()?;
    let app = App::new(options, screen.terminal.size()?, pane::height);
    let ends = Ends {
        stop,
        panicked: &screen.panicked.clone(),
    };
    let mut draw = |app: &App| {
        screen.terminal.draw(|frame| draw::draw(app, frame))?;
        Ok(())
    };
    let end = drive(app, &mut draw, &keyboard.events, &batches, &ends);
    // From here on the sender gets an error: nobody listens.
    drop(batches);
    end
}

/// Flags that others set to end the view.
pub(crate) struct Ends<'a> {
    /// The caller wants to stop.
    pub(crate) stop: &'a AtomicBool,
    /// A thread panicked, and the terminal is given back already.
    pub(crate) panicked: &'a AtomicBool,
}

/// The loop: draws when something changed, and waits.
pub(crate) fn drive(
    mut app: App,
    draw: &mut dyn FnMut(&App) -> io::Result<()>,
    events: &Receiver<io::Result<Event>>,
    batches: &Receiver<Batch>,
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
            }
            event = events.try_recv().map_err(|_| RecvTimeoutError::Timeout);
        }
        if ends.panicked.load(Ordering::Relaxed) {
            return Err(io::Error::other("a thread of noctule panicked"));
        }
        if matches!(event, Err(RecvTimeoutError::Disconnected)) {
            return Err(io::Error::other("the keyboard cannot be read any more"));
        }
        if app.quit || ends.stop.load(Ordering::Relaxed) {
            return Ok(End::Quit);
        }
        loop {
            match batches.try_recv() {
                Ok(batch) => app = app.step(Input::Batch(Box::new(batch))),
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
        other => Press::of(other)
            .map(Input::Key)
            .or_else(|| Pointer::of(other).map(Input::Mouse)),
    }
}
