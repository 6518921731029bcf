//! Errors of connecting, and the outcome that the application waits for.

use std::io;
use std::net::SocketAddr;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use braid_transport::QpState;
use braid_wire::{BASE_DATAGRAM, MAX_PRIVATE_DATA, QpId, RejectReason};

use crate::datapath::JoinError;
use crate::degradation::Misrouting;
use crate::event_fd::EventFd;
use crate::resolve::ResolveError;
use crate::wake::Event;

/// The reason why a queue pair was not connected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The peer did not answer in time.
    #[error(
        "{addr} did not answer in time; is a Braid listener there, and do {over} packets reach its \
         port?"
    )]
    TimedOut {
        /// The address of the peer.
        addr: SocketAddr,
        /// The protocol of the packets, such as `UDP`, or `UDP or TCP`.
        over: String,
    },
    /// The peer did not answer in time, and this host would drop its answer.
    #[error("{addr} did not answer in time: {source}")]
    Misrouted {
        /// The address of the peer.
        addr: SocketAddr,
        /// The reason for dropping it.
        source: Misrouting,
    },
    /// The peer rejected the connection.
    #[error("{addr} rejected the connection: {reason}")]
    Rejected {
        /// The address of the peer.
        addr: SocketAddr,
        /// The peer's reason.
        reason: RejectReason,
    },
    /// The path carries small datagrams only.
    #[error(
        "the path to {addr} carries no datagrams of {BASE_DATAGRAM} bytes, the least that Braid \
         works with (this host's route to it takes {route} bytes); raise the MTU of the links on \
         the way to 1280 at least"
    )]
    PathMtu {
        /// The address of the peer.
        addr: SocketAddr,
        /// Bytes of the largest datagram (UDP payload) that this host's route carries, as far as
        /// the host knows the path.
        route: usize,
    },
    /// The system reports that the address has no route or the port no listener, or there was no
    /// descriptor to ask with. A router or the peer's host says so within about half a second,
    /// before any other answer of the peer.
    #[error("{addr} cannot be reached: {source}; {}", remedy(source))]
    Unreachable {
        /// The address of the peer.
        addr: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// The queue pair's state does not allow connecting.
    #[error(
        "queue pair {qp} is in state {state}; only one in RESET or INIT can be connected, so move \
         it to RESET first"
    )]
    State {
        /// The number of the queue pair.
        qp: QpId,
        /// The state of the queue pair.
        state: QpState,
    },
    /// Another thread is connecting the queue pair.
    #[error("queue pair {qp} is being connected already; wait until that attempt ends")]
    AlreadyConnecting {
        /// The number of the queue pair.
        qp: QpId,
    },
    /// The private data is too long.
    #[error(
        "{len} bytes of private data are more than {MAX_PRIVATE_DATA}; send the rest once connected"
    )]
    PrivateData {
        /// Bytes of the private data.
        len: usize,
    },
    /// The queue pair belongs to another engine than the listener.
    #[error(
        "queue pair {qp} belongs to another engine than the connection request; create it with the \
         engine that listens"
    )]
    OtherEngine {
        /// The number of the queue pair.
        qp: QpId,
    },
    /// The datapaths of the two ends cannot be joined.
    #[error("cannot connect to {addr}: {source}")]
    Join {
        /// The address of the peer.
        addr: SocketAddr,
        /// The reason.
        source: JoinError,
    },
    /// The host to connect to has no address.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// The process has no descriptor for the outcome.
    #[error(
        "no event descriptor for an attempt to connect: {0}; raise the limit of open files \
         (`ulimit -n`)"
    )]
    Event(#[source] io::Error),
    /// The queue pair was reset, disconnected or moved to ERR in the meantime.
    #[error(
        "connecting to {addr} was given up, because the queue pair was reset, disconnected or \
         moved to ERR"
    )]
    Cancelled {
        /// The address of the peer.
        addr: SocketAddr,
    },
}

/// Returns the remedy for an error of the system on the path to a peer.
fn remedy(source: &io::Error) -> &'static str {
    match source.raw_os_error() {
        Some(libc::EMFILE) => {
            "this process has as many open files as it may: raise the limit (`ulimit -n`)"
        }
        Some(libc::ENFILE) => "the host has no room for another open file: raise `fs.file-max`",
        _ => {
            "check the address and the port, that a Braid listener is there, and that the engine \
             is bound to an address of that kind"
        }
    }
}

/// Rejects private data that does not fit in a packet.
pub(crate) fn check_private_data(data: &[u8]) -> Result<(), ConnectError> {
    let len = data.len();
    if len > MAX_PRIVATE_DATA { Err(ConnectError::PrivateData { len }) } else { Ok(()) }
}

/// The outcome of an attempt. The application waits here for the worker's result.
#[derive(Default)]
pub(crate) struct Outcome {
    value: Mutex<Option<Result<Vec<u8>, ConnectError>>>,
    changed: Condvar,
    /// A descriptor for applications that do not wait. It is readable once there is an outcome.
    event: Option<EventFd>,
}

impl Outcome {
    /// Creates an outcome with a descriptor.
    pub(crate) fn with_event() -> io::Result<Self> {
        Ok(Outcome { event: Some(EventFd::new()?), ..Outcome::default() })
    }

    pub(crate) fn event(&self) -> Option<&EventFd> {
        self.event.as_ref()
    }

    pub(crate) fn set(&self, value: Result<Vec<u8>, ConnectError>) {
        *self.value.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
        self.changed.notify_all();
        self.event.iter().for_each(Event::raise);
    }

    pub(crate) fn take(&self) -> Option<Result<Vec<u8>, ConnectError>> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Waits for the outcome. `None`: there was none within `limit`.
    pub(crate) fn wait(&self, limit: Duration) -> Option<Result<Vec<u8>, ConnectError>> {
        let value = self.value.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(value, limit, |value| value.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.take()
    }
}
