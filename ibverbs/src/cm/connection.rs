//! Connecting, accepting, and the end.

use std::ffi::{c_int, c_void};
use std::io::{self, Read};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};

use super::events::Kind;
use super::id::{Id, Shared};
use super::message::{self, Message};
use super::queue_pair;
use super::structs::{rdma_cm_id, rdma_conn_param};
use crate::errno::{self, Errno};
use crate::qp::Peer;

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

/// The TCP connection of an identifier, or its listener.
#[derive(Default)]
pub(super) enum Connection {
    #[default]
    None,
    /// On its way to a listener, in this attempt: nothing can be closed yet.
    Reaching(Arc<()>),
    /// What the other end has said, until it is accepted.
    Asked(TcpStream, Peer),
    Open(TcpStream),
    Listening(TcpListener),
    /// By the program: an attempt that was under way ends.
    Closed,
}

impl Connection {
    /// Who waits at it sees the end.
    pub(super) fn close(&mut self) {
        match self {
            Connection::None | Connection::Reaching(_) | Connection::Closed => {}
            Connection::Asked(stream, _) | Connection::Open(stream) => {
                // It may be closed already.
                let _ = stream.shutdown(Shutdown::Both);
            }
            Connection::Listening(listener) => {
                // SAFETY: no pointers are passed. It wakes who accepts.
                unsafe { libc::shutdown(listener.as_raw_fd(), libc::SHUT_RDWR) };
            }
        }
        *self = Connection::Closed;
    }

    /// A new attempt to connect, unless it is a listener's or came to one.
    fn begin(&mut self) -> Result<Arc<()>, Errno> {
        if matches!(self, Connection::Asked(..) | Connection::Listening(_)) {
            return Err(Errno::INVALID);
        }
        let attempt = Arc::new(());
        *self = Connection::Reaching(attempt.clone());
        Ok(attempt)
    }

    /// The attempt has reached the listener, and may go on: whether it was not closed meanwhile, nor another one begun.
    fn open(&mut self, attempt: &Arc<()>, stream: TcpStream) -> bool {
        let goes_on = matches!(self, Connection::Reaching(other) if Arc::ptr_eq(other, attempt));
        if goes_on {
            *self = Connection::Open(stream);
        }
        goes_on
    }
}

fn run(name: &str, body: impl FnOnce() + Send + 'static) -> Result<(), Errno> {
    let thread = thread::Builder::new().name(name.to_owned()).spawn(body);
    thread.map(drop).map_err(|_| Errno::NO_MEMORY)
}

/// Connects to the listener at the resolved address: `RDMA_CM_EVENT_ESTABLISHED`, `.._REJECTED`, `.._UNREACHABLE` or
/// `.._CONNECT_ERROR`. `EINVAL`: the address is not resolved, or there is no queue pair.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_connect(id: *mut rdma_cm_id, param: *mut rdma_conn_param) -> c_int {
    errno::number(|| {
        // SAFETY: by the caller's promise.
        let (object, param) = unsafe { (Id::of(id)?, param.as_ref()) };
        let to = object.destination().filter(|_| !object.base.qp.is_null());
        let to = to.ok_or(Errno::INVALID)?;
        let from = object.source().ok_or(Errno::INVALID)?.ip();
        let request = queue_pair::message(object, message::Kind::Request, param)?;
        let shared = object.shared.clone();
        let attempt = shared.connection().begin()?;
        run("braid-cm", move || match connect(&shared, &attempt, (from, to), &request) {
            Ok(stream) => wait_for_end(&shared, stream),
            Err((kind, status, said)) => shared.happened(kind, status, said),
        })?;
        Ok(0)
    })
}

type Failed = (Kind, c_int, Option<Message>);

fn connect(
    shared: &Shared,
    attempt: &Arc<()>,
    (from, to): (IpAddr, SocketAddr),
    request: &Message,
) -> Result<TcpStream, Failed> {
    let unreachable = |error: io::Error| match error.kind() {
        io::ErrorKind::ConnectionRefused => (Kind::Rejected, NOBODY_LISTENS, None),
        _ => (Kind::Unreachable, -error.raw_os_error().unwrap_or(libc::ETIMEDOUT), None),
    };
    let mut stream = reach(from, to).map_err(unreachable)?;
    let copy = stream.try_clone().map_err(broken)?;
    if !shared.connection().open(attempt, copy) {
        return Err(failed(libc::ECONNABORTED));
    }
    let asked = ask(shared, &mut stream, request);
    if asked.is_err() {
        // The other end shall not go on with it. It may be closed already.
        let _ = stream.shutdown(Shutdown::Both);
    }
    asked.map(|()| stream)
}

fn failed(errno: c_int) -> Failed {
    (Kind::ConnectError, -errno, None)
}

fn broken(error: io::Error) -> Failed {
    failed(error.raw_os_error().unwrap_or(libc::ECONNRESET))
}

/// Says what this end wants, and connects the queue pair if the other end accepts it.
fn ask(shared: &Shared, stream: &mut TcpStream, request: &Message) -> Result<(), Failed> {
    // Nothing is gained by waiting for more to send.
    let _ = stream.set_nodelay(true);
    request.write(stream).map_err(broken)?;
    let answer = hear_answer(stream)?;
    if answer.kind != message::Kind::Accept {
        return Err((Kind::Rejected, REFUSED, Some(answer)));
    }
    shared.connect(&answer.queue_pair, request).map_err(|errno| failed(errno.0))?;
    let ready = Message { kind: message::Kind::Ready, private_data: Vec::new(), ..request.clone() };
    ready.write(stream).map_err(broken)?;
    shared.happened(Kind::Established, 0, Some(answer));
    Ok(())
}

/// What the other end answers, if it does in time.
fn hear_answer(stream: &mut TcpStream) -> Result<Message, Failed> {
    stream.set_read_timeout(Some(ANSWER)).map_err(broken)?;
    let answer = Message::read(stream).map_err(|error| match error.kind() {
        // Which of them is the system's choice.
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            (Kind::Unreachable, -libc::ETIMEDOUT, None)
        }
        _ => broken(error),
    })?;
    // A connection may be idle for as long as it likes.
    stream.set_read_timeout(None).map_err(broken)?;
    Ok(answer)
}

/// Programs listen a moment after they have told their client to connect, as perftest does: over a fabric that takes long enough to find an
/// address and a route for nobody to notice.
fn reach(from: IpAddr, to: SocketAddr) -> io::Result<TcpStream> {
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

/// From the address of the device, by which the listener knows this end.
fn connect_from(from: IpAddr, to: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, None)?;
    socket.bind(&SocketAddr::new(from, 0).into())?;
    socket.connect_timeout(&to.into(), REACH)?;
    Ok(socket.into())
}

/// `RDMA_CM_EVENT_DISCONNECTED` when either end has closed.
fn wait_for_end(shared: &Shared, mut stream: TcpStream) {
    let mut byte = [0];
    // Nothing more is said; an error is an end as well.
    while matches!(stream.read(&mut byte), Ok(1)) {}
    shared.happened(Kind::Disconnected, 0, None);
}

/// Accepts what has come with `RDMA_CM_EVENT_CONNECT_REQUEST`: `RDMA_CM_EVENT_ESTABLISHED` when the other end is ready.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_accept(id: *mut rdma_cm_id, param: *mut rdma_conn_param) -> c_int {
    errno::number(|| {
        // SAFETY: by the caller's promise.
        let (object, param) = unsafe { (Id::of(id)?, param.as_ref()) };
        if object.base.qp.is_null() {
            return Err(Errno::INVALID);
        }
        let accept = queue_pair::message(object, message::Kind::Accept, param)?;
        let (mut stream, peer) = take_asked(&object.shared)?;
        object.shared.connect(&peer, &accept)?;
        accept.write(&mut stream).map_err(|_| Errno(libc::ECONNRESET))?;
        let shared = object.shared.clone();
        run("braid-cm", move || finish_accept(&shared, stream))?;
        Ok(0)
    })
}

fn finish_accept(shared: &Arc<Shared>, mut stream: TcpStream) {
    match Message::read(&mut stream) {
        Ok(ready) if ready.kind == message::Kind::Ready => {
            shared.happened(Kind::Established, 0, Some(ready));
            wait_for_end(shared, stream);
        }
        _ => shared.happened(Kind::ConnectError, -libc::ECONNRESET, None),
    }
}

/// Who asks, if nobody has answered yet.
fn take_asked(shared: &Shared) -> Result<(TcpStream, Peer), Errno> {
    let mut connection = shared.connection();
    let Connection::Asked(stream, peer) = &*connection else { return Err(Errno::INVALID) };
    let (stream, peer) = (stream.try_clone().map_err(|_| Errno(libc::EMFILE))?, *peer);
    let copy = stream.try_clone().map_err(|_| Errno(libc::EMFILE))?;
    *connection = Connection::Open(copy);
    Ok((stream, peer))
}

/// Turns it down: `RDMA_CM_EVENT_REJECTED` at the other end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_reject(
    id: *mut rdma_cm_id,
    private_data: *const c_void,
    len: u8,
) -> c_int {
    errno::number(|| {
        // SAFETY: by the caller's promise.
        let object = unsafe { Id::of(id) }?;
        // SAFETY: it consists of numbers and pointers.
        let mut param: rdma_conn_param = unsafe { std::mem::zeroed() };
        (param.private_data, param.private_data_len) = (private_data, len);
        let reject = queue_pair::message(object, message::Kind::Reject, Some(&param))?;
        let (mut stream, _) = take_asked(&object.shared)?;
        reject.write(&mut stream).map_err(|_| Errno(libc::ECONNRESET))?;
        object.shared.connection().close();
        Ok(0)
    })
}

/// Flushes what is posted, and tells the other end: `RDMA_CM_EVENT_DISCONNECTED` at both.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_disconnect(id: *mut rdma_cm_id) -> c_int {
    errno::number(|| {
        // SAFETY: by the caller's promise.
        let object = unsafe { Id::of(id) }?;
        if !object.base.qp.is_null() {
            queue_pair::fail(object.base.qp)?;
        }
        object.shared.connection().close();
        Ok(0)
    })
}
