//! Identifiers of connections and listeners: addresses and routes.

use std::ffi::{c_int, c_void};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use braid_verbs::abi::{IBV_QPT_RC, ibv_qp};

use super::connection::Connection;
use super::devices;
use super::events::{Channel, Events, Kind};
use super::message::Message;
use super::queue_pair;
use super::structs::{rdma_cm_id, rdma_event_channel};
use crate::acknowledgements::Acknowledgements;
use crate::errno::{self, Errno};
use crate::gid;
use crate::qp::Peer;
use crate::settings::Settings;

/// `RDMA_PS_TCP` and `RDMA_PS_IB`.
const RDMA_PS_TCP: c_int = 0x0106;
const RDMA_PS_IB: c_int = 0x013F;

const KEYED: &str = "braid: there is no rdma_cm with BRAID_KEY_FILE: what both ends say over TCP before their queue pairs are connected, \
    private data with it, would be neither authenticated nor encrypted; let the program exchange queue pairs by itself, or unset BRAID_KEY_FILE";

/// An identifier as programs hold it.
#[repr(C)]
pub(super) struct Id {
    pub(super) base: rdma_cm_id,
    pub(super) shared: Arc<Shared>,
    pub(super) events: Acknowledgements,
}

/// What the threads of a connection or listener hold on to.
pub(super) struct Shared {
    pub(super) channel: Arc<Events>,
    /// What programs know it by; `None`: it is destroyed.
    handle: Mutex<Option<Handle>>,
    pub(super) connection: Mutex<Connection>,
    /// What a thread connects, while it exists.
    queue_pair: Mutex<Option<QueuePair>>,
}

#[derive(Clone, Copy)]
struct QueuePair(*mut ibv_qp);

// SAFETY: it is only used while the queue pair exists, which the lock around it ensures.
unsafe impl Send for QueuePair {}

/// The pointer that programs have.
#[derive(Clone, Copy)]
struct Handle(*mut rdma_cm_id);

// SAFETY: it is only used while the identifier exists, which the lock around it ensures.
unsafe impl Send for Handle {}

impl Shared {
    /// Tells the program, unless the identifier is destroyed.
    pub(super) fn happened(&self, kind: Kind, status: c_int, said: Option<Message>) {
        if let Some(Handle(id)) = *self.handle() {
            self.channel.push((id, ptr::null_mut()), kind, status, said);
        }
    }

    /// As [`Shared::happened`], of a connection that has come to this listener. Returns whether the program is told.
    pub(super) fn arrived(&self, connection: *mut rdma_cm_id, said: Message) -> bool {
        let handle = self.handle();
        let Some(Handle(listener)) = *handle else { return false };
        self.channel.push((connection, listener), Kind::ConnectRequest, 0, Some(said));
        true
    }

    fn handle(&self) -> MutexGuard<'_, Option<Handle>> {
        self.handle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The queue pair was created, or is about to be destroyed (null).
    pub(super) fn set_queue_pair(&self, qp: *mut ibv_qp) {
        *self.queue_pair() = Some(QueuePair(qp)).filter(|_| !qp.is_null());
    }

    /// Moves the queue pair to RTS, towards the one that the other end has named.
    pub(super) fn connect(&self, peer: &Peer, param: &Message) -> Result<(), Errno> {
        let held = self.queue_pair();
        let QueuePair(qp) = held.ok_or(Errno(libc::ENOTCONN))?;
        queue_pair::connect(qp, peer, param)
    }

    fn queue_pair(&self) -> MutexGuard<'_, Option<QueuePair>> {
        self.queue_pair.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Id {
    /// The identifier that a program names.
    pub(super) unsafe fn of<'a>(id: *mut rdma_cm_id) -> Result<&'a mut Id, Errno> {
        // SAFETY: by the caller's promise it was made by `Id::make`.
        unsafe { id.cast::<Id>().as_mut() }.ok_or(Errno::INVALID)
    }

    /// A new one.
    pub(super) fn make(
        channel: *mut rdma_event_channel,
        waiting: Arc<Events>,
        context: *mut c_void,
        ps: c_int,
    ) -> *mut rdma_cm_id {
        // SAFETY: it consists of numbers and pointers.
        let mut base: rdma_cm_id = unsafe { std::mem::zeroed() };
        (base.channel, base.context, base.ps, base.qp_type) = (channel, context, ps, IBV_QPT_RC);
        let connection = Mutex::default();
        let (handle, queue_pair) = (Mutex::default(), Mutex::default());
        let shared = Arc::new(Shared { channel: waiting, handle, connection, queue_pair });
        let events = Acknowledgements::default();
        let id = Box::into_raw(Box::new(Id { base, shared, events }));
        // SAFETY: it has just been made.
        *unsafe { &*id }.shared.handle() = Some(Handle(id.cast()));
        id.cast()
    }

    /// It belongs to the device of this address from now on.
    pub(super) fn bind_to(&mut self, addr: SocketAddr) -> Result<(), Errno> {
        let open = devices::of(addr.ip())?;
        (self.base.verbs, self.base.pd) = (open.context, open.pd);
        (self.base.port_num, self.base.route.addr.ibaddr.pkey) = (1, u16::MAX);
        self.base.route.addr.src_addr = to_c(addr);
        self.base.route.addr.ibaddr.sgid = gid::of(addr.ip());
        Ok(())
    }

    pub(super) fn source(&self) -> Option<SocketAddr> {
        from_c(&self.base.route.addr.src_addr)
    }

    pub(super) fn destination(&self) -> Option<SocketAddr> {
        from_c(&self.base.route.addr.dst_addr)
    }
}

/// An address as C writes it.
pub(super) fn to_c(addr: SocketAddr) -> libc::sockaddr_storage {
    // SAFETY: it consists of numbers.
    let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let place = &raw mut storage;
    match addr {
        SocketAddr::V4(v4) => {
            // SAFETY: as above, and the storage has room for every kind of address.
            let sin = unsafe { &mut *place.cast::<libc::sockaddr_in>() };
            sin.sin_family = libc::AF_INET as libc::sa_family_t;
            sin.sin_port = v4.port().to_be();
            sin.sin_addr.s_addr = u32::from_ne_bytes(v4.ip().octets());
        }
        SocketAddr::V6(v6) => {
            // SAFETY: as above.
            let sin6 = unsafe { &mut *place.cast::<libc::sockaddr_in6>() };
            sin6.sin6_family = libc::AF_INET6 as libc::sa_family_t;
            sin6.sin6_port = v6.port().to_be();
            sin6.sin6_addr.s6_addr = v6.ip().octets();
            sin6.sin6_scope_id = v6.scope_id();
        }
    }
    storage
}

/// `None`: it is no IP address.
pub(super) fn from_c(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
    let place = ptr::from_ref(storage);
    match c_int::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says that it is one.
            let sin = unsafe { &*place.cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(sin.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddr::new(ip.into(), u16::from_be(sin.sin_port)))
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let sin6 = unsafe { &*place.cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(sin6.sin6_addr.s6_addr);
            let port = u16::from_be(sin6.sin6_port);
            Some(SocketAddrV6::new(ip, port, 0, sin6.sin6_scope_id).into())
        }
        _ => None,
    }
}

/// The address that a program points to.
unsafe fn given(addr: *const libc::sockaddr) -> Result<SocketAddr, Errno> {
    // SAFETY: by the caller's promise; as many bytes are read as the family's addresses have.
    unsafe {
        let family = addr.as_ref().ok_or(Errno::INVALID)?.sa_family;
        let size = match c_int::from(family) {
            libc::AF_INET => size_of::<libc::sockaddr_in>(),
            libc::AF_INET6 => size_of::<libc::sockaddr_in6>(),
            _ => return Err(Errno(libc::EAFNOSUPPORT)),
        };
        let mut storage: libc::sockaddr_storage = std::mem::zeroed();
        ptr::copy_nonoverlapping(addr.cast::<u8>(), (&raw mut storage).cast(), size);
        from_c(&storage).ok_or(Errno(libc::EAFNOSUPPORT))
    }
}

/// `EOPNOTSUPP`: without a channel (the synchronous form), port spaces other than `RDMA_PS_TCP` and `RDMA_PS_IB`, and where connections
/// are keyed, as the error output says. `EINVAL`: a setting in the environment cannot be.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_create_id(
    channel: *mut rdma_event_channel,
    id: *mut *mut rdma_cm_id,
    context: *mut c_void,
    ps: c_int,
) -> c_int {
    errno::number(|| {
        // SAFETY: by the caller's promise.
        let (events, id) = unsafe { (channel.cast::<Channel>().as_ref(), id.as_mut()) };
        let (events, id) = (events.ok_or(Errno::UNSUPPORTED)?, id.ok_or(Errno::INVALID)?);
        if !matches!(ps, RDMA_PS_TCP | RDMA_PS_IB) {
            return Err(Errno::UNSUPPORTED);
        }
        if Settings::obey()?.is_keyed() {
            eprintln!("{KEYED}");
            return Err(Errno::UNSUPPORTED);
        }
        *id = Id::make(channel, events.shared.clone(), context, ps);
        Ok(0)
    })
}

/// Waits until all events about it are acknowledged. Its queue pair has to be destroyed before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_destroy_id(id: *mut rdma_cm_id) -> c_int {
    errno::number(|| {
        // SAFETY: by the caller's promise.
        let object = unsafe { Id::of(id) }?;
        *object.shared.handle() = None;
        let unknown = object.shared.channel.forget(id);
        object.shared.connection().close();
        object.events.wait();
        // SAFETY: as above, and nothing leads to it any more.
        drop(unsafe { Box::from_raw(id.cast::<Id>()) });
        for connection in unknown {
            // SAFETY: the program was never told of it.
            unsafe { rdma_destroy_id(connection) };
        }
        Ok(0)
    })
}

/// Finds the device of `src`, or of the address that the identifier is bound to, or else the one that leads to `dst`:
/// `RDMA_CM_EVENT_ADDR_RESOLVED`, or `.._ADDR_ERROR`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_resolve_addr(
    id: *mut rdma_cm_id,
    src: *mut libc::sockaddr,
    dst: *mut libc::sockaddr,
    _timeout_ms: c_int,
) -> c_int {
    errno::number(|| {
        // SAFETY: by the caller's promise.
        let (object, dst) = unsafe { (Id::of(id)?, given(dst)?) };
        // SAFETY: as above.
        let named = if src.is_null() { object.source() } else { Some(unsafe { given(src) }?) };
        let named = named.filter(|source| !source.ip().is_unspecified());
        let found = match named {
            Some(source) => Ok(source),
            None => devices::local_address(dst).map(|source| SocketAddr::new(source, 0)),
        };
        let bound = found.and_then(|source| object.bind_to(source));
        object.base.route.addr.dst_addr = to_c(dst);
        object.base.route.addr.ibaddr.dgid = gid::of(dst.ip());
        match bound {
            Ok(()) => object.shared.happened(Kind::AddrResolved, 0, None),
            Err(errno) => object.shared.happened(Kind::AddrError, -errno.0, None),
        }
        Ok(0)
    })
}

/// There is nothing to find: the IP network has the routes. `RDMA_CM_EVENT_ROUTE_RESOLVED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_resolve_route(id: *mut rdma_cm_id, _timeout_ms: c_int) -> c_int {
    errno::number(|| {
        // SAFETY: by the caller's promise.
        let object = unsafe { Id::of(id) }?;
        if object.base.verbs.is_null() {
            return Err(Errno::INVALID);
        }
        object.shared.happened(Kind::RouteResolved, 0, None);
        Ok(0)
    })
}

/// The local address of a listener. An unspecified one is that of all devices.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_bind_addr(id: *mut rdma_cm_id, addr: *mut libc::sockaddr) -> c_int {
    errno::number(|| {
        // SAFETY: by the caller's promise.
        let (object, addr) = unsafe { (Id::of(id)?, given(addr)?) };
        match addr.ip() {
            ip if ip.is_unspecified() => object.base.route.addr.src_addr = to_c(addr),
            _ => object.bind_to(addr)?,
        }
        Ok(0)
    })
}

/// Every option is a hint (type of service, address reuse, acknowledgement time-out), and changes nothing here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_set_option(
    id: *mut rdma_cm_id,
    _level: c_int,
    _name: c_int,
    _value: *mut c_void,
    _len: usize,
) -> c_int {
    // SAFETY: by the caller's promise.
    errno::number(|| unsafe { Id::of(id) }.map(|_| 0))
}

/// In network byte order; 0: it has none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_get_src_port(id: *mut rdma_cm_id) -> u16 {
    // SAFETY: by the caller's promise.
    let addr = unsafe { Id::of(id) }.ok().and_then(|id| id.source());
    addr.map_or(0, |addr| addr.port().to_be())
}

/// As [`rdma_get_src_port`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_get_dst_port(id: *mut rdma_cm_id) -> u16 {
    // SAFETY: by the caller's promise.
    let addr = unsafe { Id::of(id) }.ok().and_then(|id| id.destination());
    addr.map_or(0, |addr| addr.port().to_be())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_back() {
        for text in ["10.1.2.3:7471", "[2001:db8::1]:18515", "0.0.0.0:0"] {
            let addr: SocketAddr = text.parse().expect("an address");
            assert_eq!(from_c(&to_c(addr)), Some(addr));
        }
        // SAFETY: it consists of numbers.
        assert_eq!(from_c(&unsafe { std::mem::zeroed() }), None);
    }
}
