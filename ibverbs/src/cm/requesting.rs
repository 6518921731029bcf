//! Sending a request to a listener.

use std::ffi::c_int;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use braid::Security;

use super::events::EventKind;
use super::exchange::{self, Protection};
use super::id::IdShared;
use super::message::{CmMessage, MessageKind};
use super::roce::reach::Reach;
use crate::messages::{Link, Port};

/// The time in which the other host has to answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The time after which another host that does not answer may be one that is not Braid.
const ROCE_TIMEOUT: Duration = Duration::from_secs(3);
/// The time in which the program of the other host has to accept or reject.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// The time that a listener may be late, and the pause between two attempts.
pub(super) const LATE_LISTENER: Duration = Duration::from_secs(1);
pub(super) const PAUSE: Duration = Duration::from_millis(20);
/// `IB_CM_REJ_INVALID_SERVICE_ID` and `IB_CM_REJ_CONSUMER_DEFINED`.
pub(super) const NOBODY_LISTENS: c_int = 8;
pub(super) const REFUSED: c_int = 28;

/// The request of this end, and the keys that protect it.
#[derive(Clone, Copy)]
pub(super) struct Request<'a> {
    /// The question whether the other end may be one that is not Braid. `None`: it is Braid.
    pub(super) reach: Option<&'a Reach>,
    pub(super) security: Option<&'a Security>,
    pub(super) message: &'a CmMessage,
}

/// The event of a failure: its kind and status, and the message of the other end.
pub(super) type Failed = (EventKind, c_int, Option<CmMessage>);

/// Sends the request to the listener. If the listener accepts it, calls `accepted`. If that returns
/// `Err`, the link is closed. `None`: the other end is not Braid, and may speak RoCEv2.
pub(super) fn send_request<T>(
    shared: &IdShared,
    attempt: &Arc<()>,
    ends: (SocketAddr, SocketAddr),
    request: Request<'_>,
    accepted: impl FnOnce(&Link, CmMessage, Protection) -> Result<T, Failed>,
) -> Result<Option<(Arc<Link>, T)>, Failed> {
    let unreachable = |error: io::Error| match error.kind() {
        io::ErrorKind::ConnectionRefused => (EventKind::Rejected, NOBODY_LISTENS, None),
        _ => (EventKind::Unreachable, -error.raw_os_error().unwrap_or(libc::ETIMEDOUT), None),
    };
    let Some(port) = shared.port() else { return Err(failed(libc::ECONNABORTED)) };
    let connected = connect_link(&port, ends, request.reach).map_err(unreachable)?;
    let Some(link) = connected.map(Arc::new) else { return Ok(None) };
    if !shared.connection().open(attempt, &link) {
        return Err(failed(libc::ECONNABORTED));
    }
    let answered = recv_answer(&link, request);
    match answered.and_then(|(answer, protection)| accepted(&link, answer, protection)) {
        Ok(done) => Ok(Some((link, done))),
        Err(failed) => {
            close_link(shared, &link);
            Err(failed)
        }
    }
}

/// Ends the exchange. The link may be closed already.
pub(super) fn close_link(shared: &IdShared, link: &Arc<Link>) {
    link.close();
    shared.connection().lose(link);
}

pub(super) fn failed(errno: c_int) -> Failed {
    (EventKind::ConnectError, -errno, None)
}

pub(super) fn broken(error: io::Error) -> Failed {
    failed(error.raw_os_error().unwrap_or(libc::ECONNRESET))
}

/// Waits for the answer of the other end.
///
/// # Errors
/// The other end does not accept.
fn recv_answer(link: &Link, request: Request<'_>) -> Result<(CmMessage, Protection), Failed> {
    let Request { security, message, .. } = request;
    let (answer, protection) =
        in_time(link, || exchange::send_request(link, security, message)?.answer(link))?;
    if answer.purpose.qp_type() != message.purpose.qp_type() {
        return Err(failed(libc::EPROTO));
    }
    match answer.kind {
        MessageKind::Accept => Ok((answer, protection)),
        MessageKind::Reject => Err((EventKind::Rejected, REFUSED, Some(answer))),
        MessageKind::Unserved => Err((EventKind::Rejected, NOBODY_LISTENS, None)),
        MessageKind::Request | MessageKind::Ready => Err(failed(libc::EPROTO)),
    }
}

/// Waits for a message of the other end, for a limited time.
pub(super) fn in_time<T>(
    link: &Link,
    receive: impl FnOnce() -> io::Result<T>,
) -> Result<T, Failed> {
    link.set_limit(Some(ANSWER_TIMEOUT));
    let received = receive().map_err(|error| match error.kind() {
        io::ErrorKind::TimedOut => (EventKind::Unreachable, -libc::ETIMEDOUT, None),
        // The other end has closed the link because of an incomplete message, or before any
        // message.
        io::ErrorKind::UnexpectedEof => failed(libc::ECONNRESET),
        _ => broken(error),
    })?;
    // A connection may be idle without limit.
    link.set_limit(None);
    Ok(received)
}

/// Connects to a listener that may be late. Programs such as perftest begin to listen a moment
/// after they have told their client to connect. On an RDMA fabric, the search for address and
/// route takes longer than that. `None`: the other end is not Braid, and may speak RoCEv2.
fn connect_link(
    port: &Port,
    (from, to): (SocketAddr, SocketAddr),
    reach: Option<&Reach>,
) -> io::Result<Option<Link>> {
    let until = Instant::now() + LATE_LISTENER;
    let mut limits = match reach.is_some() {
        true => vec![CONNECT_TIMEOUT - ROCE_TIMEOUT, ROCE_TIMEOUT],
        false => vec![CONNECT_TIMEOUT],
    };
    loop {
        let limit = limits.last().copied().unwrap_or(CONNECT_TIMEOUT);
        let error = match Link::connect(port, from.ip(), to, limit) {
            Ok(link) => return Ok(Some(link)),
            Err(error) => error,
        };
        let is_silent = error.kind() == io::ErrorKind::TimedOut;
        if !is_silent && error.kind() != io::ErrorKind::ConnectionRefused {
            return Err(error);
        }
        if reach.is_some_and(Reach::may_answer) {
            return Ok(None);
        }
        match is_silent {
            true => {
                limits.pop();
                if limits.is_empty() {
                    return Err(error);
                }
            }
            false if Instant::now() < until => thread::sleep(PAUSE),
            false => return Err(error),
        }
    }
}
