//! The contexts of connections: one for each device, which is never closed.

use std::ffi::c_int;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::ptr;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use braid_verbs::abi::{ibv_context, ibv_pd};

use crate::device::{self, Device, by_address};
use crate::errno::{self, Errno};
use crate::memory::ibv_alloc_pd;
use crate::op_table::ibv_open_device;

/// An open device.
#[derive(Clone, Copy)]
pub(super) struct Open {
    device: &'static Device,
    pub(super) context: *mut ibv_context,
    /// The domain of queue pairs that are created without one. NULL until a connection uses the
    /// device, because the domain starts the engine.
    pub(super) pd: *mut ibv_pd,
}

// SAFETY: contexts and protection domains may be used from any thread, and these are never freed.
unsafe impl Send for Open {}

/// The open devices, in the order of opening. Each stands once for the addresses that it had then.
#[derive(Default)]
struct Devices {
    /// The process of the contexts. A forked child has a copy, whose engines belong to its parent.
    process: u32,
    all: Vec<Open>,
}

fn all() -> MutexGuard<'static, Devices> {
    static OPEN: OnceLock<Mutex<Devices>> = OnceLock::new();
    let open = OPEN.get_or_init(Mutex::default);
    let mut devices = open.lock().unwrap_or_else(PoisonError::into_inner);
    let process = std::process::id();
    if devices.process != process {
        *devices = Devices { process, all: Vec::new() };
    }
    devices
}

fn open<'a>(devices: &'a mut Vec<Open>, device: &'static Device) -> Result<&'a mut Open, Errno> {
    let same = |known: &Open| known.device.interface.addrs().eq(device.interface.addrs());
    let known = devices.iter().position(same);
    if known.is_none() {
        // SAFETY: devices are never freed.
        let context = unsafe { ibv_open_device(ptr::from_ref(device).cast_mut().cast()) };
        if context.is_null() {
            return Err(Errno::last());
        }
        devices.push(Open { device, context, pd: ptr::null_mut() });
    }
    let index = known.unwrap_or(devices.len() - 1);
    Ok(&mut devices[index])
}

/// Checks that a device has this address.
///
/// # Errors
/// `ENODEV`.
pub(super) fn exists(addr: IpAddr) -> Result<(), Errno> {
    by_address(addr).map(drop).ok_or(Errno(libc::ENODEV))
}

/// The device of an address of this host, with a protection domain.
///
/// # Errors
/// `ENODEV`: no device has the address. Otherwise those of opening the device.
pub(super) fn of(addr: IpAddr) -> Result<Open, Errno> {
    let devices = &mut all().all;
    let known = devices.iter().find(|open| open.device.interface.addrs().any(|its| its == addr));
    let device =
        known.map(|open| open.device).or_else(|| by_address(addr)).ok_or(Errno(libc::ENODEV))?;
    let device = open(devices, device)?;
    if device.pd.is_null() {
        // SAFETY: the context is open.
        device.pd = unsafe { ibv_alloc_pd(device.context) };
        if device.pd.is_null() {
            return Err(Errno::last());
        }
    }
    Ok(*device)
}

/// Lists the contexts of connections in an array that ends with NULL. `count` may be NULL. NULL
/// with `errno`: `ENODEV` if there is no device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_get_devices(count: *mut c_int) -> *mut *mut ibv_context {
    errno::pointer(|| {
        let mut devices = all();
        let context =
            |device: &'static Device| open(&mut devices.all, device).ok().map(|open| open.context);
        let mut contexts: Vec<*mut ibv_context> =
            device::list()?.into_iter().filter_map(context).collect();
        if contexts.is_empty() {
            return Err(Errno(libc::ENODEV));
        }
        // SAFETY: by the caller's promise.
        if let Some(count) = unsafe { count.as_mut() } {
            *count = contexts.len() as c_int;
        }
        contexts.push(ptr::null_mut());
        Ok(Box::into_raw(contexts.into_boxed_slice()).cast())
    })
}

/// Frees the array. The contexts stay open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_free_devices(list: *mut *mut ibv_context) {
    if list.is_null() {
        return;
    }
    // SAFETY: by the caller's promise `rdma_get_devices` has made the array, which ends with NULL.
    unsafe {
        let count = (0..).take_while(|i| !(*list.add(*i)).is_null()).count();
        drop(Box::from_raw(ptr::slice_from_raw_parts_mut(list, count + 1)));
    }
}

/// The source address of packets from this host to `to`.
pub(super) fn local_address(to: SocketAddr) -> Result<IpAddr, Errno> {
    let any: IpAddr = if to.is_ipv4() { [0; 4].into() } else { [0u16; 8].into() };
    let found = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect(to)?;
        socket.local_addr()
    });
    found.map(|addr| addr.ip()).map_err(|e| Errno(e.raw_os_error().unwrap_or(libc::EADDRNOTAVAIL)))
}
