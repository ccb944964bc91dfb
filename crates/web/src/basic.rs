//! HTTP basic authentication. Passwords are stored as bcrypt hashes.
//!
//! By design, checking a password takes tens of milliseconds of CPU time. Results are therefore
//! remembered, checks run on a separate thread one at a time, and only few clients may wait. A
//! flood of wrong passwords neither delays a client that was already admitted nor occupies a CPU.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::{HeaderMap, header};
use data_encoding::BASE64_NOPAD;
use ring::hmac;
use ring::rand::SystemRandom;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use crate::refusals::Refused;

/// Maximum cost of a hash: one or two seconds per check. Each step doubles the time.
const MOST_COST: u32 = 15;

/// Maximum number of waiting checks, over all clients and for one address.
const WAITING: usize = 16;
const WAITING_EACH: usize = 2;

/// The pause after a failed check, as a multiple of the duration of the check.
const PAUSE: u32 = 3;

/// Number of wrong credentials to remember.
const WRONG: usize = 256;
/// Number of right credentials to remember, which is more than the number of users. Only clients
/// with a valid password can add entries.
const RIGHT: usize = 1024;

/// User names and password hashes.
#[derive(Clone, Default)]
pub struct Users(BTreeMap<String, String>);

impl std::fmt::Debug for Users {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} users", self.0.len())
    }
}

impl Users {
    /// Rejects values that are not bcrypt hashes or are too slow to check. Errors contain neither
    /// user nor hash, but the position in the order of names.
    pub fn new(users: BTreeMap<String, String>) -> Result<Self, String> {
        for (at, hash) in users.values().enumerate() {
            let parts = hash.parse::<bcrypt::HashParts>().map_err(|_| {
                format!(
                    "the password of user number {} (in order of name) is not a bcrypt hash: create one with `htpasswd -nBC 10 \"\"`",
                    at + 1
                )
            })?;
            if parts.get_cost() > MOST_COST {
                return Err(format!(
                    "the hash of user number {} (in order of name) has cost {}: the maximum is {MOST_COST}, and 10 is usual",
                    at + 1,
                    parts.get_cost()
                ));
            }
        }
        Ok(Self(users))
    }

    /// Returns whether there are no users, so that no password is required.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the hash to compare with, and whether the name exists. For an unknown name it
    /// returns another user's hash, so that the check takes the same time.
    fn hash(&self, name: &str) -> Option<(&str, bool)> {
        let own = self.0.get(name).map(|hash| (hash.as_str(), true));
        own.or_else(|| Some((self.0.values().next()?.as_str(), false)))
    }
}

/// A digest of name, hash and password. The key is generated at each start, so neither a core dump
/// nor the time of a look-up reveals a password.
type Tag = [u8; 32];

/// Checks credentials and remembers the results.
pub(crate) struct Verifier {
    key: hmac::Key,
    slot: Arc<Semaphore>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    right: HashSet<Tag>,
    wrong: HashSet<Tag>,
    /// Tags of wrong credentials, oldest first.
    order: VecDeque<Tag>,
    waiting: BTreeMap<IpAddr, usize>,
}

impl State {
    fn known(&self, tag: &Tag) -> Option<bool> {
        let right = self.right.contains(tag);
        (right || self.wrong.contains(tag)).then_some(right)
    }

    fn remember(&mut self, tag: Tag, right: bool) {
        if right {
            if self.right.len() >= RIGHT {
                self.right.clear();
            }
            self.right.insert(tag);
        } else if self.wrong.insert(tag) {
            self.order.push_back(tag);
            if self.order.len() > WRONG
                && let Some(oldest) = self.order.pop_front()
            {
                self.wrong.remove(&oldest);
            }
        }
    }

    /// Takes a slot in the queue; returns false if none is free.
    fn wait(&mut self, from: IpAddr) -> bool {
        let all: usize = self.waiting.values().sum();
        let own = self.waiting.get(&from).copied().unwrap_or(0);
        let room = all < WAITING && own < WAITING_EACH;
        if room {
            self.waiting.insert(from, own + 1);
        }
        room
    }

    fn leave(&mut self, from: IpAddr) {
        if let Some(own) = self.waiting.get_mut(&from) {
            *own -= 1;
            if *own == 0 {
                self.waiting.remove(&from);
            }
        }
    }
}

/// A slot in the queue, which is released when the client leaves.
struct Waiting<'a> {
    verifier: &'a Verifier,
    from: IpAddr,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.verifier.state().leave(self.from);
    }
}

impl Verifier {
    pub(crate) fn new() -> Self {
        // If the kernel has no random bytes, TLS does not work either. Tags are then only less
        // secret.
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())
            .unwrap_or_else(|_| hmac::Key::new(hmac::HMAC_SHA256, &[]));
        Self {
            key,
            slot: Arc::new(Semaphore::new(1)),
            state: Mutex::default(),
        }
    }

    /// Returns whether the request may be answered.
    pub(crate) async fn check(
        &self,
        users: &Users,
        headers: &HeaderMap,
        from: IpAddr,
    ) -> Result<(), Refused> {
        if users.is_empty() {
            return Ok(());
        }
        let (name, password) = credentials(headers).ok_or(Refused::NoCredentials)?;
        let (hash, exists) = users.hash(&name).ok_or(Refused::Credentials)?;
        let tag = self.tag(&[name.as_bytes(), hash.as_bytes(), &password]);
        if let Some(right) = self.state().known(&tag) {
            return verdict(right);
        }
        let from = network(from);
        if !self.state().wait(from) {
            return Err(Refused::Busy);
        }
        let _place = Waiting {
            verifier: self,
            from,
        };
        let Ok(slot) = self.slot.clone().acquire_owned().await else {
            return Err(Refused::Busy);
        };
        // Another request may have checked the same credentials in the meantime.
        if let Some(right) = self.state().known(&tag) {
            return verdict(right);
        }
        let hash = hash.to_owned();
        let begun = Instant::now();
        let checked = spawn_blocking(move || bcrypt::verify(password, &hash));
        let right = matches!(checked.await, Ok(Ok(true))) && exists;
        self.state().remember(tag, right);
        if !right {
            let pause: Duration = begun.elapsed() * PAUSE;
            tokio::spawn(async move {
                sleep(pause).await;
                drop(slot);
            });
        }
        verdict(right)
    }

    fn tag(&self, parts: &[&[u8]]) -> Tag {
        let mut context = hmac::Context::with_key(&self.key);
        for part in parts {
            context.update(&(part.len() as u64).to_le_bytes());
            context.update(part);
        }
        let mut tag = Tag::default();
        tag.copy_from_slice(context.sign().as_ref());
        tag
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn verdict(right: bool) -> Result<(), Refused> {
    match right {
        true => Ok(()),
        false => Err(Refused::Credentials),
    }
}

/// Returns the address that counts as one client. A single client can have a whole IPv6 network.
fn network(from: IpAddr) -> IpAddr {
    match from.to_canonical() {
        IpAddr::V6(address) => {
            let bits = address.to_bits() >> 64 << 64;
            Ipv6Addr::from_bits(bits).into()
        }
        v4 => v4,
    }
}

/// Returns the name and password of a request, if it has both.
fn credentials(headers: &HeaderMap) -> Option<(String, Vec<u8>)> {
    let mut sent = headers.get_all(header::AUTHORIZATION).iter();
    let (value, more) = (sent.next()?, sent.next());
    let (scheme, rest) = value.to_str().ok()?.split_once(' ')?;
    if more.is_some() || !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let digits = rest.trim().trim_end_matches('=');
    let both = BASE64_NOPAD.decode(digits.as_bytes()).ok()?;
    let colon = both.iter().position(|&b| b == b':')?;
    let name = String::from_utf8(both[..colon].to_vec()).ok()?;
    Some((name, both[colon + 1..].to_vec()))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn users() -> Users {
        let hash = bcrypt::hash("secret", 4).unwrap();
        Users::new([("alice".to_owned(), hash)].into()).unwrap()
    }

    fn headers(value: &str) -> HeaderMap {
        let value = HeaderValue::from_str(value).unwrap();
        [(header::AUTHORIZATION, value)].into_iter().collect()
    }

    fn runtime() -> tokio::runtime::Runtime {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_time().build().unwrap()
    }

    #[test]
    fn passwords_are_checked() {
        let users = users();
        let verifier = Verifier::new();
        let cases = [
            // alice:secret, alice:wrong, bob:secret, alice, alice:secretx
            ("Basic YWxpY2U6c2VjcmV0", Ok(())),
            ("basic YWxpY2U6c2VjcmV0", Ok(())),
            ("Basic YWxpY2U6d3Jvbmc=", Err(Refused::Credentials)),
            ("Basic Ym9iOnNlY3JldA==", Err(Refused::Credentials)),
            ("Basic YWxpY2U=", Err(Refused::NoCredentials)),
            ("Basic YWxpY2U6c2VjcmV0eA==", Err(Refused::Credentials)),
            ("Basic !!!", Err(Refused::NoCredentials)),
            ("Bearer YWxpY2U6c2VjcmV0", Err(Refused::NoCredentials)),
        ];
        runtime().block_on(async {
            for _ in 0..2 {
                for (sent, expected) in cases {
                    let found = verifier.check(&users, &headers(sent), HERE).await;
                    assert_eq!(found, expected, "{sent}");
                }
            }
            let none = verifier.check(&users, &HeaderMap::new(), HERE).await;
            assert_eq!(none, Err(Refused::NoCredentials));
            let nobody = Users::default();
            let open = verifier.check(&nobody, &HeaderMap::new(), HERE).await;
            assert_eq!(open, Ok(()));
        });
        let state = verifier.state();
        assert_eq!((state.right.len(), state.wrong.len()), (1, 3));
        assert!(state.waiting.is_empty());
    }

    #[test]
    fn known_password_skips_the_bounded_queue() {
        let users = users();
        let verifier = Verifier::new();
        let right = headers("Basic YWxpY2U6c2VjcmV0");
        runtime().block_on(async {
            verifier.check(&users, &right, HERE).await.unwrap();
            // Prevents any further check.
            let held = verifier.slot.clone().acquire_owned().await.unwrap();
            let wrong = headers("Basic YWxpY2U6d3Jvbmc=");
            let check = || verifier.check(&users, &wrong, HERE);
            let (mut one, mut two) = (Box::pin(check()), Box::pin(check()));
            let soon = Duration::from_millis(10);
            assert!(tokio::time::timeout(soon, &mut one).await.is_err());
            assert!(tokio::time::timeout(soon, &mut two).await.is_err());
            assert_eq!(check().await, Err(Refused::Busy));
            assert_eq!(verifier.check(&users, &right, HERE).await, Ok(()));
            drop(one);
            drop(two);
            assert!(verifier.state().waiting.is_empty());
            drop(held);
        });
    }

    #[test]
    fn remembered_credentials_are_bounded() {
        let mut state = State::default();
        for n in 0..10 * WRONG {
            let mut tag = Tag::default();
            tag[..8].copy_from_slice(&n.to_le_bytes());
            state.remember(tag, false);
        }
        assert_eq!((state.wrong.len(), state.order.len()), (WRONG, WRONG));
        let place = |n: u8| IpAddr::from([10, 0, 0, n]);
        let given = (0..100u8).filter(|n| state.wait(place(n / 3))).count();
        assert_eq!(given, WAITING);
    }

    #[test]
    fn invalid_or_slow_hashes_are_refused_without_quoting_them() {
        let hash = |text: &str| Users::new([("bob".to_owned(), text.to_owned())].into());
        let words = hash("hunter2").unwrap_err();
        assert!(
            words.contains("user number 1 ") && !words.contains("hunter2"),
            "{words}"
        );
        let costly = bcrypt::hash("x", 4).unwrap().replace("$04$", "$16$");
        assert!(hash(&costly).unwrap_err().contains("cost 16"));
    }
}
