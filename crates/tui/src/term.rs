//! The terminal: taken, drawn on, read from, and given back on every way out.

use std::io::{self, IsTerminal as _, Stdout, Write as _};
use std::panic::{self, PanicHookInfo};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::thread;
use std::time::Duration;

use noctule_model::{Batch, Level};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event};
use ratatui::crossterm::{cursor, execute, terminal};
use ratatui::layout::Size;

use crate::app::{App, Input};
use crate::keys::Press;
use crate::view;

/// How long a batch or the order to stop may lie before it is seen. A key is seen at once.
const PATIENCE: Duration = Duration::from_millis(50);

/// What the view must be told.
#[derive(Clone, Debug)]
pub struct Options {
    /// What the rows stand for at first.
    pub level: Level,
    /// Time between two batches: the span of the graphs is 60 of it.
    pub interval: Duration,
    /// Name of the machine.
    pub hostname: String,
    /// Whether colours may be used: false when `NO_COLOR` is set.
    pub color: bool,
}

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
    let app = App::new(options, screen.terminal.size()?);
    let ends = Ends {
        stop,
        panicked: &screen.panicked.clone(),
    };
    let mut draw = |app: &App| {
        screen.terminal.draw(|frame| view::draw(app, frame))?;
        Ok(())
    };
    let end = drive(app, &mut draw, &keyboard.events, &batches, &ends);
    // From here on the sender is told that nobody listens.
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
        other => Press::of(other).map(Input::Key),
    }
}

/// A thread that reads the keyboard. crossterm does not return from `read` when the terminal hangs
/// up (it reads the end of the file for ever), and the loop must still see `stop` then.
struct Keyboard {
    events: Receiver<io::Result<Event>>,
    done: Arc<AtomicBool>,
}

impl Keyboard {
    fn listen() -> io::Result<Self> {
        let (sender, events) = sync_channel(64);
        let done = Arc::new(AtomicBool::new(false));
        let told = done.clone();
        let read = move || while !told.load(Ordering::Relaxed) && forward(&sender) {};
        thread::Builder::new().name("keyboard".into()).spawn(read)?;
        Ok(Self { events, done })
    }
}

impl Drop for Keyboard {
    /// The thread is not waited for: it may never return.
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
    }
}

/// Returns false when nobody listens any more, or nothing can be read any more.
fn forward(sender: &SyncSender<io::Result<Event>>) -> bool {
    let event = match event::poll(PATIENCE) {
        Ok(false) => return true,
        Ok(true) => event::read(),
        Err(error) => Err(error),
    };
    let failed = event.is_err();
    sender.send(event).is_ok() && !failed
}

type Hook = dyn Fn(&PanicHookInfo<'_>) + Send + Sync;

/// The terminal while it is ours.
struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    /// Set by the panic hook.
    panicked: Arc<AtomicBool>,
    _guard: Guard,
}

impl Screen {
    fn take() -> io::Result<Self> {
        let guard = Guard::new();
        terminal::enable_raw_mode()?;
        execute!(io::stdout(), terminal::EnterAlternateScreen)?;
        Ok(Self {
            terminal: Terminal::new(CrosstermBackend::new(io::stdout()))?,
            panicked: guard.panicked.clone(),
            _guard: guard,
        })
    }
}

/// Gives the terminal back: when it is dropped, or before the message of a panic is printed, which
/// the other screen would swallow.
struct Guard {
    ours: Arc<AtomicBool>,
    panicked: Arc<AtomicBool>,
    before: Arc<Hook>,
}

impl Guard {
    fn new() -> Self {
        let guard = Self {
            ours: Arc::new(AtomicBool::new(true)),
            panicked: Arc::new(AtomicBool::new(false)),
            before: Arc::from(panic::take_hook()),
        };
        let (ours, panicked) = (guard.ours.clone(), guard.panicked.clone());
        let before = guard.before.clone();
        panic::set_hook(Box::new(move |info| {
            panicked.store(true, Ordering::Relaxed);
            give_back(&ours);
            before(info);
        }));
        guard
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        give_back(&self.ours);
        // The hook cannot be changed while this thread panics.
        if !thread::panicking() {
            let before = self.before.clone();
            panic::set_hook(Box::new(move |info| before(info)));
        }
    }
}

/// Only once: leaving the other screen a second time would move the cursor back over what has been
/// printed since. Errors are of no use here: there is nothing left to show them on.
fn give_back(ours: &AtomicBool) {
    if ours.swap(false, Ordering::Relaxed) {
        let _ = terminal::disable_raw_mode();
        let mut stdout = io::stdout();
        let _ = execute!(stdout, terminal::LeaveAlternateScreen, cursor::Show);
        let _ = stdout.flush();
    }
}
