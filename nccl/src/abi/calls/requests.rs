//! The calls for memory and messages.

use std::ffi::{c_int, c_void};

use smallvec::SmallVec;

use super::super::boundary::{array, boundary, element, end, place, shared};
use crate::comm::{Buffer, Comm, MAX_RECVS, Message, Ticket};
use crate::error::Error;
use crate::memory::{HOST_MEMORY, Registration};
use crate::profiler::{Description, Event};
use crate::result_code::Code;

/// The kinds of an event's description.
const SENDS: u8 = 1;
const RECEIVES: u8 = 2;

/// `regMr` from v8 on.
///
/// # Safety
/// `comm` came from `connect` or `accept`; `data` has `size` bytes that stay mapped until
/// `deregMr`; `mhandle` is a place for a pointer; each may be NULL.
pub(in crate::abi) unsafe extern "C" fn reg_mr(
    comm: *mut c_void,
    data: *mut c_void,
    size: usize,
    kind: c_int,
    mhandle: *mut *mut c_void,
) -> Code {
    boundary("regMr", || {
        let mhandle = place(mhandle, "mhandle")?;
        // SAFETY: the caller vouches for the pointers.
        let comm: &Comm = unsafe { shared(comm.cast(), "comm") }?;
        let data = place(data.cast::<u8>(), "data")?;
        if kind != HOST_MEMORY {
            return Err(Error::MemoryType { kind });
        }
        // SAFETY: NCCL's buffers are mapped until it deregisters them. They are shared with GPUs,
        // so no reference to them exists.
        let registration = unsafe { comm.register(data, size) }?;
        // SAFETY: as above.
        unsafe { mhandle.write(Box::into_raw(Box::new(registration)).cast()) };
        Ok(())
    })
}

/// # Safety
/// `mhandle` is NULL or came from `regMr`, and is not used any more.
pub(in crate::abi) unsafe extern "C" fn dereg_mr(comm: *mut c_void, mhandle: *mut c_void) -> Code {
    boundary("deregMr", || {
        place(comm, "comm")?;
        let registration = place(mhandle.cast::<Registration>(), "mhandle")?;
        // SAFETY: `regMr` made the pointer so; the caller gives it back once.
        end(unsafe { Box::from_raw(registration) }, |registration| registration.is_here());
        Ok(())
    })
}

/// The message of an `isend`.
pub(in crate::abi) struct Sent {
    pub(in crate::abi) comm: *mut c_void,
    pub(in crate::abi) data: *mut c_void,
    pub(in crate::abi) size: usize,
    pub(in crate::abi) tag: c_int,
    pub(in crate::abi) mhandle: *mut c_void,
    pub(in crate::abi) phandle: *mut c_void,
    pub(in crate::abi) request: *mut *mut c_void,
}

/// # Safety
/// The pointers are NULL or what `isend` of NCCL's header says; the data stays until it is sent.
pub(in crate::abi) unsafe fn isend(sent: Sent) -> Result<(), Error> {
    let request = place(sent.request, "request")?;
    // SAFETY: the caller vouches for all pointers.
    unsafe { request.write(std::ptr::null_mut()) };
    // SAFETY: as above.
    let comm: &Comm = unsafe { shared(sent.comm.cast(), "sendComm") }?;
    let sender = comm.sender()?;
    // SAFETY: as above.
    let lkey = unsafe { key(sent.size, sent.data, sent.mhandle, |r| r.region.lkey()) }?;
    check_len(sent.size)?;
    let (addr, len, tag) = (sent.data as u64, sent.size as u64, sent.tag);
    let Some(index) = sender.isend(Message { addr, len, lkey, tag })? else { return Ok(()) };
    let what = || Description {
        kind: SENDS,
        device: sender.context().device as c_int,
        queue_pair: sender.queue_pair().number().get(),
        tag,
        length: sent.size,
    };
    // Only now, because a message that was not accepted is posted again.
    if let Some(event) = Event::start(sent.phandle, what) {
        sender.observe(index, event);
    }
    // SAFETY: as above.
    unsafe { request.write(comm.ticket(index).cast_mut().cast()) };
    Ok(())
}

/// The buffers of an `irecv`.
pub(in crate::abi) struct Received<S> {
    pub(in crate::abi) comm: *mut c_void,
    pub(in crate::abi) n: c_int,
    pub(in crate::abi) data: *mut *mut c_void,
    pub(in crate::abi) sizes: *mut S,
    pub(in crate::abi) tags: *mut c_int,
    pub(in crate::abi) mhandles: *mut *mut c_void,
    pub(in crate::abi) phandles: *mut *mut c_void,
    pub(in crate::abi) request: *mut *mut c_void,
}

/// `*request` may be 1 at first: NCCL does not need the completion then, but takes it.
///
/// # Safety
/// The pointers are NULL or what `irecv` of NCCL's header says; the buffers stay until they are
/// filled.
pub(in crate::abi) unsafe fn irecv<S: Copy>(
    received: Received<S>,
    size: impl Fn(S) -> Result<usize, Error>,
) -> Result<(), Error> {
    let request = place(received.request, "request")?;
    // SAFETY: the caller vouches for all pointers.
    unsafe { request.write(std::ptr::null_mut()) };
    // SAFETY: as above.
    let comm: &Comm = unsafe { shared(received.comm.cast(), "recvComm") }?;
    let receiver = comm.receiver()?;
    let n = usize::try_from(received.n).ok().filter(|n| (1..=MAX_RECVS).contains(n));
    let n = n.ok_or(Error::Argument { name: "n", value: received.n.into(), accepted: "1 to 8" })?;
    // SAFETY: as above; each array has `n` elements.
    let (data, sizes, tags, mhandles) = unsafe {
        (
            array(received.data, n, "data")?,
            array(received.sizes, n, "sizes")?,
            array(received.tags, n, "tags")?,
            array(received.mhandles, n, "mhandles")?,
        )
    };
    let mut buffers = SmallVec::<[Buffer; MAX_RECVS]>::new();
    for i in 0..n {
        let len = size(sizes[i])?;
        // SAFETY: as above.
        let rkey = unsafe { key(len, data[i], mhandles[i], |r| r.region.rkey()) }?;
        buffers.push(Buffer { addr: data[i] as u64, len: len as u64, rkey, tag: tags[i] });
    }
    let Some(index) = receiver.irecv(&buffers)? else { return Ok(()) };
    for (i, buffer) in buffers.iter().enumerate() {
        let what = || Description {
            kind: RECEIVES,
            device: receiver.context().device as c_int,
            queue_pair: receiver.queue_pair().number().get(),
            tag: buffer.tag,
            length: buffer.len as usize,
        };
        // SAFETY: as above, where it is not NULL.
        let parent = unsafe { element(received.phandles, i) };
        if let Some(event) = Event::start(parent, what) {
            receiver.observe(index, i, event);
        }
    }
    // SAFETY: as above.
    unsafe { request.write(comm.ticket(index).cast_mut().cast()) };
    Ok(())
}

/// Returns the key of a message's memory. A message without bytes needs none.
///
/// # Safety
/// `mhandle` is NULL or came from `regMr`.
unsafe fn key(
    size: usize,
    data: *mut c_void,
    mhandle: *mut c_void,
    key: impl Fn(&Registration) -> u32,
) -> Result<u32, Error> {
    if size == 0 {
        return Ok(0);
    }
    place(data, "data")?;
    // SAFETY: the caller vouches for the pointer.
    Ok(key(unsafe { shared(mhandle.cast(), "mhandle") }?))
}

/// The message needs more WRITEs than the immediate data can count.
fn check_len(size: usize) -> Result<(), Error> {
    const MAX: usize = 255 << 30;
    let wrong = Error::Argument { name: "size", value: size as i64, accepted: "up to 255 GiB" };
    if size > MAX { Err(wrong) } else { Ok(()) }
}

/// Does nothing, because received data is already in host memory.
///
/// # Safety
/// `request` is NULL or a place for a pointer.
pub(in crate::abi) unsafe extern "C" fn iflush(
    comm: *mut c_void,
    _n: c_int,
    _data: *mut *mut c_void,
    _sizes: *mut c_int,
    _mhandles: *mut *mut c_void,
    request: *mut *mut c_void,
) -> Code {
    boundary("iflush", || {
        let request = place(request, "request")?;
        // SAFETY: the caller vouches for the place. NULL: done at once.
        unsafe { request.write(std::ptr::null_mut()) };
        place(comm, "recvComm").map(|_| ())
    })
}

/// # Safety
/// `request` came from `isend` or `irecv` and is not done. `done` is a place for a number, `sizes`
/// for as many as the request has messages. Each may be NULL.
pub(in crate::abi) unsafe extern "C" fn test(
    request: *mut c_void,
    done: *mut c_int,
    sizes: *mut c_int,
) -> Code {
    boundary("test", || {
        let done = place(done, "done")?;
        // SAFETY: the caller vouches for all pointers, and that the communicator is open.
        unsafe { done.write(0) };
        // SAFETY: as above.
        let ticket: &Ticket = unsafe { shared(request.cast(), "request") }?;
        let Some(arrived) = ticket.test()? else { return Ok(()) };
        // SAFETY: as above.
        unsafe { done.write(1) };
        for (i, size) in arrived.iter().enumerate().filter(|_| !sizes.is_null()) {
            let size = c_int::try_from(*size).unwrap_or(c_int::MAX);
            // SAFETY: as above.
            unsafe { sizes.add(i).write(size) };
        }
        Ok(())
    })
}
