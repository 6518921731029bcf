//! The properties of a device, which all versions translate to their layouts.

use std::ffi::{c_char, c_int};
use std::ptr;

use crate::comm::MAX_RECVS;
use crate::error::Error;
use crate::memory::HOST_MEMORY;
use crate::plugin;

/// Length of the longest message, 1 GiB: one WRITE.
pub(super) const MAX_BYTES: usize = 1 << 30;

pub(super) struct Properties {
    pub(super) name: *mut c_char,
    pub(super) pci_path: *mut c_char,
    pub(super) guid: u64,
    pub(super) ptr_support: c_int,
    pub(super) speed: c_int,
    pub(super) port: c_int,
    pub(super) latency: f32,
    pub(super) max_comms: c_int,
    pub(super) max_recvs: c_int,
    pub(super) members: Vec<usize>,
    pub(super) rail: i16,
}

/// Returns the properties of device `index`.
///
/// # Errors
/// If there is none, or if `init` was not called.
pub(super) fn properties(index: c_int) -> Result<Properties, Error> {
    let plugin = plugin::current()?;
    let device = plugin.device(index)?;
    Ok(Properties {
        name: device.name.as_ptr().cast_mut(),
        pci_path: device.pci_path.map_or(ptr::null_mut(), |path| path.as_ptr().cast_mut()),
        guid: device.guid,
        ptr_support: HOST_MEMORY,
        speed: device.speed,
        port: 0,
        // 0: NCCL uses its own estimate for networks.
        latency: 0.0,
        max_comms: 65_534,
        max_recvs: MAX_RECVS as c_int,
        members: device.members.clone(),
        // Devices with the same number are on the same rail on every host.
        rail: device.index as i16,
    })
}
