//! Synchronous identifiers, which have no channel of the program: calls wait for the events that
//! they cause.

use std::ffi::c_int;

use super::create_qp::rdma_create_qp;
use super::events::{EventKind, Target, acknowledge};
use super::id::Id;
use super::structs::{rdma_cm_event, rdma_cm_id, rdma_event_channel};
use crate::errno::{self, Errno};

/// Waits for the next event of a synchronous identifier, and acknowledges the latest one.
///
/// # Errors
/// `EINVAL`: the identifier has a channel of the program.
unsafe fn next(id: *mut rdma_cm_id) -> Result<*mut rdma_cm_event, Errno> {
    let events = {
        // SAFETY: by the caller's promise.
        let object = unsafe { Id::of(id) }?;
        let target = object.shared.target().filter(|target| target.is_own);
        let events = target.ok_or(Errno::INVALID)?.events;
        acknowledge(&mut object.base);
        events
    };
    // Nothing is borrowed while this waits, because another thread may disconnect.
    events.take()
}

/// Waits for the event of a call, if the identifier is synchronous.
///
/// # Errors
/// The status of the event. `ECONNREFUSED`: the connection was rejected.
pub(super) unsafe fn complete(id: *mut rdma_cm_id) -> Result<(), Errno> {
    // SAFETY: by the caller's promise.
    if !unsafe { is_synchronous(id) }? {
        return Ok(());
    }
    // SAFETY: as above; the event is valid until it is acknowledged.
    let (kind, status) = unsafe {
        let event = next(id)?;
        (*id).event = event;
        ((*event).event, (*event).status)
    };
    match status {
        0 => Ok(()),
        _ if kind == EventKind::Rejected as c_int => Err(Errno(libc::ECONNREFUSED)),
        status => Err(Errno(status.abs())),
    }
}

unsafe fn is_synchronous(id: *mut rdma_cm_id) -> Result<bool, Errno> {
    // SAFETY: by the caller's promise.
    let target = unsafe { Id::of(id) }?.shared.target();
    Ok(target.is_some_and(|target| target.is_own))
}

/// Waits for the next connection of a synchronous listener. The connection is synchronous too, and
/// its `event` is the request. If `rdma_create_ep` has made the listener with attributes, the
/// connection gets a queue pair. -1 with `errno`: `EINVAL` for a listener with a channel, or as for
/// `rdma_create_qp`. In the latter case the request is the `event` of the listener.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_get_request(
    listener: *mut rdma_cm_id,
    id: *mut *mut rdma_cm_id,
) -> c_int {
    errno::number(|| {
        // SAFETY: by the caller's promise.
        let place = unsafe { id.as_mut() }.ok_or(Errno::INVALID)?;
        // SAFETY: as above; the connection exists until its event is acknowledged.
        unsafe {
            let event = next(listener)?;
            let connection = (*event).id;
            let made = match Id::of(listener)?.attributes {
                Some(mut attributes) => {
                    let pd = (*listener).pd;
                    Errno::check(rdma_create_qp(connection, pd, &raw mut attributes))
                }
                None => Ok(()),
            };
            if let Err(errno) = made {
                (*listener).event = event;
                return Err(errno);
            }
            (*connection).event = event;
            *place = connection;
        }
        Ok(0)
    })
}

/// Moves an identifier to another channel, with the events that the program has not taken. With
/// NULL, the identifier becomes synchronous. Waits until the taken events are acknowledged. -1 with
/// `errno`: `EINVAL` if the identifier is synchronous already.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_migrate_id(
    id: *mut rdma_cm_id,
    channel: *mut rdma_event_channel,
) -> c_int {
    errno::number(|| {
        // SAFETY: by the caller's promise.
        if channel.is_null() && unsafe { is_synchronous(id) }? {
            return Err(Errno::INVALID);
        }
        // SAFETY: as above.
        let object = unsafe { Id::of(id) }?;
        let target = Target::given(channel)?;
        object.retarget(target);
        object.events.wait();
        Ok(0)
    })
}
