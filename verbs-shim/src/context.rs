//! An open device.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::Arc;
use std::{fmt, io};

use crate::VerbsError;
use crate::abi::{Symbols, ibv_context, ibv_device_attr};
use crate::descriptor::set_non_blocking;
use crate::device;
use crate::error::check;
use crate::library::libibverbs;

/// An open device. Clones are handles of the same opening. The device is closed when the last
/// clone, and the last object made from it, is dropped.
#[derive(Clone)]
pub struct Context(Arc<Opened>);

struct Opened {
    symbols: &'static Symbols,
    raw: NonNull<ibv_context>,
    name: String,
    folder: PathBuf,
    /// The sysfs folder of the kernel's interface to the device, which exists while the device
    /// does.
    access: Option<PathBuf>,
}

// SAFETY: libibverbs may be called from any thread and locks shared state. The pointer stays valid
// until `drop`, which has the only handle.
unsafe impl Send for Opened {}
// SAFETY: as above.
unsafe impl Sync for Opened {}

/// The limits of a device. Each is an upper bound; they may not be reachable together.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct DeviceAttributes {
    /// Firmware version, empty for Soft-RoCE.
    pub firmware: String,
    /// The vendor's IEEE number: 0x2c9 or 0x15b3 for Mellanox.
    pub vendor_id: u32,
    /// The vendor's part number.
    pub vendor_part_id: u32,
    /// Bytes of the largest memory region.
    pub max_mr_size: u64,
    /// Number of memory regions.
    pub max_mr: u32,
    /// Number of queue pairs.
    pub max_qp: u32,
    /// Number of outstanding work requests of one queue.
    pub max_qp_wr: u32,
    /// Number of scatter/gather entries of a work request.
    pub max_sge: u32,
    /// Number of completion queues.
    pub max_cq: u32,
    /// Number of entries of a completion queue.
    pub max_cqe: u32,
    /// Number of protection domains.
    pub max_pd: u32,
    /// Number of address handles.
    pub max_ah: u32,
    /// Number of shared receive queues; 0 if they are not supported.
    pub max_srq: u32,
    /// Number of outstanding work requests of a shared receive queue.
    pub max_srq_wr: u32,
    /// Number of scatter/gather entries of a shared receive queue's work request.
    pub max_srq_sge: u32,
    /// Number of READs and atomics that a queue pair responds to at once.
    pub max_qp_rd_atom: u32,
    /// Number of READs and atomics that a queue pair has outstanding at once.
    pub max_qp_init_rd_atom: u32,
    /// Number of ports. They are numbered from 1.
    pub ports: u8,
}

impl Context {
    /// Opens a device by its name; see [`device_names`](crate::device_names).
    ///
    /// # Errors
    /// [`VerbsError::Library`], [`VerbsError::NoDevice`], [`VerbsError::NoProvider`],
    /// [`VerbsError::UnknownDevice`], [`VerbsError::Open`].
    pub fn open(name: &str) -> Result<Context, VerbsError> {
        Context::open_with(libibverbs()?, name, Path::new(device::SYSFS))
    }

    pub(crate) fn open_with(
        symbols: &'static Symbols,
        name: &str,
        sysfs: &Path,
    ) -> Result<Context, VerbsError> {
        let raw = device::open(symbols, name)?;
        let folder = sysfs.join(name);
        let access = device::access(&sysfs.with_file_name("infiniband_verbs"), name);
        let opened = Opened { symbols, raw, name: name.into(), folder, access };
        let context = Context(Arc::new(opened));
        set_non_blocking(context.async_fd())
            .map_err(|e| context.refused("fcntl", "O_NONBLOCK", e))?;
        Ok(context)
    }

    /// Returns the device's name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns whether the kernel has begun to remove the device. Some drivers (rxe on Linux 6.1)
    /// cannot remove a device that a program has open, and send no
    /// [`AsyncEvent::DeviceFatal`](crate::AsyncEvent). The removal then waits until the program
    /// closes the device. This call reads the file system, which takes a few microseconds.
    pub fn is_being_removed(&self) -> bool {
        self.0.access.as_ref().is_some_and(|folder| !folder.exists())
    }

    /// Returns the descriptor of events: non-blocking, and readable while there is an event.
    pub fn async_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the context and its descriptor stay open as long as `self` lives.
        unsafe { BorrowedFd::borrow_raw((*self.raw()).async_fd) }
    }

    /// Queries the limits of the device.
    ///
    /// # Errors
    /// [`VerbsError::Refused`].
    pub fn attributes(&self) -> Result<DeviceAttributes, VerbsError> {
        Ok(DeviceAttributes::from(&self.query_device()?))
    }

    pub(crate) fn query_device(&self) -> Result<ibv_device_attr, VerbsError> {
        let mut attr = MaybeUninit::<ibv_device_attr>::zeroed();
        // SAFETY: the context is open, and the struct has the size that this symbol version writes.
        let code = unsafe { (self.symbols().ibv_query_device)(self.raw(), attr.as_mut_ptr()) };
        check(code).map_err(|e| self.refused("ibv_query_device", "", e))?;
        // SAFETY: zeros, or values that libibverbs wrote over them, are valid: all fields are
        // integers.
        Ok(unsafe { attr.assume_init() })
    }

    /// Returns the sysfs folder of the device.
    pub(crate) fn folder(&self) -> &Path {
        &self.0.folder
    }

    pub(crate) fn symbols(&self) -> &'static Symbols {
        self.0.symbols
    }

    pub(crate) fn raw(&self) -> *mut ibv_context {
        self.0.raw.as_ptr()
    }

    /// Checks that `other` is a handle of this opening, as all parts of a queue pair must be.
    pub(crate) fn require_same(
        &self,
        what: &'static str,
        other: &Context,
    ) -> Result<(), VerbsError> {
        match Arc::ptr_eq(&self.0, &other.0) {
            true => Ok(()),
            false => Err(VerbsError::OtherContext { what, device: self.name().into() }),
        }
    }

    pub(crate) fn refused(
        &self,
        call: &'static str,
        asked: impl Into<String>,
        source: io::Error,
    ) -> VerbsError {
        VerbsError::Refused { device: self.name().into(), call, asked: asked.into(), source }
    }

    /// Converts the result of a constructor. If it is null, errno is the reason.
    pub(crate) fn made<T>(
        &self,
        call: &'static str,
        asked: impl FnOnce() -> String,
        made: *mut T,
    ) -> Result<NonNull<T>, VerbsError> {
        let source = io::Error::last_os_error();
        NonNull::new(made).ok_or_else(|| self.refused(call, asked(), source))
    }

    /// Handles the result of a destructor. A failure is only logged; the kernel frees the object
    /// when the process ends.
    pub(crate) fn unmade(&self, call: &'static str, code: i32) {
        if let Err(error) = check(code) {
            tracing::warn!(device = self.name(), call, %error, "not freed");
        }
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Context").field(&self.name()).finish()
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // SAFETY: this was the last handle, and every object made from the context held one.
        let code = unsafe { (self.symbols.ibv_close_device)(self.raw.as_ptr()) };
        if let Err(error) = check(code) {
            tracing::warn!(device = self.name, call = "ibv_close_device", %error, "not freed");
        }
    }
}

impl From<&ibv_device_attr> for DeviceAttributes {
    fn from(attr: &ibv_device_attr) -> Self {
        // A negative limit is meaningless, so it counts as 0.
        let count = |value: i32| u32::try_from(value).unwrap_or(0);
        DeviceAttributes {
            firmware: text(&attr.fw_ver.map(|c| c as u8)),
            vendor_id: attr.vendor_id,
            vendor_part_id: attr.vendor_part_id,
            max_mr_size: attr.max_mr_size,
            max_mr: count(attr.max_mr),
            max_qp: count(attr.max_qp),
            max_qp_wr: count(attr.max_qp_wr),
            max_sge: count(attr.max_sge),
            max_cq: count(attr.max_cq),
            max_cqe: count(attr.max_cqe),
            max_pd: count(attr.max_pd),
            max_ah: count(attr.max_ah),
            max_srq: count(attr.max_srq),
            max_srq_wr: count(attr.max_srq_wr),
            max_srq_sge: count(attr.max_srq_sge),
            max_qp_rd_atom: count(attr.max_qp_rd_atom),
            max_qp_init_rd_atom: count(attr.max_qp_init_rd_atom),
            ports: attr.phys_port_cnt,
        }
    }
}

/// Returns the text up to the first nul, or all of it if there is none.
fn text(bytes: &[u8]) -> String {
    match CStr::from_bytes_until_nul(bytes) {
        Ok(text) => text.to_string_lossy().into_owned(),
        Err(_) => String::from_utf8_lossy(bytes).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn firmware_text_ends_where_it_ends() {
        assert_eq!(text(b"16.35\0\0junk"), "16.35");
        assert_eq!(text(b"abc"), "abc");
    }

    #[test]
    fn negative_limits_are_none() {
        // SAFETY: all of its fields are integers.
        let mut attr: ibv_device_attr = unsafe { std::mem::zeroed() };
        (attr.max_qp, attr.max_srq, attr.phys_port_cnt) = (65_000, -1, 2);
        let attributes = DeviceAttributes::from(&attr);
        assert_eq!((attributes.max_qp, attributes.max_srq, attributes.ports), (65_000, 0, 2));
    }
}
