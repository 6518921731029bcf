//! How connecting can fail, and where the application waits for it.

use std::io;
use std::net::SocketAddr;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use braid_transport::QpState;
use braid_wire::{BASE_DATAGRAM, MAX_PRIVATE_DATA, QpId, RejectReason};

use crate::datapath::JoinError;
use crate::degradation::Misrouting;
use crate::event_fd::EventFd;
use crate::wake::Event;

/// Why a queue pair was not connected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// Nobody answered in time.
    #[error(
        "{addr} did not answer in time; is a Braid listener there, and does UDP reach its port?"
    )]
    TimedOut {
        /// Whom it was to reach.
        addr: SocketAddr,
    },
    /// Nobody answered in time, and this host would drop what comes from there.
    #[error("{addr} did not answer in time: {source}")]
    Misrouted {
        /// Whom it was to reach.
        addr: SocketAddr,
        /// Why.
        source: Misrouting,
    },
    /// The peer said no.
    #[error("{addr} turned the connection down: {reason}")]
    Rejected {
        /// The peer.
        addr: SocketAddr,
        /// Why.
        reason: RejectReason,
    },
    /// The path carries small datagrams only.
    #[error(
        "the path to {addr} carries no datagrams of {BASE_DATAGRAM} bytes, the least that Braid works with (this host's route to it takes {route} bytes); raise the MTU of the links on the way to 1280 at least"
    )]
    PathMtu {
        /// Whom it was to reach.
        addr: SocketAddr,
        /// Bytes of the largest datagram (UDP payload) that this host's route takes, as far as it
        /// knows the path.
        route: usize,
    },
    /// There is no way to that address, nobody has the port, or there is no descriptor to ask by:
    /// the system knows, or has been told within half a second or so by a router or the host,
    /// before anything else has come from there.
    #[error("{addr} cannot be reached: {source}; {}", remedy(source))]
    Unreachable {
        /// Whom it was to reach.
        addr: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The queue pair is past that.
    #[error(
        "queue pair {qp} is in state {state}; only one in RESET or INIT can be connected, so move it to RESET first"
    )]
    State {
        /// Its number.
        qp: QpId,
        /// Its state.
        state: QpState,
    },
    /// Another thread is at it.
    #[error("queue pair {qp} is being connected already; wait for that to end")]
    AlreadyConnecting {
        /// Its number.
        qp: QpId,
    },
    /// More private data than fits.
    #[error(
        "{len} bytes of private data are more than {MAX_PRIVATE_DATA}; send the rest once connected"
    )]
    PrivateData {
        /// Its length.
        len: usize,
    },
    /// The queue pair belongs to another engine than the listener.
    #[error(
        "queue pair {qp} belongs to another engine than the connection request; create it with the engine that listens"
    )]
    OtherEngine {
        /// Its number.
        qp: QpId,
    },
    /// The datapaths of the two ends cannot be joined.
    #[error("cannot connect to {addr}: {source}")]
    Join {
        /// Whom it was to reach.
        addr: SocketAddr,
        /// Why.
        source: JoinError,
    },
    /// No descriptor to tell of the outcome.
    #[error(
        "no event descriptor for an attempt to connect: {0}; raise the limit of open files (`ulimit -n`)"
    )]
    Event(#[source] io::Error),
    /// The queue pair was reset, disconnected or moved to ERR meanwhile.
    #[error(
        "connecting to {addr} was given up, because the queue pair was reset, disconnected or moved to ERR"
    )]
    Cancelled {
        /// Whom it was to reach.
        addr: SocketAddr,
    },
}

/// The remedy for an error of the system on the way to a peer.
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

/// Refuses private data that no packet holds.
pub(crate) fn check_private_data(data: &[u8]) -> Result<(), ConnectError> {
    let len = data.len();
    if len > MAX_PRIVATE_DATA { Err(ConnectError::PrivateData { len }) } else { Ok(()) }
}

/// Where the outcome of an attempt is put and the application waits for it.
#[derive(Default)]
pub(crate) struct Outcome {
    value: Mutex<Option<Result<Vec<u8>, ConnectError>>>,
    changed: Condvar,
    /// Of who does not wait: readable once there is an outcome.
    event: Option<EventFd>,
}

impl Outcome {
    /// With a descriptor.
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

    /// `None`: nothing came in time.
    pub(crate) fn wait(&self, limit: Duration) -> Option<Result<Vec<u8>, ConnectError>> {
        let value = self.value.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(value, limit, |value| value.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.take()
    }
}
