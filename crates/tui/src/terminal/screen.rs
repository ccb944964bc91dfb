//! Takes over the terminal, and restores it on every exit path.

use std::io::{self, Stdout, Write as _};
use std::panic::{self, PanicHookInfo};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::{cursor, event, execute, terminal};

type Hook = dyn Fn(&PanicHookInfo<'_>) + Send + Sync;

/// The terminal while noctule uses it.
pub(crate) struct Screen {
    /// The terminal to draw on.
    pub(crate) terminal: Terminal<CrosstermBackend<Stdout>>,
    /// Whether the panic hook has run.
    pub(crate) panicked: Arc<AtomicBool>,
    _guard: Guard,
}

impl Screen {
    /// Switches to the alternate screen and to raw mode.
    pub(crate) fn take() -> io::Result<Self> {
        let guard = Guard::new();
        terminal::enable_raw_mode()?;
        execute!(
            io::stdout(),
            terminal::EnterAlternateScreen,
            event::EnableMouseCapture
        )?;
        Ok(Self {
            terminal: Terminal::new(CrosstermBackend::new(io::stdout()))?,
            panicked: guard.panicked.clone(),
            _guard: guard,
        })
    }
}

/// Restores the terminal when dropped, or before a panic message is printed, because the alternate
/// screen would hide that message.
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
            restore_terminal(&ours);
            before(info);
        }));
        guard
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        restore_terminal(&self.ours);
        // The panic hook cannot be changed while this thread panics.
        if !thread::panicking() {
            let before = self.before.clone();
            panic::set_hook(Box::new(move |info| before(info)));
        }
    }
}

/// Restores the terminal only once, because leaving the alternate screen again would move the
/// cursor back over later output. Errors are ignored, because there is no way to show them.
fn restore_terminal(ours: &AtomicBool) {
    if ours.swap(false, Ordering::Relaxed) {
        let _ = terminal::disable_raw_mode();
        let mut stdout = io::stdout();
        let _ = execute!(
            stdout,
            event::DisableMouseCapture,
            terminal::LeaveAlternateScreen,
            cursor::Show
        );
        let _ = stdout.flush();
    }
}
