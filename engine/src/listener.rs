//! The accepting end of connections, as the application uses it.

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

/// The reason why an engine does not listen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// The engine has a listener already.
    #[error(
        "this engine listens on {addr} already; drop that listener first, or make another engine \
         on another port"
    )]
    AlreadyListening {
        /// The address of the listener.
        addr: SocketAddr,
    },
    /// The backlog has no room.
    #[error("a backlog of 0 accepts no connection; use at least 1")]
    Backlog,
    /// The process has no descriptor for the listener.
    #[error(
        "no event descriptor for a listener: {}; raise the limit of open files (`ulimit -n`)",
        io::Error::from_raw_os_error(*errno)
    )]
    Event {
        /// The error of the system.
        errno: i32,
    },
}

/// A listener for connections to the engine's first port, see [`Listener::local_addr`].
///
/// Dropping the listener rejects the waiting requests. Accepted connections stay.
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
/// # let bind = "127.0.0.1:0".parse()?;
/// # let engine = Engine::new(EngineConfig { bind, ..Default::default() })?;
/// # let (pd, cq) = (engine.alloc_pd(), engine.create_cq(64)?);
/// let listener = engine.listen(16)?;
/// assert!(listener.accept(Duration::ZERO).is_none(), "nobody has come");
///
/// let client = pd.create_qp(QpOptions::new(&cq, &cq))?;
/// thread::scope(|scope| {
///     scope.spawn(|| {
///         let request = listener.accept(PATIENCE).unwrap();
///         match request.private_data() {
///             b"friend" => {
///                 let qp = pd.create_qp(QpOptions::new(&cq, &cq)).unwrap();
///                 request.accept(&qp, b"").unwrap();
///             }
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

    /// The address of the listener.
    pub fn local_addr(&self) -> SocketAddr {
        self.engine.local_addr()
    }

    /// Waits up to `timeout` for a connection request. `None`: none came. Any thread may call it,
    /// and each request goes to one thread.
    ///
    /// With a `timeout` of 0 the call does not block. The listener's descriptor ([`AsFd`]) is
    /// readable while requests wait, and until such a call finds none. A request that is withdrawn
    /// in between leaves the descriptor readable without a request.
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

/// A peer's request to connect. Dropping it rejects the request.
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
    /// The address of the peer.
    pub fn peer_addr(&self) -> SocketAddr {
        self.request.from.remote
    }

    /// The private data of the peer's application.
    pub fn private_data(&self) -> &[u8] {
        &self.request.connect.private_data
    }

    /// The peer's name in the engine's list of allowed keys. The peer has proved that it has the
    /// key. `None`: keys are not static.
    pub fn peer_name(&self) -> Option<&str> {
        self.request.peer.as_deref()
    }

    /// Connects `qp`, which is in RESET or INIT, with the peer and sends up to 512 bytes to its
    /// application. Post receives first, because the peer may send at once.
    ///
    /// # Errors
    /// The queue pair cannot be connected, or the data is too long. The request is then rejected.
    pub fn accept(mut self, qp: &QueuePair, private_data: &[u8]) -> Result<(), ConnectError> {
        check_private_data(private_data)?;
        if !Arc::ptr_eq(&self.engine, qp.engine()) {
            return Err(ConnectError::OtherEngine { qp: qp.number() });
        }
        let (listening, attempt) = (self.engine.first_worker(), self.request.attempt());
        // This comes first, so that the listener does not take a queue pair that is reset or
        // destroyed in the meantime for one that answers.
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

    /// Rejects the request. The peer's `connect` fails.
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
