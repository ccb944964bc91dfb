//! The keyboard.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use ratatui::crossterm::event::{self, Event};

/// How long the thread stays after the keyboard is no longer wanted.
const PATIENCE: Duration = Duration::from_millis(50);

/// A thread that reads the keyboard. crossterm does not return from `read` when the terminal hangs
/// up (it reads the end of the file for ever), and the loop must still see `stop` then.
pub(crate) struct Keyboard {
    /// What it read; an error is the last.
    pub(crate) events: Receiver<io::Result<Event>>,
    done: Arc<AtomicBool>,
}

impl Keyboard {
    /// Starts to read.
    pub(crate) fn listen() -> io::Result<Self> {
        let (sender, events) = sync_channel(64);
        let done = Arc::new(AtomicBool::new(false));
        let ended = done.clone();
        let read = move || while !ended.load(Ordering::Relaxed) && forward(&sender) {};
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
