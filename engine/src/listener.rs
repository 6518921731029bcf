//! The accepting side of connections, as the application sees it.

use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use braid_wire::{Connect, RejectReason};

use crate::connect::{ConnectError, check_private_data};
use crate::engine::EngineInner;
use crate::qp::QueuePair;
use crate::worker::Attempt;

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
}

/// Takes connections. They come to the engine's first port; [`Listener::local_addr`].
///
/// Dropping it turns down those that wait and ends the listening; accepted connections stay.
pub struct Listener {
    engine: Arc<EngineInner>,
    backlog: Arc<Backlog>,
}

/// A CONNECT whose sender has proved its address.
pub(crate) struct Incoming {
    pub(crate) from: SocketAddr,
    pub(crate) connect: Connect,
}

impl Incoming {
    pub(crate) fn attempt(&self) -> Attempt {
        (self.from, self.connect.nonce)
    }
}

/// Connections that wait for the application.
pub(crate) struct Backlog {
    capacity: usize,
    queue: Mutex<VecDeque<Incoming>>,
    arrived: Condvar,
}

impl Backlog {
    fn queue(&self) -> MutexGuard<'_, VecDeque<Incoming>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// False: it is full.
    pub(crate) fn push(&self, incoming: Incoming) -> bool {
        let mut queue = self.queue();
        let room = queue.len() < self.capacity;
        if room {
            queue.push_back(incoming);
            self.arrived.notify_one();
        }
        room
    }

    fn pop(&self) -> Option<Incoming> {
        self.queue().pop_front()
    }

    fn wait(&self, limit: Duration) -> Option<Incoming> {
        let empty = |queue: &mut VecDeque<Incoming>| queue.is_empty();
        let waited = self.arrived.wait_timeout_while(self.queue(), limit, empty);
        waited.unwrap_or_else(PoisonError::into_inner).0.pop_front()
    }
}

impl Listener {
    pub(crate) fn new(engine: Arc<EngineInner>, capacity: usize) -> Result<Self, ListenError> {
        if capacity == 0 {
            return Err(ListenError::Backlog);
        }
        let (queue, arrived) = (Mutex::default(), Condvar::new());
        let backlog = Arc::new(Backlog { capacity, queue, arrived });
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
    pub fn accept(&self, timeout: Duration) -> Option<ConnectionRequest> {
        let incoming = if self.engine.application_drives() {
            self.engine.drive(Some(timeout), || self.backlog.pop())
        } else {
            self.backlog.wait(timeout)
        };
        incoming.map(|incoming| self.request(incoming))
    }

    fn request(&self, incoming: Incoming) -> ConnectionRequest {
        ConnectionRequest { engine: self.engine.clone(), incoming, answered: false }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.engine.first_worker().control().stop_listening();
        while let Some(incoming) = self.backlog.pop() {
            drop(self.request(incoming));
        }
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("local_addr", &self.local_addr()).finish()
    }
}

/// Somebody wants to connect. Dropping it rejects.
pub struct ConnectionRequest {
    engine: Arc<EngineInner>,
    incoming: Incoming,
    answered: bool,
}

impl ConnectionRequest {
    /// Where it comes from.
    pub fn peer_addr(&self) -> SocketAddr {
        self.incoming.from
    }

    /// What the peer's application gave with it.
    pub fn private_data(&self) -> &[u8] {
        &self.incoming.connect.private_data
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
        let accepted = qp.worker().control().accept(qp.index(), &self.incoming, private_data);
        if let Err(ConnectError::Trunk { .. }) = accepted {
            self.answered = true;
            let mut worker = self.engine.first_worker().control();
            worker.turn_down(self.incoming.attempt(), RejectReason::Datapath);
        }
        let accept = accepted?;
        self.answered = true;
        self.engine.first_worker().control().answer(self.incoming.attempt(), accept);
        Ok(())
    }

    /// Turns it down: the peer's `connect` fails.
    pub fn reject(self) {
        drop(self);
    }
}

impl Drop for ConnectionRequest {
    fn drop(&mut self) {
        if !self.answered {
            let mut worker = self.engine.first_worker().control();
            worker.turn_down(self.incoming.attempt(), RejectReason::Refused);
        }
    }
}

impl fmt::Debug for ConnectionRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionRequest").field("peer_addr", &self.incoming.from).finish()
    }
}
