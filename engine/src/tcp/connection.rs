//! A connection: a socket, what waits to leave by it, and what has arrived in part.

use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use braid_wire::QpId;
use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};
use socket2::{SockAddr, SockRef, Socket};

use super::closing::Closed;
use super::incoming::Incoming;
use super::outgoing::Outgoing;
use super::peers::PeerKey;
use super::spares::Spares;
use crate::link::Via;
use crate::paths_to::PathRoute;

/// Waiting bytes from which on queue pairs pause.
const HIGH: usize = 1 << 20;
/// Waiting bytes below which they continue.
const LOW: usize = 256 << 10;
/// Time without progress after which a connection counts as stalled: its peer takes nothing. Longer
/// than the shortest retransmission time-out of the kernel, which is 200 ms.
const STALL: Duration = Duration::from_millis(300);
/// Time without progress after which a connection ends.
const DEAD: Duration = Duration::from_secs(3);
/// Time that a stranger has to say what it is.
const GREETING: Duration = Duration::from_secs(5);
/// Time after which a connection without queue pairs ends, unless something arrives by it.
const UNUSED: Duration = Duration::from_secs(5);

/// A connection of a table, and the number of its user, because places are used again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ConnId {
    pub(super) index: u32,
    pub(super) serial: u32,
}

impl ConnId {
    pub(super) fn to_bits(self) -> u64 {
        u64::from(self.serial) << 32 | u64::from(self.index)
    }

    pub(super) fn from_bits(bits: u64) -> Self {
        ConnId { index: bits as u32, serial: (bits >> 32) as u32 }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// The peer's host has not answered yet.
    Connecting,
    /// The opener has not said yet what it is.
    Greeting,
    Open,
}

/// A connection.
pub(super) struct TcpConnection {
    pub(super) id: ConnId,
    pub(super) socket: Socket,
    pub(super) stage: Stage,
    /// Whether this end has opened the connection.
    pub(super) is_dialled: bool,
    /// The peer, once it is known.
    pub(super) peer: Option<PeerKey>,
    pub(super) via: Via,
    /// Whether the peer has queue pairs here.
    pub(super) is_wanted: bool,
    pub(super) out: Outgoing,
    pub(super) input: Incoming,
    /// Whether the socket was full, and reports when it is not any more.
    is_blocked: bool,
    /// Whether the connection is in the list of those with something to send.
    pub(super) is_dirty: bool,
    /// Queue pairs that wait for room.
    waiting: Vec<QpId>,
    watch: Watch,
}

/// The progress of a connection as the timer sees it.
struct Watch {
    is_stalled: bool,
    sent: u64,
    sent_at: Instant,
    received: u64,
    received_at: Instant,
}

/// The state of a connection at a tick.
pub(super) enum Health {
    /// Nothing is under way.
    Idle,
    /// Look again in a second or so.
    Aging,
    /// Look again soon.
    Busy,
    Ended(Closed),
}

impl TcpConnection {
    pub(super) fn new(id: ConnId, socket: Socket, stage: Stage, spares: Spares) -> Self {
        let now = Instant::now();
        TcpConnection {
            id,
            socket,
            stage,
            is_dialled: stage == Stage::Connecting,
            peer: None,
            via: Via::Port,
            is_wanted: false,
            out: Outgoing::new(spares),
            input: Incoming::default(),
            is_blocked: false,
            is_dirty: false,
            waiting: Vec::new(),
            watch: Watch {
                is_stalled: false,
                sent: 0,
                sent_at: now,
                received: 0,
                received_at: now,
            },
        }
    }

    /// Begins to report events of the socket.
    pub(super) fn register(&self, epoll: &Epoll) -> nix::Result<()> {
        epoll.add(&self.socket, self.interest(self.stage == Stage::Connecting))
    }

    fn interest(&self, writable: bool) -> EpollEvent {
        let mut events = EpollFlags::EPOLLIN | EpollFlags::EPOLLRDHUP;
        events.set(EpollFlags::EPOLLOUT, writable);
        EpollEvent::new(events, self.id.to_bits())
    }

    /// Records that the peer's host has answered.
    pub(super) fn opened(&mut self) {
        self.stage = Stage::Open;
        // The socket is registered for its answer as for room.
        self.is_blocked = true;
    }

    /// The ports of the connection. `None`: it is not open.
    pub(super) fn route(&self, to: SocketAddr) -> Option<PathRoute> {
        let port = |addr: std::io::Result<SockAddr>| addr.ok()?.as_socket().map(|it| it.port());
        let path = if let Via::Path(path) = self.via { Some(path) } else { None };
        Some(PathRoute {
            to,
            rail: 0,
            path: path.filter(|_| self.stage == Stage::Open),
            local_port: port(self.socket.local_addr())?,
            remote_port: port(self.socket.peer_addr())?,
        })
    }

    /// Whether packets may leave by it.
    pub(super) fn is_usable(&self) -> bool {
        self.stage == Stage::Open && !self.watch.is_stalled
    }

    /// Makes a queue pair wait if too much waits already. Returns whether it waits.
    pub(super) fn pauses(&mut self, qp: QpId) -> bool {
        let is_full = self.out.bytes() >= HIGH;
        if is_full && !self.waiting.contains(&qp) {
            self.waiting.push(qp);
        }
        is_full
    }

    /// Whether packets that are repeated if they get lost may still be added.
    pub(super) fn takes_packets(&self) -> bool {
        self.out.bytes() < if self.is_wanted { HIGH + LOW } else { LOW / 8 }
    }

    /// Takes the queue pairs that may continue.
    pub(super) fn resumed(&mut self) -> impl Iterator<Item = QpId> + '_ {
        let has_room = self.out.bytes() < LOW || self.watch.is_stalled;
        let count = if has_room { self.waiting.len() } else { 0 };
        self.waiting.drain(..count)
    }

    /// Takes all queue pairs that wait.
    pub(super) fn release(&mut self) -> Vec<QpId> {
        std::mem::take(&mut self.waiting)
    }

    /// Sends as much as the socket takes, which `is_writable` now if it was full. Returns whether
    /// the socket has become full.
    pub(super) fn flush(&mut self, epoll: &Epoll, is_writable: bool) -> Result<bool, Closed> {
        if self.stage != Stage::Open || (self.is_blocked && !is_writable) {
            return Ok(false);
        }
        let is_blocked = !self.out.send(self.socket.as_raw_fd())?;
        if is_blocked == self.is_blocked {
            return Ok(false);
        }
        if is_blocked {
            self.watch.sent_at = Instant::now();
        }
        self.is_blocked = is_blocked;
        let changed = epoll.modify(&self.socket, &mut self.interest(is_blocked));
        changed.map_err(std::io::Error::from)?;
        Ok(is_blocked)
    }

    /// Records that a frame has begun to arrive.
    pub(super) fn is_amid_frame(&mut self) {
        self.watch.received_at = Instant::now();
    }

    /// Whether the peer has queue pairs here or was called by this end, so that it may send long
    /// frames.
    pub(super) fn is_known(&self) -> bool {
        self.is_dialled || self.is_wanted
    }

    /// Judges the progress since the last tick.
    pub(super) fn tick(&mut self, now: Instant) -> Health {
        let is_wanted = self.is_wanted;
        let TcpConnection { watch, out, input, stage, .. } = self;
        if out.is_empty() || out.sent() != watch.sent {
            (watch.sent, watch.sent_at, watch.is_stalled) = (out.sent(), now, false);
        }
        let has_received = input.received() != watch.received;
        if has_received || (is_wanted && !input.is_partial()) {
            (watch.received, watch.received_at) = (input.received(), now);
        }
        let (unsent, silent) = (now - watch.sent_at, now - watch.received_at);
        match stage {
            Stage::Connecting if unsent > DEAD => {
                return Health::Ended(Closed::System(std::io::ErrorKind::TimedOut.into()));
            }
            Stage::Connecting => return Health::Busy,
            Stage::Greeting if silent > GREETING => return Health::Ended(Closed::Silent),
            Stage::Greeting => return Health::Aging,
            Stage::Open => {}
        }
        watch.is_stalled |= unsent > STALL;
        if unsent > DEAD {
            return Health::Ended(Closed::Stalled);
        }
        if input.is_partial() && silent > DEAD {
            return Health::Ended(Closed::StalledFrame);
        }
        if !is_wanted && silent > UNUSED {
            return Health::Ended(Closed::Unused);
        }
        match (out.is_empty() && !input.is_partial(), is_wanted) {
            (false, _) => Health::Busy,
            (true, false) => Health::Aging,
            (true, true) => Health::Idle,
        }
    }

    /// Ends the connection. The peer still gets what the socket has taken, as far as it reads it.
    pub(super) fn end(mut self, epoll: &Epoll) {
        if self.stage == Stage::Open {
            let _ = self.out.send(self.socket.as_raw_fd());
        }
        let _ = epoll.delete(self.socket.as_fd());
        let _ = SockRef::from(&self.socket).shutdown(std::net::Shutdown::Write);
        // A socket that is closed with unread bytes resets the connection, and the peer would lose
        // what it has not read yet.
        let mut rest = [std::mem::MaybeUninit::uninit(); 4096];
        for _ in 0..64 {
            if !matches!(self.socket.recv(&mut rest), Ok(count) if count > 0) {
                break;
            }
        }
    }
}
