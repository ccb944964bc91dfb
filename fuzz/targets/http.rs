//! Fuzzes the bytes that a client sends over one connection: the HTTP parser, passwords, host
//! names, queries and responses. A panic in a handler ends the target.

#![no_main]

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use noctule_web::fuzzing::Front;
use noctule_web::{
    Agent, Api, Handlers, Hosts, Page, Query, Refusal, Secured, Security, Shared, Ticks,
    Users,
};
use tokio::runtime::Runtime;

/// Hash of `secret`, the password of `alice`, with the lowest bcrypt cost.
const HASH: &str = "$2y$04$LV8XQdY60raQRBCH/M7sO.rOiC7qLAFpthqC996/vOTn06bhayNTu";

/// An agent whose responses contain the parameters of the query.
struct Echo;

impl Agent for Echo {
    fn published(&self) -> Option<u64> {
        Some(1)
    }

    fn answer(&self, resource: &str, query: &Query) -> Result<String, Refusal> {
        match query.get("filter") {
            Some(words) => Err(Refusal::Query(words.to_owned())),
            None => Ok(format!("{{\"{resource}\":{:?}}}", query.get("sort"))),
        }
    }
}

fn handlers() -> Handlers {
    Handlers {
        metrics: Arc::new(|wish| {
            Some(Page {
                content_type: "text/plain",
                shared: Arc::new(Shared::new("a_metric 1\n").ok()?),
                own: wish.accept.clone()?.into_bytes(),
                gzip: wish.gzip,
                sent: None,
            })
        }),
        ready: Arc::new(|| Err("it never is".to_owned())),
    }
}

fn front(users: Users) -> Front {
    let api = Api {
        agent: Arc::new(Echo),
        ticks: Ticks::default(),
        hosts: Arc::new(Hosts::new(["node.example".to_owned()])),
        start: 1,
    };
    let security = Security {
        users,
        ..Security::default()
    };
    Front::new(handlers(), api, Arc::new(Secured::new(security)))
}

static OPEN: LazyLock<Front> = LazyLock::new(|| front(Users::default()));

/// Requires a password.
static CLOSED: LazyLock<Front> = LazyLock::new(|| {
    let users = [("alice".to_owned(), HASH.to_owned())];
    front(Users::new(users.into()).expect("a hash"))
});

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().build().expect("a runtime")
});

fuzz_target!(|bytes: &[u8]| {
    let authorized = bytes
        .windows(6)
        .any(|it| it.eq_ignore_ascii_case(b"basic "));
    for front in std::iter::once(&*OPEN).chain(authorized.then(|| &*CLOSED)) {
        let answer = RUNTIME.block_on(front.answer(bytes));
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1."));
        assert!(!answer.starts_with(b"HTTP/1.1 500"));
    }
});
