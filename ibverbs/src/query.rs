//! Properties of a device and its port: `ibv_query_device`, `ibv_query_port`, GIDs and P_Keys.

use std::ffi::{c_int, c_uint, c_void};
use std::mem;

use braid_verbs::abi::{
    _compat_ibv_port_attr, IBV_LINK_LAYER_ETHERNET, IBV_PORT_ACTIVE, ibv_context, ibv_device_attr,
    ibv_device_attr_ex, ibv_gid, ibv_gid_entry, ibv_port_attr,
};

use crate::context::Context;
use crate::device::Device;
use crate::errno::{self, Errno};
use crate::limits::{MAX_CQE, MAX_RD_ATOMIC, MAX_SGE, MAX_WR};
use crate::numbers::MAX_QPS;

/// The longest message.
const MAX_MESSAGE: u32 = 1 << 30;
/// The default P_Key of a port: a full member of the default partition.
pub(crate) const P_KEY: u16 = 0xFFFF;
/// A value of `enum ibv_gid_type`.
const IBV_GID_TYPE_ROCE_V2: u32 = 2;
/// The same type in sysfs.
const IBV_GID_TYPE_SYSFS_ROCE_V2: u32 = 1;
/// "brd", a locally administered number. No vendor of NICs has it, so programs do not take the
/// device for one that they know.
const VENDOR_ID: u32 = 0x62_7264;
/// The only device of that vendor.
const VENDOR_PART_ID: u32 = 1;
/// `IBV_ATOMIC_HCA`: atomic with respect to all other atomics of the device.
const ATOMIC_HCA: u32 = 1;
/// `IBV_DEVICE_RC_RNR_NAK_GEN`, `IBV_DEVICE_SYS_IMAGE_GUID`.
const CAPABILITIES: u32 = 1 << 11 | 1 << 12;
/// Bytes of an IP packet besides the payload, for the MTU of a port: IPv6, UDP, and the longest
/// header of Braid.
const HEADERS: u32 = 128;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_device(
    context: *mut ibv_context,
    attr: *mut ibv_device_attr,
) -> c_int {
    errno::code(|| {
        // SAFETY: by the caller's promise.
        let (context, attr) = unsafe { (Context::of(context)?, attr.as_mut()) };
        *attr.ok_or(Errno::INVALID)? = attributes(context.open.device);
        Ok(())
    })
}

fn attributes(device: &Device) -> ibv_device_attr {
    // SAFETY: the structure consists of numbers, so zero is valid.
    let mut attr: ibv_device_attr = unsafe { mem::zeroed() };
    let version = env!("CARGO_PKG_VERSION").bytes();
    attr.fw_ver.iter_mut().zip(version).for_each(|(to, from)| *to = from as _);
    (attr.node_guid, attr.sys_image_guid) = (device.guid(), device.guid());
    (attr.vendor_id, attr.vendor_part_id) = (VENDOR_ID, VENDOR_PART_ID);
    attr.max_mr_size = u64::MAX;
    attr.page_size_cap = 4096;
    attr.max_qp = MAX_QPS as c_int;
    attr.max_qp_wr = MAX_WR as c_int;
    attr.device_cap_flags = CAPABILITIES;
    (attr.max_sge, attr.max_sge_rd) = (MAX_SGE as c_int, MAX_SGE as c_int);
    (attr.max_cq, attr.max_cqe) = (1 << 16, MAX_CQE);
    (attr.max_mr, attr.max_pd) = (1 << 23, 1 << 24);
    (attr.max_qp_rd_atom, attr.max_qp_init_rd_atom) = (MAX_RD_ATOMIC, MAX_RD_ATOMIC);
    attr.max_res_rd_atom = MAX_RD_ATOMIC * MAX_QPS as c_int;
    (attr.max_srq, attr.max_srq_wr) = (1 << 16, MAX_WR as c_int);
    attr.max_srq_sge = MAX_SGE as c_int;
    attr.atomic_cap = ATOMIC_HCA;
    attr.max_ah = 1 << 16;
    attr.max_pkeys = 1;
    attr.local_ca_ack_delay = 15;
    attr.phys_port_cnt = 1;
    attr
}

/// `verbs_context.query_device_ex`. The attributes beyond those of [`ibv_query_device`] are 0.
pub(crate) unsafe extern "C" fn query_device_ex(
    context: *mut ibv_context,
    input: *const u32,
    attr: *mut ibv_device_attr_ex,
    size: usize,
) -> c_int {
    errno::code(|| {
        // SAFETY: by the caller's promise.
        let (context, input) = unsafe { (Context::of(context)?, input.as_ref()) };
        let is_known = input.is_none_or(|mask| *mask == 0);
        if attr.is_null() || size < size_of::<ibv_device_attr>() || !is_known {
            return Err(Errno::INVALID);
        }
        // SAFETY: the structure consists of numbers, so zero is valid.
        let mut whole: ibv_device_attr_ex = unsafe { mem::zeroed() };
        whole.orig_attr = attributes(context.open.device);
        whole.phys_port_cnt_ex = 1;
        // SAFETY: as above; `size` bytes are writable.
        unsafe { put(&whole, attr.cast(), size) };
        Ok(())
    })
}

/// Writes `size` bytes: the value, and zeroes if the caller's structure is longer.
unsafe fn put<T>(value: &T, to: *mut u8, size: usize) {
    let known = size.min(size_of::<T>());
    // SAFETY: by the caller's promise.
    unsafe {
        to.write_bytes(0, size);
        std::ptr::copy_nonoverlapping(std::ptr::from_ref(value).cast(), to, known);
    }
}

/// Four lanes of EDR. A rate has to be named, because programs size their tables by it.
const WIDTH: u8 = 2;
const SPEED: u8 = 32;
/// The same rate in the notation of sysfs.
pub(crate) const RATE: &str = "100 Gb/sec (4X EDR)";
/// `IB_PORT_CM_SUP` and `IB_PORT_IP_BASED_GIDS`.
pub(crate) const PORT_CAPABILITIES: u32 = 1 << 16 | 1 << 26;
/// The same rate in units of 100 Mbit/s.
const PORT_SPEED: u64 = 1000;

/// Returns the speed that `active_width` and `active_speed` of `ibv_query_port` stand for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_port_speed(
    context: *mut ibv_context,
    port: u32,
    speed: *mut u64,
) -> c_int {
    errno::code(|| {
        // SAFETY: by the caller's promise.
        let (_, speed) = unsafe { (Context::of(context)?, speed.as_mut()) };
        *speed.filter(|_| port == 1).ok_or(Errno::INVALID)? = PORT_SPEED;
        Ok(())
    })
}

/// `verbs_context.query_port`.
pub(crate) unsafe extern "C" fn query_port(
    context: *mut ibv_context,
    port: u8,
    attr: *mut ibv_port_attr,
    size: usize,
) -> c_int {
    errno::code(|| {
        // SAFETY: by the caller's promise.
        let context = unsafe { Context::of(context) }?;
        if port != 1 || attr.is_null() {
            return Err(Errno::INVALID);
        }
        // SAFETY: as above.
        unsafe { put(&port_attributes(context.open.device), attr.cast(), size) };
        Ok(())
    })
}

/// Fills in the old form of the structure, which ends before `port_cap_flags2`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_port(
    context: *mut ibv_context,
    port: u8,
    attr: *mut _compat_ibv_port_attr,
) -> c_int {
    let size = mem::offset_of!(ibv_port_attr, link_layer) + 1;
    // SAFETY: by the caller's promise.
    unsafe { query_port(context, port, attr.cast(), size.next_multiple_of(4)) }
}

fn port_attributes(device: &Device) -> ibv_port_attr {
    /// `enum ibv_port_phys_state`: the link is up.
    const LINK_UP: u8 = 5;
    // SAFETY: the structure consists of numbers, so zero is valid.
    let mut attr: ibv_port_attr = unsafe { mem::zeroed() };
    let mtu = path_mtu(device.interface.mtu);
    attr.state = IBV_PORT_ACTIVE;
    (attr.max_mtu, attr.active_mtu) = (5, mtu);
    attr.gid_tbl_len = device.gids.len() as c_int;
    attr.port_cap_flags = PORT_CAPABILITIES;
    attr.max_msg_sz = MAX_MESSAGE;
    attr.pkey_tbl_len = 1;
    attr.max_vl_num = 1;
    (attr.active_width, attr.active_speed) = (WIDTH, SPEED);
    attr.phys_state = LINK_UP;
    attr.link_layer = IBV_LINK_LAYER_ETHERNET as u8;
    attr
}

/// The largest MTU of RoCE that packets of an interface can hold, as `enum ibv_mtu`. Braid's own
/// packets may be larger.
fn path_mtu(interface: u32) -> u32 {
    let payload = interface.saturating_sub(HEADERS);
    (1..=5).rev().find(|mtu| 128 << mtu <= payload).unwrap_or(1)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_gid(
    context: *mut ibv_context,
    port: u8,
    index: c_int,
    gid: *mut ibv_gid,
) -> c_int {
    errno::number(|| {
        // SAFETY: by the caller's promise.
        let (context, gid) = unsafe { (Context::of(context)?, gid.as_mut()) };
        let index = usize::try_from(index).map_err(|_| Errno::INVALID)?;
        let entry = context.open.device.gids.get(index).filter(|_| port == 1);
        *gid.ok_or(Errno::INVALID)? = entry.ok_or(Errno::INVALID)?;
        Ok(0)
    })
}

fn gid_entries(device: &Device) -> impl Iterator<Item = ibv_gid_entry> {
    device.gids.all().zip(0..).map(|(gid, gid_index)| ibv_gid_entry {
        gid,
        gid_index,
        port_num: 1,
        gid_type: IBV_GID_TYPE_ROCE_V2,
        ndev_ifindex: device.interface.index,
    })
}

/// Returns an entry of the GID table. `ENODATA`: the table has no such entry.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _ibv_query_gid_ex(
    context: *mut ibv_context,
    port: u32,
    index: u32,
    entry: *mut ibv_gid_entry,
    flags: u32,
    size: usize,
) -> c_int {
    errno::code(|| {
        // SAFETY: by the caller's promise.
        let context = unsafe { Context::of(context) }?;
        if port != 1 || flags != 0 || entry.is_null() {
            return Err(Errno::INVALID);
        }
        let found = gid_entries(context.open.device).nth(index as usize);
        // SAFETY: as above.
        unsafe { put(&found.ok_or(Errno(libc::ENODATA))?, entry.cast(), size) };
        Ok(())
    })
}

/// Returns the number of entries, or a negative errno value: `EINVAL` if the array is too short.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _ibv_query_gid_table(
    context: *mut ibv_context,
    entries: *mut ibv_gid_entry,
    count: usize,
    flags: u32,
    size: usize,
) -> isize {
    let mut len = 0;
    let code = errno::code(|| {
        // SAFETY: by the caller's promise.
        let device = unsafe { Context::of(context) }?.open.device;
        len = device.gids.len();
        if flags != 0 || entries.is_null() || count < len {
            return Err(Errno::INVALID);
        }
        for (index, entry) in gid_entries(device).enumerate() {
            // SAFETY: as above; each entry has `size` bytes.
            unsafe { put(&entry, entries.byte_add(index * size).cast(), size) };
        }
        Ok(())
    });
    if code == 0 { len as isize } else { -(code as isize) }
}

/// Returns the type of a GID, for `ibv_devinfo`, which asks as [the providers](crate::providers)
/// do.
///
/// # Safety
/// The caller's promise.
pub(crate) unsafe fn gid_type(
    context: *mut ibv_context,
    port: u8,
    index: c_uint,
    kind: *mut c_uint,
) -> c_int {
    errno::number(|| {
        // SAFETY: by the caller's promise.
        let (context, kind) = unsafe { (Context::of(context)?, kind.as_mut()) };
        let is_known = port == 1 && context.open.device.gids.get(index as usize).is_some();
        let kind = kind.filter(|_| is_known).ok_or(Errno::INVALID)?;
        *kind = IBV_GID_TYPE_SYSFS_ROCE_V2;
        Ok(0)
    })
}

/// Returns the only P_Key of the port, in network byte order.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_pkey(
    _context: *mut ibv_context,
    port: u8,
    index: c_int,
    pkey: *mut u16,
) -> c_int {
    errno::number(|| {
        // SAFETY: by the caller's promise.
        let pkey = unsafe { pkey.as_mut() }.ok_or(Errno::INVALID)?;
        if port != 1 || index != 0 {
            return Err(Errno::INVALID);
        }
        *pkey = P_KEY.to_be();
        Ok(0)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_get_pkey_index(_context: *mut ibv_context, port: u8, pkey: u16) -> c_int {
    errno::number(|| match (port, u16::from_be(pkey)) {
        (1, P_KEY) => Ok(0),
        _ => Err(Errno::INVALID),
    })
}

/// `verbs_context.query_rt_values`: the device has no clock.
pub(crate) extern "C" fn query_rt_values(_: *mut ibv_context, _: *mut c_void) -> c_int {
    errno::code(|| Err(Errno::UNSUPPORTED))
}
