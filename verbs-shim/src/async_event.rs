//! Asynchronous events of a device and of objects made from it.

use std::io;
use std::mem::MaybeUninit;

use crate::abi::*;
use crate::{Context, VerbsError};

/// An asynchronous event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum AsyncEvent {
    /// The device has failed or was removed.
    DeviceFatal,
    /// The port carries traffic again.
    PortActive(u8),
    /// The port carries no traffic.
    PortError(u8),
    /// The GID table of the port has changed.
    GidChange(u8),
    /// An event of a queue pair.
    Qp {
        /// The number of the queue pair; see [`Qp::number`](crate::Qp::number).
        number: u32,
        /// The event.
        event: QpEvent,
    },
    /// A completion queue has overflowed. Its queue pairs are unusable.
    CqError,
    /// A shared receive queue has failed. Its queue pairs are unusable.
    SrqError,
    /// Any other event, with its number in `enum ibv_event_type`.
    Other(i32),
}

/// An event of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum QpEvent {
    /// The queue pair has failed, and no completion can report it.
    Fatal,
    /// The peer's request was malformed.
    RequestError,
    /// The peer's request was not permitted.
    AccessError,
    /// The first packet arrived before the queue pair was in RTS.
    Established,
    /// In SQD, no work is outstanding.
    SendDrained,
    /// The alternate path is in use.
    PathMigrated,
    /// The alternate path cannot be used.
    PathMigrationError,
    /// The queue pair takes no more receives from its shared receive queue.
    LastReceive,
}

impl Context {
    /// Takes and acknowledges the next event, if there is one. Several threads may take events.
    ///
    /// # Errors
    /// [`VerbsError::Refused`]; `EIO` means that the device is gone.
    pub fn poll_async_event(&self) -> Result<Option<AsyncEvent>, VerbsError> {
        let mut event = MaybeUninit::<ibv_async_event>::zeroed();
        // SAFETY: the context is open, `event` takes the event.
        if unsafe { (self.symbols().ibv_get_async_event)(self.raw(), event.as_mut_ptr()) } != 0 {
            let source = io::Error::last_os_error();
            return match source.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
                _ => Err(self.refused("ibv_get_async_event", "", source)),
            };
        }
        // SAFETY: zeros, or values that libibverbs wrote over them: integers and raw pointers.
        let mut event = unsafe { event.assume_init() };
        // SAFETY: the event comes from libibverbs and is not acknowledged yet.
        let converted = unsafe { convert(&event) };
        // SAFETY: as above. The objects that the event names may be destroyed afterwards, so they
        // are not used again.
        unsafe { (self.symbols().ibv_ack_async_event)(&raw mut event) };
        Ok(Some(converted))
    }
}

/// Converts an event.
///
/// # Safety
/// The event comes from libibverbs and is not acknowledged, so the object that it names still
/// exists.
unsafe fn convert(event: &ibv_async_event) -> AsyncEvent {
    // SAFETY: events of a port set `port_num`, which fits into 8 bits.
    let port = || unsafe { event.element.port_num } as u8;
    // SAFETY: events of a queue pair set `qp`, which lives until the event is acknowledged.
    let qp = |what| AsyncEvent::Qp { number: unsafe { (*event.element.qp).qp_num }, event: what };
    match event.event_type {
        IBV_EVENT_DEVICE_FATAL => AsyncEvent::DeviceFatal,
        IBV_EVENT_PORT_ACTIVE => AsyncEvent::PortActive(port()),
        IBV_EVENT_PORT_ERR => AsyncEvent::PortError(port()),
        IBV_EVENT_GID_CHANGE => AsyncEvent::GidChange(port()),
        IBV_EVENT_QP_FATAL => qp(QpEvent::Fatal),
        IBV_EVENT_QP_REQ_ERR => qp(QpEvent::RequestError),
        IBV_EVENT_QP_ACCESS_ERR => qp(QpEvent::AccessError),
        IBV_EVENT_COMM_EST => qp(QpEvent::Established),
        IBV_EVENT_SQ_DRAINED => qp(QpEvent::SendDrained),
        IBV_EVENT_PATH_MIG => qp(QpEvent::PathMigrated),
        IBV_EVENT_PATH_MIG_ERR => qp(QpEvent::PathMigrationError),
        IBV_EVENT_QP_LAST_WQE_REACHED => qp(QpEvent::LastReceive),
        IBV_EVENT_CQ_ERR => AsyncEvent::CqError,
        IBV_EVENT_SRQ_ERR => AsyncEvent::SrqError,
        other => AsyncEvent::Other(other as i32),
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;
    use crate::fake;

    #[test]
    fn events_come_in_order_and_are_acknowledged() {
        let fake = fake::Device::new();
        let context = fake.open();
        assert_eq!(context.poll_async_event().expect("works"), None);
        fake.raise(IBV_EVENT_PORT_ERR, AsyncElement { port_num: 1 });
        fake.raise(IBV_EVENT_GID_CHANGE, AsyncElement { port_num: 1 });
        fake.raise(IBV_EVENT_DEVICE_FATAL, AsyncElement { port_num: 0 });
        fake.raise(99, AsyncElement { port_num: 0 });
        let events: Vec<_> =
            std::iter::from_fn(|| context.poll_async_event().expect("works")).collect();
        assert_eq!(
            events,
            [
                AsyncEvent::PortError(1),
                AsyncEvent::GidChange(1),
                AsyncEvent::DeviceFatal,
                AsyncEvent::Other(99),
            ]
        );
        assert_eq!(fake.took("ibv_ack_async_event"), 4);
    }

    #[test]
    fn an_event_of_a_queue_pair_has_its_number() {
        let fake = fake::Device::new();
        let context = fake.open();
        let qp = fake::queue_pair(&context, crate::QpKind::Uc);
        fake.raise(IBV_EVENT_QP_ACCESS_ERR, AsyncElement { qp: qp.raw() });
        let expected = AsyncEvent::Qp { number: qp.number(), event: QpEvent::AccessError };
        assert_eq!(context.poll_async_event().expect("works"), Some(expected));
    }

    #[test]
    fn the_descriptor_does_not_block() {
        let fake = fake::Device::new();
        let context = fake.open();
        // SAFETY: no pointers are passed.
        let flags = unsafe { libc::fcntl(context.async_fd().as_raw_fd(), libc::F_GETFL) };
        assert_eq!(flags & libc::O_NONBLOCK, libc::O_NONBLOCK);
    }
}
