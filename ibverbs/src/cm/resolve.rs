//! Resolution of addresses, devices and routes.

use std::ffi::c_int;
use std::net::SocketAddr;
use std::sync::Arc;

use super::addresses::{given, to_c};
use super::connection::Connection;
use super::devices;
use super::events::EventKind;
use super::id::Id;
use super::structs::rdma_cm_id;
use super::synchronous::complete;
use crate::errno::{self, Errno};
use crate::gid;
use crate::messages::Port;

/// Finds the device and takes a port of it, unless the identifier has one. The device is that of
/// `src`, that of the bound address, or the one that leads to `dst`. The program gets
/// `RDMA_CM_EVENT_ADDR_RESOLVED` or `.._ADDR_ERROR`.
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
            Ok(()) => object.shared.report(EventKind::AddrResolved, 0, None),
            Err(errno) => object.shared.report(EventKind::AddrError, -errno.0, None),
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

/// Takes the UDP port, or any free one for port 0. The address of the identifier then has the port.
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

/// Reports `RDMA_CM_EVENT_ROUTE_RESOLVED`. The IP network knows the routes, so there is nothing to
/// find.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_resolve_route(id: *mut rdma_cm_id, _timeout_ms: c_int) -> c_int {
    errno::number(|| {
        // SAFETY: by the caller's promise.
        let object = unsafe { Id::of(id) }?;
        if object.base.verbs.is_null() {
            return Err(Errno::INVALID);
        }
        object.shared.report(EventKind::RouteResolved, 0, None);
        // SAFETY: as above.
        unsafe { complete(id) }?;
        Ok(0)
    })
}

/// Sets the local address, at which a listener listens and from which a connection comes. The
/// identifier gets the device of the address (`verbs`). An unspecified address belongs to all
/// devices, and the kernel gives a loopback address no device either: `verbs` stays NULL in both
/// cases. Port 0 stands for any free one, which `rdma_get_src_port` returns. -1 with `errno`:
/// `EADDRINUSE`; `EINVAL` if the identifier is bound; `ENODEV` if no device has the address.
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

/// Returns the source port in network byte order. 0: there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_get_src_port(id: *mut rdma_cm_id) -> u16 {
    // SAFETY: by the caller's promise.
    let addr = unsafe { Id::of(id) }.ok().and_then(|id| id.source());
    addr.map_or(0, |addr| addr.port().to_be())
}

/// Returns the destination port as [`rdma_get_src_port`] returns the source port.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_get_dst_port(id: *mut rdma_cm_id) -> u16 {
    // SAFETY: by the caller's promise.
    let addr = unsafe { Id::of(id) }.ok().and_then(|id| id.destination());
    addr.map_or(0, |addr| addr.port().to_be())
}
