//! The servers of this process's engines.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use super::clients::Clients;
use super::endpoint::{EndpointError, MetricsEndpoint};
use super::engines::ServedEngines;
use super::stream::ServerSocket;
use crate::event_fd::EventFd;
use crate::metrics::Observed;
use crate::threads::spawn_without_signals;
use crate::wake::Event;

/// A running server.
struct Server {
    at: MetricsEndpoint,
    /// The HTTP address of the server. `None`: the local socket.
    addr: Option<SocketAddr>,
    engines: ServedEngines,
    stop: Arc<EventFd>,
    thread: JoinHandle<()>,
}

/// The running servers of all engines in the process.
static SERVERS: Mutex<Vec<Server>> = Mutex::new(Vec::new());

/// The registration of an engine with its servers, until it is dropped.
pub(crate) struct Registration {
    id: u64,
    /// The HTTP address.
    pub(crate) addr: Option<SocketAddr>,
}

/// Registers an engine with the servers of its setting.
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
    if !cfg!(feature = "metrics") {
        return Err(EndpointError::Absent);
    }
    // Dropping the registration undoes it if a later step fails.
    let mut registration = Registration { id: NEXT.fetch_add(1, Ordering::Relaxed), addr: None };
    let engine = engine();
    if let MetricsEndpoint::Http(_) = at {
        registration.addr = show(at, registration.id, engine.clone())?;
    }
    match show(MetricsEndpoint::Local, registration.id, engine) {
        // The local socket is only an addition to the requested address.
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
    servers[place].engines.lock().push((id, engine));
    Ok(servers[place].addr)
}

fn start(at: MetricsEndpoint) -> Result<Server, EndpointError> {
    let pid = std::process::id();
    let failed = |source| match at {
        MetricsEndpoint::Http(addr) => EndpointError::Http { addr, source },
        _ => EndpointError::Local { pid, source },
    };
    let listening = match at {
        MetricsEndpoint::Http(addr) => ServerSocket::http(addr),
        _ => ServerSocket::local(pid),
    };
    let listening = listening.map_err(failed)?;
    let (addr, engines) = (listening.addr(), ServedEngines::default());
    let stop = Arc::new(EventFd::new().map_err(failed)?);
    let (served, stopped) = (engines.clone(), stop.clone());
    let thread = thread::Builder::new().name("braid-metrics".to_owned());
    let run = move || Clients::new(&listening, &served, &stopped).serve();
    let thread = spawn_without_signals(thread, run).map_err(failed)?;
    if let Some(addr) = addr {
        tracing::info!(%addr, "metrics are served");
    }
    Ok(Server { at, addr, engines, stop, thread })
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut servers = servers();
        servers.iter().for_each(|server| server.engines.lock().retain(|(id, _)| *id != self.id));
        let is_idle = |server: &mut Server| server.engines.lock().is_empty();
        let idle: Vec<Server> = servers.extract_if(.., is_idle).collect();
        // The servers are joined first, so that their addresses are free for later servers.
        for server in idle {
            server.stop.raise();
            let _ = server.thread.join();
        }
    }
}

fn servers() -> MutexGuard<'static, Vec<Server>> {
    SERVERS.lock().unwrap_or_else(PoisonError::into_inner)
}
