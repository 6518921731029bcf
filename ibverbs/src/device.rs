//! The devices: one for each network interface, or for each list of them in `BRAID_RAILS`; `braid0`, `braid1` and so on.

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

/// `IBV_NODE_CA` and `IBV_TRANSPORT_IB`: what a RoCE device is.
const NODE_CA: c_int = 1;
const TRANSPORT_IB: c_int = 0;

/// A device as programs hold it. Providers look for their own table behind `ibv_device`, to tell whether a device is theirs.
#[repr(C)]
pub(crate) struct Device {
    base: ibv_device,
    providers_table: *mut c_void,
    pub(crate) interface: Interface,
    pub(crate) gids: GidTable,
    index: usize,
}

// SAFETY: it never changes once it is made.
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

    /// Its name, `braid0`.
    pub(crate) fn name(&self) -> String {
        name_of(self.index)
    }

    /// The name of its file in `/dev/infiniband`, `uverbs-braid0`.
    pub(crate) fn verbs_name(&self) -> String {
        verbs_name_of(self.index)
    }

    /// Network byte order: the last half of its first GID, and what sets devices of one address apart.
    pub(crate) fn guid(&self) -> u64 {
        // SAFETY: both members of the union are plain bytes.
        let raw = unsafe { gid::of(self.interface.addr).raw };
        let mut guid: [u8; 8] = raw[8..].try_into().expect("eight bytes");
        // A locally administered EUI-64, with the interface's index in it.
        guid[0] = 0x02;
        guid[1] = self.interface.index as u8;
        u64::from_ne_bytes(guid)
    }

    /// # Safety
    /// The pointer is null, or one that [`ibv_get_device_list`] has given.
    pub(crate) unsafe fn of(device: *mut ibv_device) -> Result<&'static Device, Errno> {
        // SAFETY: by the caller's promise; devices are never freed.
        unsafe { device.cast::<Device>().as_ref() }.ok_or(Errno::INVALID)
    }
}

fn name_of(index: usize) -> String {
    format!("braid{index}")
}

/// Not `uverbs0`, which may be a NIC's: a program that is not reached by the preloaded library
/// would open that.
fn verbs_name_of(index: usize) -> String {
    format!("uverbs-{}", name_of(index))
}

/// All of them.
///
/// # Errors
/// The system lists no interfaces; `EINVAL`: a setting cannot be, which the error output names.
pub(crate) fn list() -> Result<Vec<&'static Device>, Errno> {
    let all = interfaces::list().map_err(|e| Errno(e.raw_os_error().unwrap_or(libc::EIO)))?;
    let found = Settings::combine(all)?.into_iter().enumerate();
    Ok(found.map(|(index, interface)| device(index, interface)).collect())
}

/// The device of a host's address.
pub(crate) fn by_address(addr: IpAddr) -> Option<&'static Device> {
    list().ok()?.into_iter().find(|device| device.interface.addrs().any(|its| its == addr))
}

fn write(place: &mut [c_char], text: &str) {
    let room = place.len() - 1;
    place.iter_mut().zip(text.bytes().take(room)).for_each(|(to, from)| *to = from as c_char);
}

/// The devices that programs have been told of. They are never freed: a program may use one after it has freed the list.
/// An interface that comes back, or whose address changes, is a new device.
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

/// The devices, as an array that ends with NULL; `count` may be NULL. NULL with `errno` where the system lists no interfaces, and
/// `EINVAL` where a setting in the environment cannot be, which the error output names.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_list(count: *mut c_int) -> *mut *mut ibv_device {
    // SAFETY: by the caller's promise.
    let mut count = unsafe { count.as_mut() };
    // Programs look at it where there is no list, too.
    count.iter_mut().for_each(|count| **count = 0);
    errno::pointer(|| {
        let devices = list()?.into_iter();
        let mut list: Vec<*mut ibv_device> =
            devices.map(|device| ptr::from_ref(device).cast_mut().cast()).collect();
        if let Some(count) = count {
            *count = list.len() as c_int;
        }
        list.push(ptr::null_mut());
        // By malloc, as some programs free it themselves.
        let bytes = list.len() * size_of::<*mut ibv_device>();
        // SAFETY: the copy is as long as what was allocated.
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
