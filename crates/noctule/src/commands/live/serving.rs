//! The server of `run`: its address, TLS and authentication.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result};
use noctule_sinks::openmetrics::Served;
use noctule_web::{Bound, Refusals};

use crate::args::RunArgs;
use crate::config::{Config, ShownProcesses};
use crate::exit::Usage;
use crate::rights;
use crate::web_config::WebConfig;

/// A server that is bound, but does not respond yet.
pub(super) struct Serving {
    pub(super) bound: Bound,
    /// `https://ADDRESS:PORT` or `http://ADDRESS:PORT`.
    pub(super) origin: String,
    pub(super) kept: Kept,
}

/// State that must live as long as the server.
pub(super) struct Kept {
    refusals: Arc<Refusals>,
    valid: Option<Arc<AtomicBool>>,
    _web: Option<WebConfig>,
}

impl Serving {
    /// Binds the address or takes the socket from systemd, and reads the web configuration.
    pub(super) fn open(args: &RunArgs, config: &Config) -> Result<Self> {
        let web = config.web.config();
        let web = web.map(WebConfig::open).transpose()?;
        let bound = bind(args, config)?;
        let address = bound.address();
        config.may_serve(address, web.as_ref().is_some_and(|web| web.tls))?;
        let refusals: Arc<Refusals> = Arc::default();
        let mut bound = bound
            .named(config.web.hosts.iter().cloned())
            .on_thread(rights::only_answer)
            .counting(refusals.clone());
        if let Some(web) = &web {
            bound = bound.secured(web.secured.clone());
        }
        let scheme = match &web {
            Some(web) if web.tls => "https",
            _ => "http",
        };
        Ok(Self {
            bound,
            origin: format!("{scheme}://{address}"),
            kept: Kept {
                refusals,
                valid: web.as_ref().map(WebConfig::validity),
                _web: web,
            },
        })
    }
}

impl Kept {
    /// Returns the server's counters. `untracked_scrapes` counts scrapes by scrapers that are not
    /// tracked.
    pub(super) fn served(&self, untracked_scrapes: u64) -> Served {
        Served {
            untracked_scrapes: Some(untracked_scrapes),
            refused: self.refusals.counts().into(),
            config_valid: self.valid.as_ref().map(|it| it.load(Ordering::Relaxed)),
        }
    }
}

/// Hides processes if clients of the port must not see them.
pub(super) fn hide_processes(mut config: Config) -> Config {
    const SHOW: &str = "set processes = \"show\" in section [web] of the configuration to show \
                        them";
    let hidepid = noctule_kernel::hides_processes(&config.host.proc);
    if config.web.processes.are_shown(hidepid) {
        return config;
    }
    if config.web.processes == ShownProcesses::Auto {
        tracing::warn!(
            "/proc hides processes from other users (hidepid), so the HTTP port does too; {SHOW}"
        );
    }
    if std::mem::take(&mut config.metrics.processes) {
        tracing::warn!(
            "/metrics has no per-process series, because the HTTP port hides processes; {SHOW}"
        );
    }
    config.web.processes = ShownProcesses::Hide;
    config
}

fn bind(args: &RunArgs, config: &Config) -> Result<Bound> {
    let handed = noctule_kernel::inherited_listener();
    if let Some(socket) = handed.context("socket passed by systemd (LISTEN_FDS)")? {
        if args.listen.is_some() {
            let words = "--listen cannot be combined with a socket passed by systemd (LISTEN_FDS)";
            return Err(Usage(words.to_owned()).into());
        }
        return noctule_web::take(socket).context("socket passed by systemd (LISTEN_FDS)");
    }
    let listen = config.web.listen;
    noctule_web::bind(listen).with_context(|| {
        format!(
            "cannot listen on {listen} (is another agent running? choose another address with \
             --listen)"
        )
    })
}
