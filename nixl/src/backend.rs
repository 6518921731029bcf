//! The backend of one agent, as NIXL holds it.

use std::mem;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use braid::{Engine, Origin, environment};
use braid_log::Filter;
use tracing::Level;

use crate::addresses::{ConnInfo, reachable_at};
use crate::core::Core;
use crate::inbox::Inbox;
use crate::service;
use crate::settings::{SettingError, Settings};
use crate::status::Error;
use crate::version;

/// Number of peers that wait to be accepted.
const BACKLOG: usize = 256;

/// The arguments of NIXL for a new backend.
pub(crate) struct Opening<'a> {
    pub(crate) agent: &'a [u8],
    /// The library that creates the backend.
    pub(crate) nixl: &'a Path,
    pub(crate) params: Vec<(String, String)>,
    pub(crate) has_progress_thread: bool,
}

/// A backend, as NIXL holds it.
pub(crate) struct Backend {
    origin: Origin,
    core: Arc<Core>,
    service: Option<JoinHandle<()>>,
}

impl Backend {
    pub(crate) fn open(opening: Opening<'_>) -> Result<Self, Error> {
        // An invalid filter is reported, which needs a log.
        let filter = Filter::from_environment(environment::variable);
        let asked = filter.as_ref().ok().cloned().flatten();
        braid_log::to_stderr(asked.unwrap_or(Filter::level(Level::WARN)));
        filter.map_err(|error| SettingError::Log(error.to_string()))?;
        let settings = Settings::read(&opening.params, opening.has_progress_thread)?;
        let version = version::check(opening.nixl, settings.nixl_version.as_deref())?;
        let engine = Engine::new(settings.engine.clone())?;
        let instance = random()?;
        let addresses = reachable_at(engine.local_addr())?;
        let info = ConnInfo { instance, addresses };
        let expected = info.greeting();
        let listener = engine.listen_for(BACKLOG, move |greeting| greeting == expected)?;
        let pd = engine.alloc_pd();
        let inbox = Inbox::new(&engine, &pd).map_err(std::io::Error::other)?;
        let addr = engine.local_addr();
        let core = Arc::new(Core::new(opening.agent, settings, info, inbox, (engine, pd))?);
        let service = service::start(core.clone(), listener)?;
        let agent = String::from_utf8_lossy(opening.agent);
        tracing::info!(%agent, %addr, nixl = version, "backend of NIXL started");
        Ok(Backend { origin: Origin::here(), core, service: Some(service) })
    }

    /// The core, unless this is a forked child.
    pub(crate) fn core(&self) -> Result<&Arc<Core>, Error> {
        if self.origin.is_here() { Ok(&self.core) } else { Err(Error::Forked) }
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        let Some(service) = self.service.take() else { return };
        if !self.origin.is_here() {
            // The thread is the parent's, and its locks may be held.
            mem::forget((service, self.core.clone()));
            return;
        }
        self.core.close_connections();
        self.core.stop();
        if service.join().is_err() {
            tracing::error!("the service thread of the NIXL backend has panicked");
        }
    }
}

fn random() -> Result<u64, Error> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
    Ok(u64::from_ne_bytes(bytes))
}
