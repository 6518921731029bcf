//! Addresses, devices and routes of identifiers.

use std::ffi::c_int;
use std::net::SocketAddr;
use std::sync::Arc;

use super::addresses::{given, to_c};
use super::connection::Connection;
use super::devices;
use super::events::Kind;
use super::id::Id;
use super::structs::rdma_cm_id;
use super::synchronous::complete;
use crate::errno::{self, Errno};
use crate::gid;
use crate::messages::Port;

/// Finds the device of `src`, or of the address that the identifier is bound to, or else the one that leads to `dst`, and takes a port of it
/// unless the identifier has one: `RDMA_CM_EVENT_ADDR_RESOLVED`, or `.._ADDR_ERROR`.
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
        let found = leave_from(object, named, dst);
        object.base.route.addr.dst_addr = to_c(dst);
        object.base.route.addr.ibaddr.dgid = gid::of(dst.ip());
        match found {
            Ok(()) => object.shared.happened(Kind::AddrResolved, 0, None),
            Err(errno) => object.shared.happened(Kind::AddrError, -errno.0, None),
        }
        // SAFETY: as above.
        unsafe { complete(id) }?;
        Ok(0)
    })
}

fn leave_from(id: &mut Id, named: Option<SocketAddr>, dst: SocketAddr) -> Result<(), Errno> {
    let mut source = match named.filter(|source| !source.ip().is_unspecified()) {
        Some(source) => source,
        None => SocketAddr::new(devices::local_address(dst)?, 0),
    };
    let own = id.source().map_or(0, |bound| bound.port());
    if own != 0 {
        source.set_port(own);
    }
    id.bind_to(source)?;
    match own {
        0 => reserve(id, source),
        _ => Ok(()),
    }
}

/// Takes the UDP port, or any that is free for 0. The identifier's address has it from now on.
///
/// # Errors
/// `EADDRINUSE`, `EACCES` for a port below 1024, `EADDRNOTAVAIL`.
fn reserve(id: &mut Id, addr: SocketAddr) -> Result<(), Errno> {
    let errno = |e: std::io::Error| Errno(e.raw_os_error().unwrap_or(libc::EIO));
    let options = id.shared.options().of_port()?;
    let port = Port::bind(addr, options).map_err(errno)?;
    id.set_source(port.addr());
    id.shared.set_port(Some(Arc::new(port)));
    Ok(())
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
        // SAFETY: as above.
        unsafe { complete(id) }?;
        Ok(0)
    })
}

/// Sets the local address, at which a listener listens and from which a connection comes. The
/// device that has the address becomes the identifier's (`verbs`). An unspecified address is that
/// of all devices, and the kernel gives a loopback address no device either: in both cases `verbs`
/// stays NULL. Port 0 takes any that is free; `rdma_get_src_port` returns it. -1 with `errno`:
/// `EADDRINUSE`; `EINVAL` if the identifier is bound already; `ENODEV` if no device has the
/// address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_bind_addr(id: *mut rdma_cm_id, addr: *mut libc::sockaddr) -> c_int {
    errno::number(|| {
        // SAFETY: by the caller's promise.
        let (object, addr) = unsafe { (Id::of(id)?, given(addr)?) };
        let is_new = matches!(*object.shared.connection(), Connection::None);
        if !is_new || object.shared.port().is_some() {
            return Err(Errno::INVALID);
        }
        if addr.ip().is_loopback() {
            devices::exists(addr.ip())?;
        } else if !addr.ip().is_unspecified() {
            object.bind_to(addr)?;
        }
        reserve(object, addr)?;
        Ok(0)
    })
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
