//! Delivery from the queue to the receiver.

use std::sync::Arc;

use tokio::time::sleep;

use crate::Signal;
use crate::client::{Client, Settings};
use crate::outcome::Outcome;
use crate::queue::{Queue, Reason};
use crate::retry::BackOff;

/// Sends the requests of the queue one after the other, until it is closed and empty.
pub async fn deliver(signal: Signal, queue: Arc<Queue>, settings: Settings) {
    let place = settings.endpoint.authority();
    let mut client = Client::new(settings);
    let mut back_off = BackOff::default();
    let mut speaker = Speaker::new(signal, place);
    while let Some(request) = queue.next().await {
        let lost = loop {
            match client.send(signal, &request).await {
                Outcome::Accepted { rejected, said } => {
                    speaker.accepted(rejected, &said);
                    break (rejected > 0).then_some((Reason::Rejected, rejected));
                }
                Outcome::Refused { why } => {
                    speaker.refused(&why, request.items);
                    break Some((Reason::Refused, request.items));
                }
                Outcome::Later { after, why } => {
                    speaker.later(&why);
                    sleep(back_off.next(after)).await;
                    queue.retried();
                }
            }
        };
        back_off.reset();
        queue.done(lost);
    }
}

/// Logs changes of state rather than each failure.
struct Speaker {
    signal: Signal,
    place: String,
    failing: bool,
    /// The reason of the last refusal.
    refused: Option<String>,
    rejected: Option<String>,
}

impl Speaker {
    fn new(signal: Signal, place: String) -> Self {
        Self {
            signal,
            place,
            failing: false,
            refused: None,
            rejected: None,
        }
    }

    fn accepted(&mut self, rejected: u64, said: &str) {
        let (signal, place) = (self.signal.name(), &self.place);
        if std::mem::take(&mut self.failing) || self.refused.take().is_some() {
            tracing::warn!("otlp: {place} accepts {signal} again");
        }
        if rejected > 0 && self.rejected.as_deref() != Some(said) {
            tracing::warn!("otlp: {place} rejected {rejected} items of {signal}: {said}");
            self.rejected = Some(said.to_owned());
        } else if rejected == 0 && !said.is_empty() {
            tracing::debug!("otlp: {place} on {signal}: {said}");
        }
    }

    fn refused(&mut self, why: &str, items: u64) {
        if self.refused.as_deref() != Some(why) {
            let (signal, place) = (self.signal.name(), &self.place);
            tracing::warn!("otlp: {place} refuses {signal}: {why}: {items} items are lost");
            self.refused = Some(why.to_owned());
        }
    }

    fn later(&mut self, why: &str) {
        if !std::mem::replace(&mut self.failing, true) {
            let (signal, place) = (self.signal.name(), &self.place);
            tracing::warn!("otlp: {place} does not accept {signal}: {why}: retrying");
        }
    }
}
