//! The part of a process in a port that several processes use.
//!
//! All processes of a port have the same UDP socket, so that it outlives each of them. One of them
//! reads it: the one that listens at the port's name in the abstract namespace. It hands datagrams
//! that others have claimed on to their inboxes. The others are connected to it. When it ends, one
//! of them takes the name and reads on.
//!
//! Datagrams that the reader had taken and not handed on are lost with it, and RC sends them again.
//! Only processes of one user share a port: the kernel tells each of two connected processes the
//! other's user.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};

use super::claim::{Claim, MAX_CLAIMS, Reply, Request};
use super::holder::{PortTaken, Unshared};
use super::routes::{PortRoutes, READER};
use super::unix::{NameListener, Process, UnixConnection};
use crate::event_fd::EventFd;
use crate::wake::Event;

/// The longest wait for an answer of the reader.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);
/// The longest wait until there is a reader again.
const READER_LIMIT: Duration = Duration::from_secs(2);

/// The state of a process in a port.
pub(super) struct Share {
    /// The address that the socket is bound to.
    local: SocketAddr,
    socket: OwnedFd,
    /// The sending end of this process's inbox. `None`: it has none, as it has always read.
    inbox: Option<OwnedFd>,
    /// Readable when the socket or the inbox is, whichever this process reads.
    pub(super) readiness: Option<Epoll>,
    is_reader: AtomicBool,
    has_inboxes: AtomicBool,
    state: Mutex<ShareState>,
    changed: Condvar,
    pub(super) stop: EventFd,
}

struct ShareState {
    role: Role,
    routes: PortRoutes,
    /// The destinations of this process.
    own: BTreeSet<Claim>,
}

enum Role {
    Reader,
    Member(Arc<UnixConnection>),
    /// The reader has ended.
    Between,
}

impl Share {
    /// The state of the process that has opened the socket. It reads.
    pub(super) fn of_reader(local: SocketAddr, socket: OwnedFd) -> io::Result<Self> {
        Share::new(local, socket, Role::Reader)
    }

    /// The state of a process that joins the reader of one of these names. `inbox`: its inbox.
    ///
    /// # Errors
    /// `ConnectionRefused`: nobody has the name. `AddrInUse`, with [`PortTaken`]: the reader does
    /// not let this process in.
    pub(super) fn join(local: SocketAddr, inbox: &super::inbox::Inbox) -> io::Result<Self> {
        let (connection, socket) = connect(&name(local), inbox.sender()?.as_fd())?;
        let mut share = Share::new(local, socket, Role::Member(Arc::new(connection)))?;
        let readiness = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        readiness.add(inbox, EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
        (share.inbox, share.readiness) = (Some(inbox.sender()?), Some(readiness));
        Ok(share)
    }

    fn new(local: SocketAddr, socket: OwnedFd, role: Role) -> io::Result<Self> {
        let is_reader = AtomicBool::new(matches!(role, Role::Reader));
        let state = ShareState { role, routes: PortRoutes::default(), own: BTreeSet::new() };
        Ok(Share {
            local,
            socket,
            inbox: None,
            readiness: None,
            is_reader,
            has_inboxes: AtomicBool::new(false),
            state: Mutex::new(state),
            changed: Condvar::new(),
            stop: EventFd::new()?,
        })
    }

    pub(super) fn local(&self) -> SocketAddr {
        self.local
    }

    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Whether this process reads the socket.
    #[inline]
    pub(super) fn is_reader(&self) -> bool {
        self.is_reader.load(Ordering::Acquire)
    }

    /// Whether datagrams may be for other processes.
    #[inline]
    pub(super) fn has_inboxes(&self) -> bool {
        self.has_inboxes.load(Ordering::Acquire)
    }

    /// Reads or changes the destinations of all processes, if this one reads.
    pub(super) fn with_routes<T>(&self, run: impl FnOnce(&mut PortRoutes) -> T) -> T {
        let routes = &mut self.state().routes;
        let result = run(routes);
        self.has_inboxes.store(routes.has_inboxes(), Ordering::Release);
        result
    }

    /// Claims a destination for this process. Returns false if another process has it.
    ///
    /// # Errors
    /// The process that reads the port does not answer.
    pub(super) fn claim(&self, claim: Claim) -> io::Result<bool> {
        let until = Instant::now() + READER_LIMIT;
        let mut state = self.state();
        loop {
            let ShareState { role, routes, .. } = &mut *state;
            let answer = match role {
                Role::Reader if self.is_reader() => Ok(routes.claim(READER, &[claim])),
                Role::Member(reader) => ask(reader, &Request::Claim(vec![claim])),
                // The others first claim what they had.
                Role::Reader | Role::Between => Err(io::ErrorKind::TimedOut.into()),
            };
            match answer {
                Ok(is_claimed) => {
                    if is_claimed {
                        state.own.insert(claim);
                    }
                    return Ok(is_claimed);
                }
                Err(error) if Instant::now() >= until => return Err(error),
                Err(_) => state = self.wait_for_reader(state),
            }
        }
    }

    fn wait_for_reader<'a>(
        &self,
        mut state: MutexGuard<'a, ShareState>,
    ) -> MutexGuard<'a, ShareState> {
        if let Role::Member(reader) = &state.role {
            // The thread of the port notices the end and looks for a reader.
            reader.shut_down();
            state.role = Role::Between;
        }
        let waited = self.changed.wait_timeout(state, READER_LIMIT);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Gives a destination back.
    pub(super) fn release(&self, claim: Claim) {
        let mut state = self.state();
        let ShareState { role, routes, own } = &mut *state;
        own.remove(&claim);
        match role {
            Role::Reader => routes.release(READER, &[claim]),
            // The reader forgets all destinations if it ends.
            Role::Member(reader) => {
                let _ = reader.send(&Request::Release(vec![claim]).encode(), None);
            }
            Role::Between => {}
        }
    }

    /// The connection to the reader. `None`: this process reads, or nobody does.
    pub(super) fn reader(&self) -> Option<Arc<UnixConnection>> {
        match &self.state().role {
            Role::Member(reader) => Some(reader.clone()),
            Role::Reader | Role::Between => None,
        }
    }

    /// Forgets the reader, which has ended.
    pub(super) fn leave(&self) {
        self.state().role = Role::Between;
    }

    /// Takes the place of the reader that has ended, or joins the process that has taken it.
    /// Returns the listener in the first case.
    ///
    /// # Errors
    /// Neither is possible at the moment.
    pub(super) fn follow(&self) -> io::Result<Option<NameListener>> {
        let mut state = self.state();
        match NameListener::bind(&name(self.local)) {
            Ok(listener) => {
                let own: Vec<Claim> = state.own.iter().copied().collect();
                state.routes = PortRoutes::default();
                state.routes.claim(READER, &own);
                state.role = Role::Reader;
                return Ok(Some(listener));
            }
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(error),
        }
        let inbox = self.inbox.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let (reader, _) = connect(&name(self.local), inbox.as_fd())?;
        let own: Vec<Claim> = state.own.iter().copied().collect();
        for claims in own.chunks(MAX_CLAIMS) {
            if !ask(&reader, &Request::Keep(claims.to_vec()))? {
                let local = self.local;
                tracing::error!(%local, "queue pairs receive nothing more: their numbers are taken");
            }
        }
        state.role = Role::Member(Arc::new(reader));
        self.changed.notify_all();
        Ok(None)
    }

    /// Begins to read the socket.
    pub(super) fn read(&self) {
        if self.is_reader.swap(true, Ordering::AcqRel) {
            return;
        }
        if let Some(readiness) = &self.readiness
            && let Err(error) = readiness.add(&self.socket, EpollEvent::new(EpollFlags::EPOLLIN, 1))
        {
            tracing::error!(local = %self.local, %error, "a sleeping engine misses RoCEv2 packets");
        }
        // No thread that waits is between its look and its wait.
        drop(self.state());
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, ShareState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The name of the port with this address.
pub(super) fn name(local: SocketAddr) -> String {
    format!("braid-roce/{local}")
}

/// The user of this process.
pub(super) fn own_user() -> u32 {
    nix::unistd::geteuid().as_raw()
}

/// Joins the process that has a name. Returns the connection and the port's socket.
fn connect(name: &str, inbox: BorrowedFd<'_>) -> io::Result<(UnixConnection, OwnedFd)> {
    let connection = UnixConnection::connect(name, ANSWER_LIMIT)?;
    let reader: Process = connection.peer()?;
    if reader.uid != own_user() {
        return Err(PortTaken::error(reader, Unshared::OtherUser));
    }
    let refused = |_| PortTaken::error(reader, Unshared::Refused);
    connection.send(&Request::Join.encode(), Some(inbox)).map_err(refused)?;
    let mut bytes = [0; 8];
    let (len, socket) = connection.recv(&mut bytes).map_err(refused)?;
    match (Reply::of(&bytes[..len]), socket) {
        (Some(Reply::Yes), Some(socket)) => Ok((connection, socket)),
        _ => Err(PortTaken::error(reader, Unshared::Refused)),
    }
}

/// Claims destinations at the reader.
fn ask(reader: &UnixConnection, request: &Request) -> io::Result<bool> {
    reader.send(&request.encode(), None)?;
    let mut bytes = [0; 8];
    let (len, _) = reader.recv(&mut bytes)?;
    let reply = Reply::of(&bytes[..len]).ok_or(io::ErrorKind::ConnectionReset)?;
    Ok(reply == Reply::Yes)
}
