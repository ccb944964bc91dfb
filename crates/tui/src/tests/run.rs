//! Tests of the main loop without a terminal.

use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use noctule_model::Level;
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};

use super::fixture::{Fake, app};
use crate::terminal::{End, Ends, Source, drive};

type Events = (SyncSender<io::Result<Event>>, Receiver<io::Result<Event>>);

struct Ran {
    end: io::Result<End>,
    drawn: usize,
}

fn run(events: &Events, source: &Source, stop: bool, panicked: bool) -> Ran {
    let ends = Ends {
        stop: &AtomicBool::new(stop),
        panicked: &AtomicBool::new(panicked),
    };
    let mut drawn = 0;
    let mut draw = |_: &crate::state::App| {
        drawn += 1;
        Ok(())
    };
    let app = app(Level::Process, 80, 24);
    let end = drive(app, &mut draw, &events.1, source, &ends);
    Ran { end, drawn }
}

fn key(c: char) -> io::Result<Event> {
    Ok(Event::Key(KeyEvent::new(
        KeyCode::Char(c),
        KeyModifiers::NONE,
    )))
}

#[test]
fn q_quits() {
    let events = sync_channel(8);
    let (_sender, batches) = sync_channel(1);
    events.0.send(Ok(Event::Resize(10, 4))).unwrap();
    events.0.send(key('q')).unwrap();
    let ran = run(&events, &Source::Live(batches), false, false);
    assert_eq!(ran.end.unwrap(), End::Quit);
}

#[test]
fn stop_flag_quits() {
    let events = sync_channel(8);
    let (_sender, batches) = sync_channel(1);
    assert_eq!(
        run(&events, &Source::Live(batches), true, false)
            .end
            .unwrap(),
        End::Quit
    );
}

#[test]
fn closed_channel_quits_after_its_last_batch() {
    let events = sync_channel(8);
    let (sender, batches) = sync_channel(1);
    let mut fake = Fake::new();
    let sending = std::thread::spawn(move || {
        for _ in 0..3 {
            sender.send(fake.tick(&[])).unwrap();
        }
    });
    let ran = run(&events, &Source::Live(batches), false, false);
    sending.join().unwrap();
    assert_eq!(ran.end.unwrap(), End::SourceGone);
    assert!(ran.drawn >= 1);
}

#[test]
fn it_draws_and_reads_keys_under_endless_batches() {
    let (keys, events) = sync_channel(8);
    let (sender, batches) = sync_channel(10_000);
    let mut fake = Fake::new();
    for _ in 0..10_000 {
        sender.send(fake.tick(&[])).unwrap();
    }
    drop(sender);
    let mut drawn = 0;
    let mut draw = |_: &crate::state::App| {
        drawn += 1;
        // The first picture is empty.
        if drawn == 2 {
            keys.send(key('q')).unwrap();
        }
        Ok(())
    };
    let ends = Ends {
        stop: &AtomicBool::new(false),
        panicked: &AtomicBool::new(false),
    };
    let app = app(Level::Process, 80, 24);
    let end = drive(app, &mut draw, &events, &Source::Live(batches), &ends);
    assert_eq!(end.unwrap(), End::Quit);
}

#[test]
fn terminal_errors_and_panics_quit() {
    let events = sync_channel(8);
    let (_sender, batches) = sync_channel(1);
    let source = Source::Live(batches);
    assert!(run(&events, &source, false, true).end.is_err());
    events.0.send(Err(io::Error::other("gone"))).unwrap();
    let ran = run(&events, &source, false, false);
    assert_eq!(ran.end.unwrap_err().to_string(), "gone");
    let (gone, events_left) = sync_channel(1);
    drop(gone);
    let ran = run(&(events.0, events_left), &source, false, false);
    assert!(ran.end.is_err());
}
