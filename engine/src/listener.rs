//! The accepting side of connections, as the application sees it.

use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use braid_transport::Request;
use braid_wire::RejectReason;

use crate::backlog::{Backlog, Wanted};
use crate::connect::{ConnectError, check_private_data};
use crate::inner::EngineInner;
use crate::qp::QueuePair;

/// Why an engine does not listen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// There is a listener.
    #[error(
        "this engine listens on {addr} already; drop that listener first, or make another engine on another port"
    )]
    AlreadyListening {
        /// Where.
        addr: SocketAddr,
    },
    /// No room for anybody.
    #[error("a backlog of 0 takes nobody; give it at least 1")]
    Backlog,
    /// No descriptor for its events.
    #[error(
        "no event descriptor for a listener: {}; raise the limit of open files (`ulimit -n`)",
        io::Error::from_raw_os_error(*errno)
    )]
    Event {
        /// What the system said.
        errno: i32,
    },
}

/// Takes connections. They come to the engine's first port; [`Listener::local_addr`].
///
/// Dropping it turns down those that wait and ends the listening; accepted connections stay.
///
/// ```
/// use std::thread;
/// use std::time::Duration;
///
/// use braid::{ConnectError, Engine, EngineConfig, QpOptions};
///
/// const PATIENCE: Duration = Duration::from_secs(10);
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let engine = Engine::new(EngineConfig { bind: "127.0.0.1:0".parse()?, ..Default::default() })?;
/// # let (pd, cq) = (engine.alloc_pd(), engine.create_cq(64)?);
/// let listener = engine.listen(16)?;
/// assert!(listener.accept(Duration::ZERO).is_none(), "nobody has come");
///
/// let client = pd.create_qp(QpOptions::new(&cq, &cq))?;
/// thread::scope(|scope| {
///     scope.spawn(|| {
///         let request = listener.accept(PATIENCE).unwrap();
///         match request.private_data() {
///             b"friend" => request.accept(&pd.create_qp(QpOptions::new(&cq, &cq)).unwrap(), b"").unwrap(),
///             _ => request.reject(),
///         }
///     });
///     let refused = client.connect(listener.local_addr(), b"stranger", PATIENCE);
///     assert!(matches!(refused, Err(ConnectError::Rejected { .. })), "{refused:?}");
/// });
/// # Ok(())
/// # }
/// ```
pub struct Listener {
    engine: Arc<EngineInner>,
    backlog: Arc<Backlog>,
}

impl Listener {
    pub(crate) fn new(
        engine: Arc<EngineInner>,
        capacity: usize,
        wanted: Wanted,
    ) -> Result<Self, ListenError> {
        if capacity == 0 {
            return Err(ListenError::Backlog);
        }
        let refused =
            |error: io::Error| ListenError::Event { errno: error.raw_os_error().unwrap_or(0) };
        let backlog = Arc::new(Backlog::new(capacity, wanted).map_err(refused)?);
        if !engine.first_worker().control().listen(backlog.clone()) {
            return Err(ListenError::AlreadyListening { addr: engine.local_addr() });
        }
        Ok(Listener { engine, backlog })
    }

    /// Where it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.engine.local_addr()
    }

    /// Waits for a connection, at most as long as `timeout`; `None`: none came. Any thread may call
    /// it, and each connection goes to one of them.
    ///
    /// With no time to wait it asks: the listener's descriptor ([`AsFd`]) is readable while
    /// requests wait, until one such call finds none. A request that is withdrawn in between makes
    /// it readable for nothing.
    pub fn accept(&self, timeout: Duration) -> Option<ConnectionRequest> {
        let clock = self.engine.clock();
        let request = if self.engine.application_drives() {
            self.engine.drive(Some(timeout), || self.backlog.pop(clock.now()))
        } else {
            self.backlog.wait(clock, timeout)
        };
        request.map(|request| self.request(request))
    }

    fn request(&self, request: Request) -> ConnectionRequest {
        ConnectionRequest { engine: self.engine.clone(), request, answered: false }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if !self.engine.is_here() {
            return;
        }
        self.engine.first_worker().control().stop_listening();
        while let Some(request) = self.backlog.pop(self.engine.clock().now()) {
            drop(self.request(request));
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.backlog.event().as_fd()
    }
}

impl AsRawFd for Listener {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("local_addr", &self.local_addr()).finish()
    }
}

/// Somebody wants to connect. Dropping it rejects.
///
/// ```no_run
/// use std::time::Duration;
///
/// use braid::{DEFAULT_PORT, Engine, EngineConfig, QpOptions, QpState, wr};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let bind = format!("[::]:{DEFAULT_PORT}").parse()?;
/// let engine = Engine::new(EngineConfig { bind, ..Default::default() })?;
/// let (pd, cq, listener) = (engine.alloc_pd(), engine.create_cq(64)?, engine.listen(16)?);
/// while let Some(request) = listener.accept(Duration::from_secs(60)) {
///     println!("{} ({:?}) asks", request.peer_addr(), request.peer_name());
///     if request.private_data() != b"board" {
///         request.reject();
///         continue;
///     }
///     let qp = pd.create_qp(QpOptions::new(&cq, &cq))?;
///     qp.modify(QpState::Init)?;
///     qp.post_recv(wr::recv(1, []))?; // before it is accepted: the peer may send at once
///     request.accept(&qp, b"welcome")?;
///     # break;
/// }
/// # Ok(())
/// # }
/// ```
pub struct ConnectionRequest {
    engine: Arc<EngineInner>,
    request: Request,
    answered: bool,
}

impl ConnectionRequest {
    /// Where it comes from.
    pub fn peer_addr(&self) -> SocketAddr {
        self.request.from.remote
    }

    /// What the peer's application gave with it.
    pub fn private_data(&self) -> &[u8] {
        &self.request.connect.private_data
    }

    /// What the engine's list of allowed keys calls whoever has proved to have one of them; `None`:
    /// keys are not static.
    pub fn peer_name(&self) -> Option<&str> {
        self.request.peer.as_deref()
    }

    /// Connects `qp`, which is in RESET or INIT, with the peer, and hands up to 512 bytes to its
    /// application. Post receives before: the peer may send at once.
    ///
    /// # Errors
    /// The queue pair cannot be connected, or the data is too long. The request is rejected then.
    pub fn accept(mut self, qp: &QueuePair, private_data: &[u8]) -> Result<(), ConnectError> {
        check_private_data(private_data)?;
        if !Arc::ptr_eq(&self.engine, qp.engine()) {
            return Err(ConnectError::OtherEngine { qp: qp.number() });
        }
        let (listening, attempt) = (self.engine.first_worker(), self.request.attempt());
        // First, so that a queue pair that is reset or destroyed meanwhile is not taken for one
        // that answers.
        listening.control().leave_answer_to(qp.shared().clone(), attempt);
        let accepted = qp.worker().control().accept(qp.index(), &self.request, private_data);
        self.answered = true;
        if let Err(error) = &accepted {
            let reason = match error {
                ConnectError::Join { .. } => RejectReason::Datapath,
                _ => RejectReason::Refused,
            };
            listening.control().turn_down(attempt, reason);
        }
        accepted
    }

    /// Turns it down: the peer's `connect` fails.
    pub fn reject(self) {
        drop(self);
    }
}

impl Drop for ConnectionRequest {
    fn drop(&mut self) {
        if !self.answered && self.engine.is_here() {
            let mut worker = self.engine.first_worker().control();
            worker.turn_down(self.request.attempt(), RejectReason::Refused);
        }
    }
}

impl fmt::Debug for ConnectionRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionRequest").field("peer_addr", &self.request.from.remote).finish()
    }
}
