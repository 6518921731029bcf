//! The properties of a device, which each version has in a layout of its own.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use super::VirtualDevice;
use super::boundary::{boundary, place};
use crate::comm::MAX_RECVS;
use crate::device::Device;
use crate::error::Error;
use crate::memory::{CUDA_MEMORY, HOST_MEMORY};
use crate::plugin;
use crate::result_code::Code;

/// The longest message, 1 GiB: one WRITE.
const MAX_BYTES: usize = 1 << 30;
/// `NCCL_NET_DEVICE_HOST`: the GPU takes no part in the network.
const DEVICE_HOST: c_int = 0;
/// `NCCL_NET_DEVICE_GIN_PROXY`: kernels queue requests, and a thread of NCCL's passes them on.
const DEVICE_GIN_PROXY: c_int = 2;
/// `NCCL_NET_ID_UNDEF`.
const UNDEFINED_ID: i16 = -1;
/// The version whose properties the RMA tables have.
const RMA_PROPERTIES: u32 = 12;
/// `NCCL_NET_DEVICE_INVALID_VERSION`.
const DEVICE_VERSION: c_int = 0;

/// The value of a field, as C has it.
#[derive(Clone, Copy, Debug)]
enum Value {
    Text(*mut c_char),
    U64(u64),
    Int(c_int),
    Float(f32),
    Short(i16),
    Size(usize),
    Members(VirtualDevice<4>),
    MoreMembers(VirtualDevice<8>),
}

/// Writes the properties of device `dev` in the layout of a version.
///
/// # Safety
/// `props` is NULL or a place for the structure of this version.
pub(super) unsafe extern "C" fn get_properties<const VERSION: u32>(
    dev: c_int,
    props: *mut c_void,
) -> Code {
    // SAFETY: the caller vouches for the place.
    boundary("getProperties", || unsafe { write_properties(VERSION, Tables::Net, dev, props) })
}

/// Writes the properties of device `dev` as the RMA tables have them.
///
/// # Safety
/// As [`get_properties`], for v12.
pub(super) unsafe extern "C" fn get_rma_properties(dev: c_int, props: *mut c_void) -> Code {
    boundary("getProperties", || {
        // SAFETY: the caller vouches for the place.
        unsafe { write_properties(RMA_PROPERTIES, Tables::Rma, dev, props) }
    })
}

/// # Safety
/// As [`get_properties`].
unsafe fn write_properties(
    version: u32,
    tables: Tables,
    dev: c_int,
    props: *mut c_void,
) -> Result<(), Error> {
    let props = place(props, "props")?;
    let plugin = plugin::current()?;
    let fields = fields(version, &Known::of(&*plugin.device(dev)?, tables))?;
    // SAFETY: the caller vouches for the place.
    unsafe { write_all(version, &fields, props) };
    Ok(())
}

/// The kind of tables that a device is described for.
#[derive(Clone, Copy, Debug)]
enum Tables {
    Net,
    Rma,
}

impl Tables {
    /// The memory that can be registered: `ptrSupport`.
    fn memory(self) -> c_int {
        match self {
            Tables::Net => HOST_MEMORY,
            Tables::Rma => HOST_MEMORY | CUDA_MEMORY,
        }
    }

    /// The part of the GPU: `netDeviceType`.
    fn device_type(self) -> c_int {
        match self {
            Tables::Net => DEVICE_HOST,
            Tables::Rma => DEVICE_GIN_PROXY,
        }
    }
}

/// The properties that differ between devices.
struct Known<'a> {
    name: *mut c_char,
    pci_path: *mut c_char,
    guid: u64,
    speed: c_int,
    rail: i16,
    plane: i16,
    members: &'a [usize],
    tables: Tables,
}

impl<'a> Known<'a> {
    fn of(device: &'a Device, tables: Tables) -> Self {
        Known {
            tables,
            name: device.name.as_ptr().cast_mut(),
            pci_path: device.pci_path.map_or(ptr::null_mut(), |path| path.as_ptr().cast_mut()),
            guid: device.guid,
            speed: device.speed,
            // Devices of the same number are on the same rail on every host. Several are on none,
            // as in NCCL's own InfiniBand plugin.
            rail: match device.members[..] {
                [one] => one as i16,
                _ => UNDEFINED_ID,
            },
            plane: device.plane.unwrap_or(UNDEFINED_ID),
            members: &device.members,
        }
    }
}

/// A field, and the first version that has it.
type Field = (u32, Value);

/// The fields of `ncclNetProperties_vN_t` in their order.
///
/// # Errors
/// The device has more members than the version can say.
#[rustfmt::skip]
fn fields(version: u32, known: &Known<'_>) -> Result<[Field; 19], Error> {
    let members = match version {
        ..=8 => Value::Int(0),
        9..=11 => Value::Members(VirtualDevice::of(known.members)?),
        12.. => Value::MoreMembers(VirtualDevice::of(known.members)?),
    };
    Ok([
        (6, Value::Text(known.name)),
        (6, Value::Text(known.pci_path)),
        (6, Value::U64(known.guid)),
        (6, Value::Int(known.tables.memory())), // ptrSupport
        (8, Value::Int(0)), // regIsGlobal: memory is registered for one communicator
        (9, Value::Int(0)), // forceFlush: receives into GPU memory need no flush
        (6, Value::Int(known.speed)), // Mbit/s
        (6, Value::Int(0)), // port
        (6, Value::Float(0.0)), // latency: NCCL takes its own estimate for networks
        (6, Value::Int(65_534)), // maxComms
        (6, Value::Int(MAX_RECVS as c_int)),
        (7, Value::Int(known.tables.device_type())), // netDeviceType
        (7, Value::Int(DEVICE_VERSION)), // netDeviceVersion
        (9, members), // vProps: the device itself, or the devices that makeVDevice combined
        (9, Value::Size(MAX_BYTES)), // maxP2pBytes
        (9, Value::Size(MAX_BYTES)), // maxCollBytes
        (11, Value::Int(1)), // maxMultiRequestSize
        (12, Value::Short(known.rail)), // railId
        (12, Value::Short(known.plane)), // planeId
    ])
}

/// Writes the fields of a version. Returns the offset behind the last.
///
/// # Safety
/// `to` is a place for the structure of this version.
unsafe fn write_all(version: u32, fields: &[Field], to: *mut c_void) -> usize {
    let fields = fields.iter().filter(|(since, _)| *since <= version);
    // SAFETY: the caller vouches for the place.
    fields.fold(0, |offset, (_, value)| unsafe { value.write(to, offset) })
}

impl Value {
    /// Writes a field at the next aligned offset. Returns the offset behind the field.
    ///
    /// # Safety
    /// `to` is a structure that has this field there, and is aligned as its fields are.
    unsafe fn write(self, to: *mut c_void, offset: usize) -> usize {
        // SAFETY: the caller vouches for the place in each case.
        unsafe {
            match self {
                Value::Text(value) => write(to, offset, value),
                Value::U64(value) => write(to, offset, value),
                Value::Int(value) => write(to, offset, value),
                Value::Float(value) => write(to, offset, value),
                Value::Short(value) => write(to, offset, value),
                Value::Size(value) => write(to, offset, value),
                Value::Members(value) => write(to, offset, value),
                Value::MoreMembers(value) => write(to, offset, value),
            }
        }
    }
}

/// # Safety
/// As [`Value::write`].
unsafe fn write<T>(to: *mut c_void, offset: usize, value: T) -> usize {
    let offset = offset.next_multiple_of(align_of::<T>());
    // SAFETY: the caller vouches for the place.
    unsafe { to.byte_add(offset).cast::<T>().write(value) };
    offset + size_of::<T>()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fills the properties of a version. Returns them and their size without the padding at the
    /// end.
    fn filled(version: u32) -> ([u64; 16], usize) {
        filled_for(version, Tables::Net)
    }

    fn filled_for(version: u32, tables: Tables) -> ([u64; 16], usize) {
        let (name, pci_path) = (ptr::dangling_mut(), ptr::null_mut());
        let (guid, speed, rail, plane) = (2, 100, 5, -1);
        let known = Known { name, pci_path, guid, speed, rail, plane, members: &[3], tables };
        let fields = fields(version, &known).expect("one member");
        let mut words = [0; 16];
        // SAFETY: there is room for the longest structure.
        let end = unsafe { write_all(version, &fields, words.as_mut_ptr().cast()) };
        (words, end)
    }

    /// The numbers are those of a C compiler for NCCL's headers on 64-bit Linux.
    #[test]
    fn layouts_are_those_of_the_headers() {
        let sizes = [6, 7, 8, 9, 10, 11, 12].map(|version| filled(version).1.next_multiple_of(8));
        assert_eq!(sizes, [48, 56, 64, 104, 104, 112, 128]);
        let half = |version, offset: usize| {
            let word = filled(version).0[offset / 8].to_ne_bytes();
            u32::from_ne_bytes(word[offset % 8..][..4].try_into().expect("four bytes"))
        };
        for (version, speed) in [(6, 28), (7, 28), (8, 32), (9, 36), (12, 36)] {
            assert_eq!(half(version, speed), 100, "speed of v{version}");
        }
        assert_eq!(half(6, 44), MAX_RECVS as u32);
        assert_eq!(half(9, 64), 1, "vProps.ndevs");
        for (version, offset) in [(9, 88), (9, 96), (11, 96), (12, 104), (12, 112)] {
            assert_eq!(half(version, offset), MAX_BYTES as u32, "at {offset} of v{version}");
        }
        assert_eq!(half(11, 104), 1, "maxMultiRequestSize");
        let rma = filled_for(RMA_PROPERTIES, Tables::Rma).0;
        assert_eq!((rma[3] as u32, (rma[7] >> 32) as u32), (3, 0), "ptrSupport, netDeviceVersion");
        assert_eq!((rma[6] >> 32, rma[7] as u32), (8, 2), "maxRecvs, netDeviceType");
        assert_eq!(half(12, 124), 0xFFFF_0005, "railId and planeId");
    }
}
