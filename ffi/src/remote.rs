//! Descriptions of memory regions for peers.

use std::ffi::{c_int, c_void};

use braid::{REMOTE_REGION_LEN, RemoteRegion};

use crate::arguments::{Out, Room, bytes, one};
use crate::boundary::enter;

/// Number of bytes that braid_remote_pack writes.
pub const BRAID_REMOTE_LEN: usize = 20;
const _: () = assert!(BRAID_REMOTE_LEN == REMOTE_REGION_LEN);

/// A memory region of a peer, as its owner describes it.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct braid_remote {
    /// Address of the first byte in the owner's process.
    pub addr: u64,
    /// Length in bytes.
    pub len: u64,
    /// The remote key.
    pub rkey: u32,
}

impl From<RemoteRegion> for braid_remote {
    fn from(from: RemoteRegion) -> Self {
        braid_remote { addr: from.addr, len: from.len, rkey: from.rkey }
    }
}

/// Writes `remote` into `packed`, BRAID_REMOTE_LEN bytes, in a machine-independent form, for
/// example as private data of a connection.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_remote_pack(
    remote: *const braid_remote,
    packed: *mut c_void,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let (braid_remote { addr, len, rkey }, mut room) = unsafe {
            (one(remote, "remote")?, Room::new(packed.cast::<u8>(), BRAID_REMOTE_LEN, "packed")?)
        };
        room.extend(RemoteRegion { addr, len, rkey }.to_bytes());
        Ok(0)
    })
}

/// Reads the result of braid_remote_pack from the start of the `len` bytes at `packed`.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_remote_unpack(
    packed: *const c_void,
    len: usize,
    remote: *mut braid_remote,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let (out, packed) = unsafe {
            let packed = bytes(packed, len.min(BRAID_REMOTE_LEN), "packed")?;
            (Out::new(remote, "remote")?, packed)
        };
        out.set(RemoteRegion::from_bytes(packed)?.into());
        Ok(0)
    })
}
