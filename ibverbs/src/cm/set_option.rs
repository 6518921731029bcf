//! `rdma_set_option(3)`.

use std::ffi::{c_int, c_void};

use braid_verbs::abi::IBV_QPT_RC;

use super::connection::Connection;
use super::id::{Id, IdShared};
use super::structs::rdma_cm_id;
use crate::errno::{self, Errno};

/// `RDMA_OPTION_ID`.
const LEVEL_ID: c_int = 0;
/// `RDMA_OPTION_ID_TOS` and so on.
const TOS: c_int = 0;
const REUSE_ADDR: c_int = 1;
const AF_ONLY: c_int = 2;
const ACK_TIMEOUT: c_int = 3;
/// The largest exponent of a local ack timeout.
const MAX_TIMEOUT: u8 = 31;

/// Sets an option: `RDMA_OPTION_ID_TOS`, `_REUSEADDR`, `_AFONLY` or `_ACK_TIMEOUT`. -1 with
/// `errno`, without any change: `ENOSYS` for any other option, `EINVAL` for NULL or a value of
/// another size. `EINVAL` also for a time-out above 31 or of an identifier for datagrams, for
/// `_AFONLY` once a port is bound, and for `_REUSEADDR` of a listener.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_set_option(
    id: *mut rdma_cm_id,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: usize,
) -> c_int {
    errno::number(|| {
        // SAFETY: by the caller's promise.
        let object = unsafe { Id::of(id) }?;
        // SAFETY: as above.
        unsafe {
            match (level, name) {
                (LEVEL_ID, TOS) => set_tos(&object.shared, given(value, len)?)?,
                (LEVEL_ID, REUSE_ADDR) => {
                    reuse_address(&object.shared, given::<c_int>(value, len)? != 0)?;
                }
                (LEVEL_ID, AF_ONLY) => {
                    set_family_only(&object.shared, given::<c_int>(value, len)? != 0)?;
                }
                (LEVEL_ID, ACK_TIMEOUT) => set_ack_timeout(object, given(value, len)?)?,
                _ => return Err(Errno(libc::ENOSYS)),
            }
        }
        Ok(0)
    })
}

/// Reads a value of a program.
///
/// # Errors
/// `EINVAL`: the pointer is NULL, or the size differs.
unsafe fn given<T: Copy>(value: *const c_void, len: usize) -> Result<T, Errno> {
    if value.is_null() || len != size_of::<T>() {
        return Err(Errno::INVALID);
    }
    // SAFETY: by the caller's promise, the pointer leads to as many bytes; all types are numbers.
    Ok(unsafe { value.cast::<T>().read_unaligned() })
}

fn errno(error: std::io::Error) -> Errno {
    Errno(error.raw_os_error().unwrap_or(libc::EIO))
}

fn set_tos(shared: &IdShared, tos: u8) -> Result<(), Errno> {
    if let Some(port) = shared.port() {
        port.set_tos(tos).map_err(errno)?;
    }
    shared.options().tos = tos;
    Ok(())
}

fn reuse_address(shared: &IdShared, is_reused: bool) -> Result<(), Errno> {
    let is_listener = matches!(*shared.connection(), Connection::Listening(..));
    match shared.port() {
        Some(_) if is_listener => return Err(Errno::INVALID),
        Some(port) if is_reused => port.share().map_err(errno)?,
        // As in the kernel, a shared port stays shared.
        Some(_) => return Err(Errno::INVALID),
        None => {}
    }
    shared.options().is_address_reused = is_reused;
    Ok(())
}

fn set_family_only(shared: &IdShared, is_only: bool) -> Result<(), Errno> {
    if shared.port().is_some() {
        return Err(Errno::INVALID);
    }
    shared.options().is_family_only = is_only;
    Ok(())
}

fn set_ack_timeout(id: &Id, exponent: u8) -> Result<(), Errno> {
    if id.base.qp_type != IBV_QPT_RC || exponent > MAX_TIMEOUT {
        return Err(Errno::INVALID);
    }
    id.shared.options().ack_timeout = Some(exponent);
    Ok(())
}
