//! The thread of a port. While the process reads the port, the thread serves the others. Otherwise
//! it waits for the end of the process that does.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::claim::{Claim, MAX_REQUEST, Reply, Request};
use super::routes::{MemberId, READER};
use super::share::{Share, own_user};
use super::unix::{NameListener, UnixConnection};
use crate::event_fd::sleep_on;

/// Processes of a port, at most.
const MAX_MEMBERS: usize = 256;
/// Packets that one process is answered before the others are.
const TURN: usize = 16;
/// Time in which the processes of the former reader join before the new one reads. Datagrams wait
/// in the socket meanwhile.
const GRACE: Duration = Duration::from_millis(20);
/// Time between two attempts to find the process that reads.
const PAUSE: Duration = Duration::from_millis(5);
/// Time after which the log says that there is none.
const PATIENCE: Duration = Duration::from_secs(2);
/// The wait if the process has no descriptor left.
const NO_DESCRIPTOR: Duration = Duration::from_millis(100);

/// Runs until [`Share::stop`] is raised. `listener`: this process reads.
pub(super) fn run(share: &Share, listener: Option<NameListener>) {
    let mut listener = listener;
    loop {
        if let Some(listener) = listener.take() {
            return PortServer { share, listener, members: Vec::new(), next: READER.0 + 1 }.run();
        }
        if let Some(reader) = share.reader() {
            let ended = [(reader.as_fd(), PollFlags::empty())];
            if is_stopped(share, &ended, PollTimeout::NONE) {
                return;
            }
            share.leave();
        }
        match find_reader(share) {
            Some(found) => listener = found,
            None => return,
        }
    }
}

/// Waits until this process reads, which the listener says, or has joined another one. `None`: the
/// thread shall stop.
fn find_reader(share: &Share) -> Option<Option<NameListener>> {
    let mut warn_at = Some(Instant::now() + PATIENCE);
    loop {
        match share.follow() {
            Ok(Some(listener)) => {
                let local = share.local();
                tracing::info!(%local, "reads the port of RoCEv2, as its process has ended");
                return Some(Some(listener));
            }
            Ok(None) => return Some(None),
            Err(error) => {
                if warn_at.take_if(|at| Instant::now() >= *at).is_some() {
                    let local = share.local();
                    tracing::error!(%local, %error, "nobody reads the port of RoCEv2");
                }
            }
        }
        if sleep_on(&[share.stop.as_fd()], Some(PAUSE)) {
            return None;
        }
    }
}

/// Waits for one of the descriptors. Returns whether the thread shall stop.
fn is_stopped(share: &Share, others: &[(BorrowedFd<'_>, PollFlags)], limit: PollTimeout) -> bool {
    let stop = (share.stop.as_fd(), PollFlags::POLLIN);
    let all = std::iter::once(&stop).chain(others);
    let mut polled: Vec<PollFd<'_>> = all.map(|(fd, events)| PollFd::new(*fd, *events)).collect();
    // A signal ends the wait early, which is harmless.
    let _ = poll(&mut polled, limit);
    polled[0].any() == Some(true)
}

fn timeout(limit: Duration) -> PollTimeout {
    PollTimeout::from((limit.as_millis() as u16).max(1))
}

/// The other processes of a port that this process reads.
struct PortServer<'a> {
    share: &'a Share,
    listener: NameListener,
    members: Vec<Member>,
    next: u64,
}

struct Member {
    id: MemberId,
    /// Claims that are answered once the others have claimed what they had.
    waiting: Vec<Claim>,
    connection: UnixConnection,
}

impl PortServer<'_> {
    fn run(mut self) {
        let begins_at = Instant::now() + GRACE;
        let mut is_paused = false;
        loop {
            let limit = self.limit(begins_at, is_paused);
            let takes_more = !is_paused && self.members.len() < MAX_MEMBERS;
            let listener = takes_more.then(|| (self.listener.as_fd(), PollFlags::POLLIN));
            let members = self.members.iter();
            let members = members.map(|member| (member.connection.as_fd(), PollFlags::POLLIN));
            let others: Vec<_> = members.chain(listener).collect();
            if is_stopped(self.share, &others, limit) {
                return;
            }
            is_paused = false;
            if takes_more && let Err(error) = self.accept() {
                tracing::warn!(%error, "no other process can share the port of RoCEv2");
                is_paused = true;
            }
            let mut members = std::mem::take(&mut self.members);
            members.retain_mut(|member| self.answer(member));
            self.members = members;
        }
    }

    /// The longest wait. Begins to read the socket once the other processes have had their time.
    fn limit(&self, begins_at: Instant, is_paused: bool) -> PollTimeout {
        let left = begins_at.saturating_duration_since(Instant::now());
        if !self.share.is_reader() {
            if !left.is_zero() {
                return timeout(left);
            }
            self.share.read();
            // Claims that wait are answered now.
            return PollTimeout::ZERO;
        }
        if is_paused { timeout(NO_DESCRIPTOR) } else { PollTimeout::NONE }
    }

    /// Accepts the processes that wait.
    fn accept(&mut self) -> io::Result<()> {
        while self.members.len() < MAX_MEMBERS {
            let connection = match self.listener.accept() {
                Ok(connection) => connection,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            if connection.peer()?.uid == own_user() {
                let id = MemberId(self.next);
                self.members.push(Member { id, waiting: Vec::new(), connection });
                self.next += 1;
            }
        }
        Ok(())
    }

    /// Answers a process. Returns false, and removes it, at its end.
    fn answer(&self, member: &mut Member) -> bool {
        let mut bytes = vec![0; MAX_REQUEST];
        for _ in 0..TURN {
            match self.answer_one(member, &mut bytes) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                Err(_) => {
                    self.share.with_routes(|routes| routes.remove(member.id));
                    return false;
                }
            }
        }
        true
    }

    fn answer_one(&self, member: &mut Member, bytes: &mut [u8]) -> io::Result<()> {
        if !member.waiting.is_empty() && self.share.is_reader() {
            let claims = std::mem::take(&mut member.waiting);
            return self.answer_claim(member, &claims);
        }
        let Member { id, connection, .. } = &*member;
        let (len, fd) = connection.recv(bytes)?;
        let malformed = || io::Error::from(io::ErrorKind::InvalidData);
        match Request::decode(&bytes[..len]).ok_or_else(malformed)? {
            Request::Join => {
                let inbox = fd.ok_or_else(malformed)?;
                self.share.with_routes(|routes| routes.add(*id, inbox));
                connection.send(&[Reply::Yes as u8], Some(self.share.socket()))
            }
            Request::Claim(claims) if !self.share.is_reader() => {
                member.waiting = claims;
                Ok(())
            }
            Request::Claim(claims) | Request::Keep(claims) => self.answer_claim(member, &claims),
            Request::Release(claims) => {
                self.share.with_routes(|routes| routes.release(*id, &claims));
                Ok(())
            }
        }
    }

    fn answer_claim(&self, member: &Member, claims: &[Claim]) -> io::Result<()> {
        let is_free = self.share.with_routes(|routes| routes.claim(member.id, claims));
        let reply = if is_free { Reply::Yes } else { Reply::No };
        member.connection.send(&[reply as u8], None)
    }
}
