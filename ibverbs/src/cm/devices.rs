//! The contexts that connections use: one for each device, which is never closed.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::ptr;
use std::sync::{Mutex, OnceLock, PoisonError};

use braid_verbs::abi::{ibv_context, ibv_pd};

use crate::context::{ibv_close_device, ibv_open_device};
use crate::device::by_address;
use crate::errno::Errno;
use crate::memory::ibv_alloc_pd;

/// A device that is open, with a protection domain for queue pairs that are created without one.
#[derive(Clone, Copy)]
pub(super) struct Open {
    pub(super) context: *mut ibv_context,
    pub(super) pd: *mut ibv_pd,
}

// SAFETY: contexts and protection domains may be used from any thread, and these exist for ever.
unsafe impl Send for Open {}

/// The device of a host's address.
///
/// # Errors
/// `ENODEV`: no device has it; what opening it says.
pub(super) fn of(addr: IpAddr) -> Result<Open, Errno> {
    static OPEN: OnceLock<Mutex<HashMap<IpAddr, Open>>> = OnceLock::new();
    let mut open = OPEN.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = open.get(&addr) {
        return Ok(*known);
    }
    let device = by_address(addr).ok_or(Errno(libc::ENODEV))?;
    // SAFETY: devices exist for ever.
    let context = unsafe { ibv_open_device(ptr::from_ref(device).cast_mut().cast()) };
    if context.is_null() {
        return Err(Errno::last());
    }
    // SAFETY: it has just been opened.
    let pd = unsafe { ibv_alloc_pd(context) };
    if pd.is_null() {
        let failed = Errno::last();
        // SAFETY: as above, and nobody else knows it.
        unsafe { ibv_close_device(context) };
        return Err(failed);
    }
    let opened = Open { context, pd };
    open.insert(addr, opened);
    Ok(opened)
}

/// The address of this host that packets to `to` leave from.
pub(super) fn local_address(to: SocketAddr) -> Result<IpAddr, Errno> {
    let any: IpAddr = if to.is_ipv4() { [0; 4].into() } else { [0u16; 8].into() };
    let found = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect(to)?;
        socket.local_addr()
    });
    found.map(|addr| addr.ip()).map_err(|e| Errno(e.raw_os_error().unwrap_or(libc::EADDRNOTAVAIL)))
}
