//! Reads the keyboard.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use ratatui::crossterm::event::{self, Event};

/// Maximum time until the thread ends after `Keyboard` is dropped.
const PATIENCE: Duration = Duration::from_millis(50);

/// A thread that reads the keyboard. When the terminal hangs up, crossterm's `read` never returns,
/// because it keeps reading end of file. The main loop must still notice `stop`.
pub(crate) struct Keyboard {
    /// Events from the terminal. An error is the last item.
    pub(crate) events: Receiver<io::Result<Event>>,
    done: Arc<AtomicBool>,
}

impl Keyboard {
    /// Starts the thread.
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
    /// Does not join the thread, because it may never end.
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
    }
}

/// Forwards the next event. Returns false if the receiver no longer exists or the terminal cannot
/// be read.
fn forward(sender: &SyncSender<io::Result<Event>>) -> bool {
    let event = match event::poll(PATIENCE) {
        Ok(false) => return true,
        Ok(true) => event::read(),
        Err(error) => Err(error),
    };
    let failed = event.is_err();
    sender.send(event).is_ok() && !failed
}
