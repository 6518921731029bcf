//! Identifiers of connections and listeners.

use std::ffi::{c_int, c_void};
use std::net::SocketAddr;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use braid_verbs::abi::{IBV_QPT_UD, ibv_qp, ibv_qp_init_attr};

use super::addresses::{from_c, to_c};
use super::connection::Connection;
use super::devices;
use super::events::{EventKind, Target, acknowledge};
use super::message::CmMessage;
use super::options::Options;
use super::peer_message::PeerMessage;
use super::port_space::PortSpace;
use super::queue_pair;
use super::structs::{rdma_cm_id, rdma_event_channel};
use super::wire_up::WireUp;
use crate::acknowledgements::Acknowledgements;
use crate::errno::{self, Errno};
use crate::gid;
use crate::messages::Port;
use crate::settings::Settings;

/// An identifier, as programs hold it.
#[repr(C)]
pub(super) struct Id {
    pub(super) base: rdma_cm_id,
    pub(super) shared: Arc<IdShared>,
    pub(super) events: Acknowledgements,
    /// The attributes of the queue pairs that connections of a listener get, if `rdma_create_ep`
    /// has made the listener.
    pub(super) attributes: Option<ibv_qp_init_attr>,
}

/// The part of an identifier that the threads of its connection or listener hold.
pub(super) struct IdShared {
    /// The program's name of the identifier. `None`: it is destroyed.
    handle: Mutex<Option<Handle>>,
    connection: Mutex<Connection>,
    /// The port, from binding or resolving until the identifier is destroyed.
    port: Mutex<Option<Arc<Port>>>,
    options: Mutex<Options>,
    /// The queue pair that a thread connects.
    queue_pair: Mutex<Option<QpHandle>>,
    pub(super) wire_up: WireUp,
}

#[derive(Clone, Copy)]
struct QpHandle(*mut ibv_qp);

// SAFETY: the pointer is used only while the queue pair exists, which the lock around it ensures.
unsafe impl Send for QpHandle {}

/// The pointer that the program has, and the destination of its events.
struct Handle {
    id: *mut rdma_cm_id,
    target: Target,
}

// SAFETY: the pointer is used only while the identifier exists, which the lock around it ensures.
unsafe impl Send for Handle {}

impl IdShared {
    /// Reports an event to the program, unless the identifier is destroyed.
    pub(super) fn report(&self, kind: EventKind, status: c_int, peer: Option<PeerMessage>) {
        if let Some(Handle { id, target }) = &*self.handle() {
            target.events.push((*id, ptr::null_mut()), kind, status, peer);
        }
    }

    /// Reports a connection that has come to this listener. Returns whether the program gets the
    /// event.
    pub(super) fn report_request(&self, connection: *mut rdma_cm_id, peer: CmMessage) -> bool {
        let handle = self.handle();
        let Some(Handle { id, target }) = &*handle else { return false };
        target.events.push((connection, *id), EventKind::ConnectRequest, 0, Some(peer.into()));
        true
    }

    /// The destination of the events. `None`: the identifier is destroyed.
    pub(super) fn target(&self) -> Option<Target> {
        self.handle().as_ref().map(|handle| handle.target.clone())
    }

    /// Moves the events that the program has not taken, and all later ones, to another channel.
    /// Returns the previous one.
    fn retarget(&self, target: Target) -> Option<Target> {
        let mut handle = self.handle();
        let handle = handle.as_mut()?;
        handle.target.events.move_to(handle.id, &target);
        Some(std::mem::replace(&mut handle.target, target))
    }

    fn handle(&self) -> MutexGuard<'_, Option<Handle>> {
        self.handle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the queue pair after it was created, or null before it is destroyed.
    pub(super) fn set_queue_pair(&self, qp: *mut ibv_qp) {
        *self.queue_pair() = Some(QpHandle(qp)).filter(|_| !qp.is_null());
    }

    /// Whether the identifier has a queue pair. Otherwise the program connects one by itself.
    pub(super) fn has_queue_pair(&self) -> bool {
        self.queue_pair().is_some()
    }

    /// Moves the queue pair to RTS, towards the one that the other end has named.
    pub(super) fn connect(&self) -> Result<(), Errno> {
        let held = self.queue_pair();
        let QpHandle(qp) = held.ok_or(Errno(libc::ENOTCONN))?;
        let options = *self.options();
        let terms = self.wire_up.agreed().ok_or(Errno::INVALID)?;
        queue_pair::connect(qp, &terms, options)
    }

    /// Moves the queue pair of this number to ERR, unless it is destroyed.
    pub(super) fn fail(&self, number: u32) {
        let held = self.queue_pair();
        let Some(QpHandle(qp)) = *held else { return };
        // SAFETY: the queue pair exists while the lock is held.
        if unsafe { (*qp).qp_num } == number {
            // Every queue pair can go to ERR.
            let _ = queue_pair::fail(qp);
        }
    }

    fn queue_pair(&self) -> MutexGuard<'_, Option<QpHandle>> {
        self.queue_pair.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn options(&self) -> MutexGuard<'_, Options> {
        self.options.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn port(&self) -> Option<Arc<Port>> {
        self.port.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the port of the identifier.
    pub(super) fn set_port(&self, port: Option<Arc<Port>>) {
        *self.port.lock().unwrap_or_else(PoisonError::into_inner) = port;
    }

    pub(super) fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Id {
    /// The identifier that a program names.
    pub(super) unsafe fn of<'a>(id: *mut rdma_cm_id) -> Result<&'a mut Id, Errno> {
        // SAFETY: by the caller's promise `Id::make` has made the identifier.
        unsafe { id.cast::<Id>().as_mut() }.ok_or(Errno::INVALID)
    }

    /// Makes an identifier.
    pub(super) fn make(target: Target, context: *mut c_void, ps: PortSpace) -> *mut rdma_cm_id {
        // SAFETY: the structure consists of numbers and pointers, so zero is valid.
        let mut base: rdma_cm_id = unsafe { std::mem::zeroed() };
        (base.channel, base.context) = (target.channel, context);
        (base.ps, base.qp_type) = (ps as c_int, ps.qp_type());
        let (connection, port, options) = (Mutex::default(), Mutex::default(), Mutex::default());
        let (handle, queue_pair) = (Mutex::default(), Mutex::default());
        let wire_up = WireUp::default();
        let shared = IdShared { handle, connection, port, options, queue_pair, wire_up };
        let shared = Arc::new(shared);
        let events = Acknowledgements::default();
        let id = Box::into_raw(Box::new(Id { base, shared, events, attributes: None }));
        // SAFETY: the identifier has just been made.
        *unsafe { &*id }.shared.handle() = Some(Handle { id: id.cast(), target });
        id.cast()
    }

    /// Whether the identifier is for datagrams, so that nothing is connected.
    pub(super) fn is_for_datagrams(&self) -> bool {
        self.base.qp_type == IBV_QPT_UD
    }

    /// Sets the source address, and the device that has the address.
    pub(super) fn bind_to(&mut self, addr: SocketAddr) -> Result<(), Errno> {
        let open = devices::of(addr.ip())?;
        (self.base.verbs, self.base.pd) = (open.context, open.pd);
        (self.base.port_num, self.base.route.addr.ibaddr.pkey) = (1, u16::MAX);
        self.base.route.addr.ibaddr.sgid = gid::of(addr.ip());
        self.set_source(addr);
        Ok(())
    }

    /// Sets the source address without a device.
    pub(super) fn set_source(&mut self, addr: SocketAddr) {
        self.base.route.addr.src_addr = to_c(addr);
    }

    /// Moves the events to another channel. Acknowledges the latest event of a synchronous
    /// identifier.
    pub(super) fn retarget(&mut self, target: Target) {
        self.base.channel = target.channel;
        if let Some(before) = self.shared.retarget(target) {
            acknowledge(&mut self.base);
            before.release();
        }
    }

    pub(super) fn source(&self) -> Option<SocketAddr> {
        from_c(&self.base.route.addr.src_addr)
    }

    pub(super) fn destination(&self) -> Option<SocketAddr> {
        from_c(&self.base.route.addr.dst_addr)
    }
}

/// Creates an identifier. Without a channel it is synchronous: calls that cause an event wait for
/// it, and the field `event` is the latest one.
///
/// `EOPNOTSUPP`: port spaces other than `RDMA_PS_TCP`, `RDMA_PS_UDP` and `RDMA_PS_IB`. `EINVAL`: an
/// environment variable has an invalid value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_create_id(
    channel: *mut rdma_event_channel,
    id: *mut *mut rdma_cm_id,
    context: *mut c_void,
    ps: c_int,
) -> c_int {
    errno::number(|| {
        // SAFETY: by the caller's promise.
        let id = unsafe { id.as_mut() }.ok_or(Errno::INVALID)?;
        let ps = PortSpace::of(ps)?;
        Settings::load()?;
        let target = Target::given(channel)?;
        *id = Id::make(target, context, ps);
        Ok(0)
    })
}

/// Destroys an identifier, whose queue pair has to be destroyed before. Waits until all its events
/// are acknowledged.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_destroy_id(id: *mut rdma_cm_id) -> c_int {
    errno::number(|| {
        // SAFETY: by the caller's promise.
        let object = unsafe { Id::of(id) }?;
        let Some(Handle { target, .. }) = object.shared.handle().take() else { return Ok(0) };
        let unknown = target.events.forget(id);
        object.shared.connection().close();
        object.shared.set_port(None);
        acknowledge(&mut object.base);
        object.events.wait();
        // SAFETY: as above, and nothing leads to it any more.
        drop(unsafe { Box::from_raw(id.cast::<Id>()) });
        target.release();
        for connection in unknown {
            // SAFETY: the program does not know the connection.
            unsafe { rdma_destroy_id(connection) };
        }
        Ok(0)
    })
}
