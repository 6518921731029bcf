//! The listening side of connections.

use std::ffi::{c_char, c_int, c_void};
use std::os::fd::AsRawFd;

use braid::{ConnectionRequest, Listener};

use crate::answer::Answer;
use crate::arguments::{Out, patience, private_data, put_text};
use crate::boundary::enter;
use crate::failure::Failure;
use crate::handle::{Child, find, hand_out, object, take};
use crate::{braid_engine, braid_qp};

/// A listener at the address of its engine.
pub struct braid_listener {
    listener: Listener,
    engine: Child,
}

object!(braid_listener, 7, "listener");

/// A connection request of a peer.
pub struct braid_request {
    request: ConnectionRequest,
    _engine: Child,
}

object!(braid_request, 8, "connection request");

/// Creates a listener at the engine's address. Up to `backlog` requests wait to be accepted. Other
/// initiators retry until their time-out. An engine has one listener at a time.
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

/// Closes a listener and rejects waiting requests. Accepted connections and open requests remain.
///
/// Threads: any; BRAID_ERR_BUSY while another thread is inside a call with it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_listener_close(listener: *mut braid_listener) -> c_int {
    enter(|| take(listener).map(|_| 0))
}

/// Waits up to `timeout_us` microseconds for a request; BRAID_ERR_TIMED_OUT if none arrived. The
/// caller must accept or reject the request.
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

/// Returns a descriptor that is readable while requests wait, until a braid_listener_accept with a
/// time-out of 0 finds none; for poll, epoll and the like. The listener owns it: do not read or
/// close it.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_listener_fd(listener: *const braid_listener) -> c_int {
    enter(|| Ok(find(listener)?.listener.as_raw_fd()))
}

/// Writes the address of the peer into `text` of `size` bytes; BRAID_ADDR_LEN suffice.
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

/// Writes the peer's name in the list of allowed keys, as braid_qp_peer_name does for a connection.
/// Empty with a pre-shared key or without keys.
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

/// Writes the private data of the peer's request to `data`, up to `*len` bytes. `*len` becomes the
/// full length, at most BRAID_MAX_PRIVATE_DATA.
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

/// Connects `qp`, which must belong to the same engine and be in RESET or INIT, to the peer. Sends
/// `len` bytes at `data` (up to BRAID_MAX_PRIVATE_DATA; NULL for none) to its application. Post
/// receives before, because the peer may send at once.
///
/// Closes the request, and rejects it on an error other than BRAID_ERR_NULL, BRAID_ERR_HANDLE and
/// BRAID_ERR_BUSY, which leave it open.
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
        // From here on, every error rejects the request by dropping it.
        let request = take(request)?;
        request.request.accept(&qp.qp, data?)?;
        Ok(0)
    })
}

/// Rejects and closes a request: the peer's connection attempt fails.
///
/// Threads: any; BRAID_ERR_BUSY while another thread is inside a call with it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_request_reject(request: *mut braid_request) -> c_int {
    enter(|| {
        take(request)?.request.reject();
        Ok(0)
    })
}
