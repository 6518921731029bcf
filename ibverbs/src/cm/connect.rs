//! Connecting, and the end of a connection.

use std::ffi::c_int;
use std::io::{self, Read};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use braid::Security;
use socket2::{Domain, SockRef, Socket, Type};

use super::events::Kind;
use super::exchange;
use super::id::{Id, Shared};
use super::message::{self, Message};
use super::queue_pair;
use super::structs::{rdma_cm_id, rdma_conn_param};
use super::synchronous::complete;
use crate::context::Context;
use crate::errno::{self, Errno};

/// How long the other host may take to answer at all.
const REACH: Duration = Duration::from_secs(10);
/// How long its program may take to accept or reject.
const ANSWER: Duration = Duration::from_secs(30);
/// How long a listener may be late, and how often to look.
const LATE_LISTENER: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(20);
/// `IB_CM_REJ_INVALID_SERVICE_ID` and `IB_CM_REJ_CONSUMER_DEFINED`.
const NOBODY_LISTENS: c_int = 8;
const REFUSED: c_int = 28;

pub(super) fn run(name: &str, body: impl FnOnce() + Send + 'static) -> Result<(), Errno> {
    let thread = thread::Builder::new().name(name.to_owned()).spawn(body);
    thread.map(drop).map_err(|_| Errno::NO_MEMORY)
}

/// Connects to the listener at the resolved address: `RDMA_CM_EVENT_ESTABLISHED`, `.._REJECTED`, `.._UNREACHABLE` or
/// `.._CONNECT_ERROR`. `EINVAL`: the address is not resolved, there is no queue pair, or it is connected.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_connect(id: *mut rdma_cm_id, param: *mut rdma_conn_param) -> c_int {
    errno::number(|| {
        // SAFETY: by the caller's promise.
        let (object, param) = unsafe { (Id::of(id)?, param.as_ref()) };
        let to = object.destination().filter(|_| !object.base.qp.is_null());
        let to = to.ok_or(Errno::INVALID)?;
        let from = object.source().ok_or(Errno::INVALID)?;
        let request = queue_pair::message(object, message::Kind::Request, param)?;
        // SAFETY: it is resolved, so its device is open.
        let security = unsafe { Context::of(object.base.verbs) }?.open.security();
        let shared = object.shared.clone();
        let (attempt, port) = shared.connection().begin()?;
        run("braid-cm", move || {
            let asks = Asks { security: security.as_ref(), request: &request };
            let connected = connect(&shared, &attempt, (from, to), asks);
            drop(port); // the connection has it
            match connected {
                Ok(stream) => wait_for_end(&shared, &stream),
                Err((kind, status, said)) => shared.happened(kind, status, said),
            }
        })?;
        // SAFETY: as above.
        unsafe { complete(id) }?;
        Ok(0)
    })
}

/// What this end says first, and under which key.
#[derive(Clone, Copy)]
struct Asks<'a> {
    security: Option<&'a Security>,
    request: &'a Message,
}

/// What the program is told.
pub(super) type Failed = (Kind, c_int, Option<Message>);

fn connect(
    shared: &Shared,
    attempt: &Arc<()>,
    (from, to): (SocketAddr, SocketAddr),
    asks: Asks<'_>,
) -> Result<Arc<TcpStream>, Failed> {
    let unreachable = |error: io::Error| match error.kind() {
        io::ErrorKind::ConnectionRefused => (Kind::Rejected, NOBODY_LISTENS, None),
        _ => (Kind::Unreachable, -error.raw_os_error().unwrap_or(libc::ETIMEDOUT), None),
    };
    let stream = Arc::new(reach(from, to).map_err(unreachable)?);
    if !shared.connection().open(attempt, &stream) {
        abort(&stream);
        return Err(failed(libc::ECONNABORTED));
    }
    if let Err(failed) = ask(shared, &stream, asks) {
        // The other end shall not go on with it. It may be closed already.
        abort(&stream);
        let _ = stream.shutdown(Shutdown::Both);
        shared.connection().lose(&stream);
        return Err(failed);
    }
    Ok(stream)
}

/// When it is closed it is over at once: its port can connect to the same listener again, which it could not for a second (TIME-WAIT).
fn abort(stream: &TcpStream) {
    // It may be over already.
    let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
}

fn failed(errno: c_int) -> Failed {
    (Kind::ConnectError, -errno, None)
}

fn broken(error: io::Error) -> Failed {
    failed(error.raw_os_error().unwrap_or(libc::ECONNRESET))
}

/// Says what this end wants, and connects the queue pair if the other end accepts it.
fn ask(shared: &Shared, stream: &TcpStream, asks: Asks<'_>) -> Result<(), Failed> {
    let Asks { security, request } = asks;
    // Nothing is gained by waiting for more to send.
    let _ = stream.set_nodelay(true);
    let (answer, speech) =
        in_time(stream, || exchange::ask(stream, security, request)?.answer(stream))?;
    if answer.kind != message::Kind::Accept {
        return Err((Kind::Rejected, REFUSED, Some(answer)));
    }
    shared.connect(&answer.queue_pair, request).map_err(|errno| failed(errno.0))?;
    let ready = Message { kind: message::Kind::Ready, private_data: Vec::new(), ..request.clone() };
    speech.say(stream, &ready).map_err(broken)?;
    shared.happened(Kind::Established, 0, Some(answer));
    Ok(())
}

/// What the other end says, if it does in time.
pub(super) fn in_time<T>(
    stream: &TcpStream,
    hear: impl FnOnce() -> io::Result<T>,
) -> Result<T, Failed> {
    stream.set_read_timeout(Some(ANSWER)).map_err(broken)?;
    let heard = hear().map_err(|error| match error.kind() {
        // Which of them is the system's choice.
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            (Kind::Unreachable, -libc::ETIMEDOUT, None)
        }
        // It was closed: by a message that was not whole, or by none.
        io::ErrorKind::UnexpectedEof => failed(libc::ECONNRESET),
        _ => broken(error),
    })?;
    // A connection may be idle for as long as it likes.
    stream.set_read_timeout(None).map_err(broken)?;
    Ok(heard)
}

/// Programs listen a moment after they have told their client to connect, as perftest does: over a fabric that takes long enough to find an
/// address and a route for nobody to notice.
fn reach(from: SocketAddr, to: SocketAddr) -> io::Result<TcpStream> {
    let until = Instant::now() + LATE_LISTENER;
    loop {
        match connect_from(from, to) {
            Err(error)
                if error.kind() == io::ErrorKind::ConnectionRefused && Instant::now() < until =>
            {
                thread::sleep(PAUSE);
            }
            other => return other,
        }
    }
}

/// From the address and port of the identifier, by which the listener knows this end.
fn connect_from(from: SocketAddr, to: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, None)?;
    // Another socket keeps the port for it.
    socket.set_reuse_address(true)?;
    socket.bind(&from.into())?;
    socket.connect_timeout(&to.into(), REACH)?;
    Ok(socket.into())
}

/// `RDMA_CM_EVENT_DISCONNECTED` when either end has closed.
pub(super) fn wait_for_end(shared: &Shared, mut stream: &TcpStream) {
    let mut byte = [0];
    // Nothing more is said; an error is an end as well.
    while matches!(stream.read(&mut byte), Ok(1)) {}
    shared.happened(Kind::Disconnected, 0, None);
}
