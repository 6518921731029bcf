//! `ncclNetPlugin_v9`: NCCL 2.24 and 2.25. Sizes of messages are `size_t`; devices may be virtual ones; longest messages are told.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use super::boundary::{boundary, place};
use super::calls::{self, profiled};
use super::describe::{MAX_BYTES, properties};
use super::virtual_device::make_v_device;
use super::{Code, DEVICE_HOST, DEVICE_VERSION, Logger, NAME, export};

/// `ncclNetVDeviceProps_v9_t`.
pub type VirtualDevice = super::VirtualDevice<4>;

/// `ncclNetProperties_v9_t`.
#[repr(C)]
#[derive(Debug)]
pub struct Properties {
    /// The name, for logs.
    pub name: *mut c_char,
    /// In /sys; NULL: no PCI device.
    pub pci_path: *mut c_char,
    /// Differs between network interfaces.
    pub guid: u64,
    /// 1: host memory only.
    pub ptr_support: c_int,
    /// 1: memory is registered for all communicators at once.
    pub reg_is_global: c_int,
    /// 1: receives into GPU memory need a flush.
    pub force_flush: c_int,
    /// Mbit/s.
    pub speed: c_int,
    /// Number of the port.
    pub port: c_int,
    /// Microseconds; 0: not known.
    pub latency: f32,
    /// Most communicators.
    pub max_comms: c_int,
    /// Most buffers of a receive.
    pub max_recvs: c_int,
    /// 0: the host does the network's work.
    pub net_device_type: c_int,
    /// 0: none.
    pub net_device_version: c_int,
    /// What it is made of; itself alone, unless `makeVDevice` made it.
    pub v_props: VirtualDevice,
    /// Longest message between two ranks.
    pub max_p2p_bytes: usize,
    /// Longest message of a collective.
    pub max_coll_bytes: usize,
}

/// `ncclNet_v9_t`. NCCL's header says what each function does.
#[repr(C)]
#[allow(missing_docs, reason = "the names are NCCL's")]
pub struct Net {
    pub name: *const c_char,
    pub init: unsafe extern "C" fn(Option<Logger>) -> Code,
    pub devices: unsafe extern "C" fn(*mut c_int) -> Code,
    pub get_properties: unsafe extern "C" fn(c_int, *mut Properties) -> Code,
    pub listen: unsafe extern "C" fn(c_int, *mut c_void, *mut *mut c_void) -> Code,
    pub connect:
        unsafe extern "C" fn(c_int, *mut c_void, *mut *mut c_void, *mut *mut c_void) -> Code,
    pub accept: unsafe extern "C" fn(*mut c_void, *mut *mut c_void, *mut *mut c_void) -> Code,
    pub reg_mr:
        unsafe extern "C" fn(*mut c_void, *mut c_void, usize, c_int, *mut *mut c_void) -> Code,
    pub reg_mr_dma_buf: Option<
        unsafe extern "C" fn(
            *mut c_void,
            *mut c_void,
            usize,
            c_int,
            u64,
            c_int,
            *mut *mut c_void,
        ) -> Code,
    >,
    pub dereg_mr: unsafe extern "C" fn(*mut c_void, *mut c_void) -> Code,
    pub isend: unsafe extern "C" fn(
        *mut c_void,
        *mut c_void,
        usize,
        c_int,
        *mut c_void,
        *mut *mut c_void,
    ) -> Code,
    pub irecv: unsafe extern "C" fn(
        *mut c_void,
        c_int,
        *mut *mut c_void,
        *mut usize,
        *mut c_int,
        *mut *mut c_void,
        *mut *mut c_void,
    ) -> Code,
    pub iflush: unsafe extern "C" fn(
        *mut c_void,
        c_int,
        *mut *mut c_void,
        *mut c_int,
        *mut *mut c_void,
        *mut *mut c_void,
    ) -> Code,
    pub test: unsafe extern "C" fn(*mut c_void, *mut c_int, *mut c_int) -> Code,
    pub close_send: unsafe extern "C" fn(*mut c_void) -> Code,
    pub close_recv: unsafe extern "C" fn(*mut c_void) -> Code,
    pub close_listen: unsafe extern "C" fn(*mut c_void) -> Code,
    pub get_device_mr:
        Option<unsafe extern "C" fn(*mut c_void, *mut c_void, *mut *mut c_void) -> Code>,
    pub irecv_consumed: Option<unsafe extern "C" fn(*mut c_void, c_int, *mut c_void) -> Code>,
    pub make_v_device: Option<unsafe extern "C" fn(*mut c_int, *mut VirtualDevice) -> Code>,
}
export!(Net);

/// What NCCL looks for.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "the name is NCCL's")]
pub static ncclNetPlugin_v9: Net = Net {
    name: NAME,
    init,
    devices: calls::devices,
    get_properties,
    listen: calls::listen_process,
    connect: calls::connect_process,
    accept: calls::accept,
    reg_mr: calls::reg_mr,
    reg_mr_dma_buf: None,
    dereg_mr: calls::dereg_mr,
    isend,
    irecv,
    iflush: calls::iflush,
    test: calls::test,
    close_send: calls::close,
    close_recv: calls::close,
    close_listen: calls::close_listen,
    get_device_mr: None,
    irecv_consumed: None,
    make_v_device: Some(make_v_device),
};

unsafe extern "C" fn init(logger: Option<Logger>) -> Code {
    calls::init_process(logger, None)
}

unsafe extern "C" fn get_properties(dev: c_int, props: *mut Properties) -> Code {
    boundary("getProperties", || {
        let props = place(props, "props")?;
        let known = properties(dev)?;
        let filled = Properties {
            name: known.name,
            pci_path: known.pci_path,
            guid: known.guid,
            ptr_support: known.ptr_support,
            reg_is_global: 0,
            force_flush: 0,
            speed: known.speed,
            port: known.port,
            latency: known.latency,
            max_comms: known.max_comms,
            max_recvs: known.max_recvs,
            net_device_type: DEVICE_HOST,
            net_device_version: DEVICE_VERSION,
            v_props: VirtualDevice::of(&known.members)?,
            max_p2p_bytes: MAX_BYTES,
            max_coll_bytes: MAX_BYTES,
        };
        // SAFETY: NCCL gives a place for the properties of this version.
        unsafe { props.write(filled) };
        Ok(())
    })
}

unsafe extern "C" fn isend(
    comm: *mut c_void,
    data: *mut c_void,
    size: usize,
    tag: c_int,
    mhandle: *mut c_void,
    request: *mut *mut c_void,
) -> Code {
    // SAFETY: NCCL's pointers, as `profiled::isend` wants them; it takes a NULL handle of the profiler.
    unsafe { profiled::isend(comm, data, size, tag, mhandle, ptr::null_mut(), request) }
}

unsafe extern "C" fn irecv(
    comm: *mut c_void,
    n: c_int,
    data: *mut *mut c_void,
    sizes: *mut usize,
    tags: *mut c_int,
    mhandles: *mut *mut c_void,
    request: *mut *mut c_void,
) -> Code {
    // SAFETY: as above.
    unsafe { profiled::irecv(comm, n, data, sizes, tags, mhandles, ptr::null_mut(), request) }
}
