//! Addresses of device memory in the region table.
//!
//! Bit 63 is set, which it is in no address of a process. The bits below name the context, and the
//! rest is the address in the GPU.

use braid_transport::Sge;

/// Set in addresses of device memory.
const DEVICE: u64 = 1 << 63;
/// Bits of an address in the GPU. Processes have addresses of up to 56 bits.
const ADDRESS_BITS: u32 = 57;
/// Contexts that an engine can tell apart.
pub(crate) const MAX_CONTEXTS: usize = 1 << (63 - ADDRESS_BITS);

/// An address of device memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DeviceAddr {
    /// The index of the context.
    pub(crate) context: usize,
    /// The address in the GPU.
    pub(crate) addr: u64,
}

impl DeviceAddr {
    /// The number that stands for the address in the region table.
    pub(crate) fn to_table(self) -> u64 {
        DEVICE | (self.context as u64) << ADDRESS_BITS | self.addr
    }

    /// Returns the address for which a number of the region table stands. `None`: it is an address
    /// of the host.
    #[inline]
    pub(crate) fn from_table(addr: u64) -> Option<Self> {
        is_device(addr).then_some(DeviceAddr {
            context: (addr & !DEVICE) as usize >> ADDRESS_BITS,
            addr: addr & ((1 << ADDRESS_BITS) - 1),
        })
    }
}

/// Whether an address of the region table is one of device memory.
#[inline]
pub(crate) fn is_device(addr: u64) -> bool {
    addr & DEVICE != 0
}

/// Whether one of these pieces, with addresses of the region table, is device memory.
#[inline]
pub(crate) fn has_device(pieces: &[Sge]) -> bool {
    pieces.iter().any(|piece| is_device(piece.addr))
}

/// Returns the address in the GPU or in the host of an address of the region table.
pub(crate) fn address(addr: u64) -> u64 {
    DeviceAddr::from_table(addr).map_or(addr, |device| device.addr)
}

/// Whether device memory may have these addresses.
pub(crate) fn is_possible(addr: u64, len: u64) -> bool {
    addr.checked_add(len).is_some_and(|end| end <= 1 << ADDRESS_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_back_from_the_table() {
        for context in [0, 1, MAX_CONTEXTS - 1] {
            for addr in [1, 0x7F00_0000_1234, (1 << ADDRESS_BITS) - 1] {
                let device = DeviceAddr { context, addr };
                assert!(is_device(device.to_table()));
                assert_eq!(DeviceAddr::from_table(device.to_table()), Some(device));
            }
        }
        assert_eq!(DeviceAddr::from_table(0x7FFF_FFFF_F000), None);
    }

    #[test]
    fn offsets_stay_within_a_context() {
        let start = DeviceAddr { context: 5, addr: 0x7000_0000 };
        let at = DeviceAddr::from_table(start.to_table() + 4096).unwrap();
        assert_eq!(at, DeviceAddr { context: 5, addr: 0x7000_1000 });
        assert!(is_possible(1 << 56, 4096) && !is_possible((1 << 57) - 1, 2));
        assert!(!is_possible(u64::MAX, 1));
    }
}
