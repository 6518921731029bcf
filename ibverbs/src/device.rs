//! The devices `braid0`, `braid1` and so on: one for each network interface, or for each list of
//! interfaces in `BRAID_RAILS`.

use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_void};
use std::net::IpAddr;
use std::ptr;
use std::sync::{Mutex, OnceLock, PoisonError};

use braid_verbs::abi::ibv_device;

use crate::errno::{self, Errno};
use crate::gid;
use crate::gid_table::GidTable;
use crate::interfaces::{self, Interface};
use crate::settings::Settings;

/// `IBV_NODE_CA` and `IBV_TRANSPORT_IB`: the node and transport types of a RoCE device.
const NODE_CA: c_int = 1;
const TRANSPORT_IB: c_int = 0;

/// A device, as programs hold it. Providers look for their own table behind `ibv_device` to find
/// out whether a device is theirs.
#[repr(C)]
pub(crate) struct Device {
    base: ibv_device,
    providers_table: *mut c_void,
    pub(crate) interface: Interface,
    pub(crate) gids: GidTable,
    index: usize,
}

// SAFETY: a device does not change after it was made.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

impl Device {
    fn new(index: usize, interface: Interface) -> Self {
        let mut base = ibv_device {
            _ops: [ptr::null_mut(); 2],
            node_type: NODE_CA,
            transport_type: TRANSPORT_IB,
            name: [0; 64],
            dev_name: [0; 64],
            dev_path: [0; 256],
            ibdev_path: [0; 256],
        };
        let (name, verbs_name) = (name_of(index), verbs_name_of(index));
        write(&mut base.name, &name);
        write(&mut base.dev_name, &verbs_name);
        write(&mut base.dev_path, &format!("/sys/class/infiniband_verbs/{verbs_name}"));
        write(&mut base.ibdev_path, &format!("/sys/class/infiniband/{name}"));
        let gids = GidTable::new(interface.addr, interface.second);
        Device { base, providers_table: ptr::null_mut(), interface, gids, index }
    }

    /// The name of the device, `braid0`.
    pub(crate) fn name(&self) -> String {
        name_of(self.index)
    }

    /// The name of its file in `/dev/infiniband`, `uverbs-braid0`.
    pub(crate) fn verbs_name(&self) -> String {
        verbs_name_of(self.index)
    }

    /// The GUID, in network byte order: the second half of the first GID, with a part that
    /// distinguishes devices of the same address.
    pub(crate) fn guid(&self) -> u64 {
        // SAFETY: both members of the union are plain bytes.
        let raw = unsafe { gid::of(self.interface.addr).raw };
        let mut guid: [u8; 8] = raw[8..].try_into().expect("eight bytes");
        // A locally administered EUI-64 that contains the index of the interface.
        guid[0] = 0x02;
        guid[1] = self.interface.index as u8;
        u64::from_ne_bytes(guid)
    }

    /// The device that a program names.
    ///
    /// # Safety
    /// The pointer is null, or [`ibv_get_device_list`] has returned it.
    pub(crate) unsafe fn of(device: *mut ibv_device) -> Result<&'static Device, Errno> {
        // SAFETY: by the caller's promise; devices are never freed.
        unsafe { device.cast::<Device>().as_ref() }.ok_or(Errno::INVALID)
    }
}

fn name_of(index: usize) -> String {
    format!("braid{index}")
}

/// The name is not `uverbs0`, which may belong to a NIC: a program without the preloaded library
/// would open that file.
fn verbs_name_of(index: usize) -> String {
    format!("uverbs-{}", name_of(index))
}

/// Lists all devices.
///
/// # Errors
/// The system cannot list the interfaces. `EINVAL`: an environment variable has an invalid value,
/// which standard error names.
pub(crate) fn list() -> Result<Vec<&'static Device>, Errno> {
    let all = interfaces::list().map_err(|e| Errno(e.raw_os_error().unwrap_or(libc::EIO)))?;
    let found = Settings::combine(all)?.into_iter().enumerate();
    Ok(found.map(|(index, interface)| device(index, interface)).collect())
}

/// The device of an address of this host.
pub(crate) fn by_address(addr: IpAddr) -> Option<&'static Device> {
    list().ok()?.into_iter().find(|device| device.interface.addrs().any(|its| its == addr))
}

fn write(place: &mut [c_char], text: &str) {
    let room = place.len() - 1;
    place.iter_mut().zip(text.bytes().take(room)).for_each(|(to, from)| *to = from as c_char);
}

/// All devices that programs may know. They are never freed, because a program may use a device
/// after it has freed the list. An interface that comes back, or whose address changes, is a new
/// device.
type Known = HashMap<(usize, String), Vec<&'static Device>>;

fn known() -> &'static Mutex<Known> {
    static KNOWN: OnceLock<Mutex<Known>> = OnceLock::new();
    KNOWN.get_or_init(Mutex::default)
}

fn device(index: usize, interface: Interface) -> &'static Device {
    let mut known = known().lock().unwrap_or_else(PoisonError::into_inner);
    let devices = known.entry((index, interface.name.clone())).or_default();
    if let Some(device) = devices.iter().find(|device| device.interface == interface) {
        return device;
    }
    let device: &'static Device = Box::leak(Box::new(Device::new(index, interface)));
    devices.push(device);
    device
}

/// Lists the devices in an array that ends with NULL. `count` may be NULL. NULL with `errno`: the
/// system cannot list the interfaces, or `EINVAL` for an environment variable with an invalid
/// value, which standard error names.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_list(count: *mut c_int) -> *mut *mut ibv_device {
    // SAFETY: by the caller's promise.
    let mut count = unsafe { count.as_mut() };
    // Programs read the count even without a list.
    count.iter_mut().for_each(|count| **count = 0);
    errno::pointer(|| {
        let devices = list()?.into_iter();
        let mut list: Vec<*mut ibv_device> =
            devices.map(|device| ptr::from_ref(device).cast_mut().cast()).collect();
        if let Some(count) = count {
            *count = list.len() as c_int;
        }
        list.push(ptr::null_mut());
        // The array comes from malloc, because some programs free it themselves.
        let bytes = list.len() * size_of::<*mut ibv_device>();
        // SAFETY: the copy has the length of the allocation.
        unsafe {
            let array: *mut *mut ibv_device = libc::malloc(bytes).cast();
            if array.is_null() {
                return Err(Errno::NO_MEMORY);
            }
            ptr::copy_nonoverlapping(list.as_ptr(), array, list.len());
            Ok(array)
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_free_device_list(list: *mut *mut ibv_device) {
    // SAFETY: by the caller's promise.
    unsafe { libc::free(list.cast()) };
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_name(device: *mut ibv_device) -> *const c_char {
    // SAFETY: by the caller's promise.
    unsafe { Device::of(device) }.map_or(ptr::null(), |device| device.base.name.as_ptr())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_guid(device: *mut ibv_device) -> u64 {
    // SAFETY: by the caller's promise.
    unsafe { Device::of(device) }.map_or(0, Device::guid)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_index(device: *mut ibv_device) -> c_int {
    // SAFETY: by the caller's promise.
    unsafe { Device::of(device) }.map_or(-1, |device| device.index as c_int)
}
