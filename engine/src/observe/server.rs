//! The thread that answers for the engines of this process, and which those are.

use std::fmt::Debug;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use super::clients::Clients;
use super::endpoint::{MetricsEndpoint, UnknownEndpoint};
use super::stream::Listening;
use crate::event_fd::EventFd;
use crate::metrics::Observed;
use crate::threads::spawn_without_signals;
use crate::wake::Event;

/// Why the metrics of an engine cannot be read where they should.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// Nobody knows where that is.
    #[error(transparent)]
    Unknown(#[from] UnknownEndpoint),
    /// The address.
    #[error(
        "cannot serve metrics at {addr}: {source}; give each process an address of its own, port 0 for any free one, or `local` for `braid-perf top PID` alone"
    )]
    Http {
        /// The address asked for.
        addr: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The local socket.
    #[error(
        "cannot serve metrics at the local socket @braid-{pid}: {source}; raise the limit of open files (`ulimit -n`) if it is reached, or set the metrics (BRAID_METRICS) to `off`"
    )]
    Local {
        /// This process.
        pid: u32,
        /// What the system said.
        source: io::Error,
    },
}

/// Engines that are shown at one place.
#[derive(Clone, Default)]
pub(super) struct Shown(Arc<Mutex<Vec<(u64, Observed)>>>);

struct Server {
    at: MetricsEndpoint,
    /// Where it listens, by HTTP.
    addr: Option<SocketAddr>,
    shown: Shown,
    stop: Arc<EventFd>,
    thread: JoinHandle<()>,
}

/// Those that run, of all engines of the process.
static SERVERS: Mutex<Vec<Server>> = Mutex::new(Vec::new());

/// The engine can be seen as long as this lives.
pub(crate) struct Registration {
    id: u64,
    /// Where, by HTTP.
    pub(crate) addr: Option<SocketAddr>,
}

/// Shows an engine where it is to be seen.
///
/// # Errors
/// See [`EndpointError`].
pub(crate) fn register(
    at: MetricsEndpoint,
    engine: impl FnOnce() -> Observed,
) -> Result<Option<Registration>, EndpointError> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let at = at.resolve()?;
    if at == MetricsEndpoint::Off {
        return Ok(None);
    }
    // Whatever fails from here on is taken back.
    let mut registration = Registration { id: NEXT.fetch_add(1, Ordering::Relaxed), addr: None };
    let engine = engine();
    if let MetricsEndpoint::Http(_) = at {
        registration.addr = show(at, registration.id, engine.clone())?;
    }
    match show(MetricsEndpoint::Local, registration.id, engine) {
        // An addition to what was asked for.
        Err(error) if registration.addr.is_some() => {
            tracing::warn!(%error, "`braid-perf top PID` cannot read the metrics of this process");
        }
        shown => drop(shown?),
    }
    Ok(Some(registration))
}

fn show(
    at: MetricsEndpoint,
    id: u64,
    engine: Observed,
) -> Result<Option<SocketAddr>, EndpointError> {
    let mut servers = servers();
    let found = servers.iter().position(|server| server.at == at);
    let place = match found {
        Some(place) => place,
        None => {
            servers.push(start(at)?);
            servers.len() - 1
        }
    };
    servers[place].shown.lock().push((id, engine));
    Ok(servers[place].addr)
}

fn start(at: MetricsEndpoint) -> Result<Server, EndpointError> {
    let pid = std::process::id();
    let failed = |source| match at {
        MetricsEndpoint::Http(addr) => EndpointError::Http { addr, source },
        _ => EndpointError::Local { pid, source },
    };
    let listening = match at {
        MetricsEndpoint::Http(addr) => Listening::http(addr),
        _ => Listening::local(pid),
    };
    let listening = listening.map_err(failed)?;
    let (addr, shown) = (listening.addr(), Shown::default());
    let stop = Arc::new(EventFd::new().map_err(failed)?);
    let (engines, stopped) = (shown.clone(), stop.clone());
    let thread = thread::Builder::new().name("braid-metrics".to_owned());
    let run = move || Clients::new(&listening, &engines, &stopped).serve();
    let thread = spawn_without_signals(thread, run).map_err(failed)?;
    if let Some(addr) = addr {
        tracing::info!(%addr, "metrics are served");
    }
    Ok(Server { at, addr, shown, stop, thread })
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut servers = servers();
        servers.iter().for_each(|server| server.shown.lock().retain(|(id, _)| *id != self.id));
        let is_idle = |server: &mut Server| server.shown.lock().is_empty();
        let idle: Vec<Server> = servers.extract_if(.., is_idle).collect();
        // Their places are free before anybody may look for them again.
        for server in idle {
            server.stop.raise();
            let _ = server.thread.join();
        }
    }
}

impl Shown {
    pub(super) fn lock(&self) -> MutexGuard<'_, Vec<(u64, Observed)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Debug for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shown").field("engines", &self.lock().len()).finish()
    }
}

fn servers() -> MutexGuard<'static, Vec<Server>> {
    SERVERS.lock().unwrap_or_else(PoisonError::into_inner)
}
