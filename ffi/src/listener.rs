//! The accepting side of connections.

use std::ffi::{c_char, c_int, c_void};
use std::os::fd::AsRawFd;

use braid::{ConnectionRequest, Listener};

use crate::answer::Answer;
use crate::arguments::{Out, patience, private_data, put_text};
use crate::boundary::enter;
use crate::failure::Failure;
use crate::handle::{Child, find, hand_out, object, take};
use crate::{braid_engine, braid_qp};

/// Takes connections at the address of its engine.
pub struct braid_listener {
    listener: Listener,
    engine: Child,
}

object!(braid_listener, 7, "listener");

/// Somebody who wants to connect.
pub struct braid_request {
    request: ConnectionRequest,
    _engine: Child,
}

object!(braid_request, 8, "connection request");

/// Takes connections at the engine's address from now on. Up to `backlog` of them wait to be accepted;
/// those beyond it are told to try again, which they do until their time-out. An engine has one listener
/// at a time.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_listener_create(
    engine: *mut braid_engine,
    backlog: usize,
    listener: *mut *mut braid_listener,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(listener, "listener") }?;
        let engine = find(engine)?;
        let (listener, engine) = (engine.engine.listen(backlog)?, engine.children.add());
        out.set(hand_out(braid_listener { listener, engine })?);
        Ok(0)
    })
}

/// Ends the listening, and turns down those that wait; accepted connections stay, and so do requests.
///
/// Threads: any; BRAID_ERR_BUSY while another thread is inside a call with it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_listener_close(listener: *mut braid_listener) -> c_int {
    enter(|| take(listener).map(|_| 0))
}

/// Waits up to `timeout_us` microseconds for somebody who wants to connect; BRAID_ERR_TIMED_OUT: nobody
/// came. The request has to be accepted or rejected.
///
/// Threads: any; each request goes to one of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_listener_accept(
    listener: *mut braid_listener,
    timeout_us: u64,
    request: *mut *mut braid_request,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(request, "request") }?;
        let listener = find(listener)?;
        let request = listener.listener.accept(patience(timeout_us)).ok_or(Failure::NobodyCame)?;
        out.set(hand_out(braid_request { request, _engine: listener.engine.clone() })?);
        Ok(0)
    })
}

/// The descriptor that is readable while requests wait, until a braid_listener_accept without time to wait finds none; for poll,
/// epoll and the like. It stays the listener's: do not read or close it.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_listener_fd(listener: *const braid_listener) -> c_int {
    enter(|| Ok(find(listener)?.listener.as_raw_fd()))
}

/// Writes where the request comes from into `text` of `size` bytes; BRAID_ADDR_LEN suffice.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_request_peer(
    request: *const braid_request,
    text: *mut c_char,
    size: usize,
) -> c_int {
    enter(|| {
        let peer = find(request)?.request.peer_addr().to_string();
        // SAFETY: the caller's promise.
        unsafe { put_text(&peer, text, size, "text") }.map(|()| 0)
    })
}

/// Writes what the list of allowed keys calls who asks, as braid_qp_peer_name does once it is accepted. Empty: keys are not static.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_request_peer_name(
    request: *const braid_request,
    text: *mut c_char,
    size: usize,
) -> c_int {
    enter(|| {
        let request = find(request)?;
        let name = request.request.peer_name().unwrap_or_default();
        // SAFETY: the caller's promise.
        unsafe { put_text(name, text, size, "text") }.map(|()| 0)
    })
}

/// Writes what the peer's application has given with its request to `data`, up to `*len` bytes; `*len`
/// becomes its whole length, at most BRAID_MAX_PRIVATE_DATA.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_request_private_data(
    request: *const braid_request,
    data: *mut c_void,
    len: *mut usize,
) -> c_int {
    enter(|| {
        if data.is_null() {
            return Err(Failure::Null("data"));
        }
        // SAFETY: the caller's promise.
        let answer = unsafe { Answer::new(data, len, "len") }?;
        answer.set(find(request)?.request.private_data());
        Ok(0)
    })
}

/// Connects `qp`, of the same engine and in RESET or INIT, with the peer, and hands its application
/// `data`, `len` bytes (up to BRAID_MAX_PRIVATE_DATA; NULL for none). Post receives before: the peer may
/// send at once.
///
/// The request is closed by this, and rejected on an error; not so on BRAID_ERR_NULL, BRAID_ERR_HANDLE and
/// BRAID_ERR_BUSY, which leave it as it is.
///
/// Threads: any; BRAID_ERR_BUSY while another thread is inside a call with it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_request_accept(
    request: *mut braid_request,
    qp: *mut braid_qp,
    data: *const c_void,
    len: usize,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let data = match unsafe { private_data(data, len) } {
            Err(null @ Failure::Null(_)) => return Err(null),
            data => data,
        };
        let qp = find(qp)?;
        // From here on every error rejects the request, by dropping it.
        let request = take(request)?;
        request.request.accept(&qp.qp, data?)?;
        Ok(0)
    })
}

/// Turns a request down, and closes it: the peer's attempt to connect fails.
///
/// Threads: any; BRAID_ERR_BUSY while another thread is inside a call with it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_request_reject(request: *mut braid_request) -> c_int {
    enter(|| {
        take(request)?.request.reject();
        Ok(0)
    })
}
