//! The address of a connection on an RNIC.

use zerocopy::byteorder::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::routing::{MAX_ROUTING_LEN, RAIL_LEN};
use crate::{DecodeError, MAX_RAILS};

const VERSION: u8 = 2;
/// Length of an encoded queue pair number in bytes.
const NUMBER_LEN: usize = 3;

/// Returns the maximum number of NIC queue pairs per rail of a connection, including the safe one.
///
/// The addresses of all rails fit one set-up packet. For 1 to 8 rails the result is 194, 88, 53,
/// 35, 25, 18, 12 and 9.
///
/// # Panics
/// If `rails` is 0 or exceeds [`MAX_RAILS`].
pub const fn max_nic_qps(rails: usize) -> usize {
    assert!(0 < rails && rails <= MAX_RAILS, "a connection has 1 to 8 rails");
    let room = (MAX_ROUTING_LEN - (rails - 1) * RAIL_LEN) / rails;
    (room - size_of::<RawAddress>()) / NUMBER_LEN
}

/// The transport service of a connection's NIC queue pairs (IBTA vol. 1, 9.7 and 9.8).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Service {
    /// Unreliable connection.
    Uc = 0,
    /// Reliable connection.
    Rc = 1,
}

/// The address of a connection on one rail.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NicAddress {
    /// The service of the NIC queue pairs.
    pub service: Service,
    /// Path MTU of the port, in bytes.
    pub mtu: u16,
    /// The UD queue pair for acknowledgements, control packets and notes.
    pub control: u32,
    /// The Q_Key of the UD queue pair.
    pub qkey: u32,
    /// First PSN of every NIC queue pair.
    pub psn: u32,
    /// Number of segments per stream for which receive buffers exist on all NIC queue pairs
    /// together. Not 0.
    pub credits: u16,
    /// The GID of the port.
    pub gid: [u8; 16],
    /// NIC queue pair numbers by path. The last one is the safe NIC queue pair.
    pub nic_qps: Vec<u32>,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawAddress {
    version: u8,
    service: u8,
    mtu: U16,
    control: [u8; NUMBER_LEN],
    qkey: U32,
    psn: [u8; NUMBER_LEN],
    gid: [u8; 16],
    credits: U16,
}

fn number(bytes: [u8; NUMBER_LEN]) -> u32 {
    u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]])
}

/// Returns the low 24 bits.
fn number_bytes(number: u32) -> [u8; NUMBER_LEN] {
    let [_, bytes @ ..] = number.to_be_bytes();
    bytes
}

impl NicAddress {
    /// Encodes the address.
    ///
    /// # Panics
    /// If there are more NIC queue pairs than [`max_nic_qps`] permits on one rail. The owner checks
    /// that first.
    pub fn encode(&self) -> Vec<u8> {
        assert!(self.nic_qps.len() <= max_nic_qps(1), "a connection has too many NIC queue pairs");
        let raw = RawAddress {
            version: VERSION,
            service: self.service as u8,
            mtu: U16::new(self.mtu),
            control: number_bytes(self.control),
            qkey: U32::new(self.qkey),
            psn: number_bytes(self.psn),
            gid: self.gid,
            credits: U16::new(self.credits),
        };
        let mut out = raw.as_bytes().to_vec();
        self.nic_qps.iter().for_each(|nic_qp| out.extend_from_slice(&number_bytes(*nic_qp)));
        out
    }

    /// Decodes an address, which must fill `bytes`.
    ///
    /// # Errors
    /// If the version, the length or a value is invalid.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (raw, nic_qps) = RawAddress::ref_from_prefix(bytes)
            .map_err(|_| DecodeError::Short { have: bytes.len(), need: size_of::<RawAddress>() })?;
        if raw.version != VERSION {
            return Err(DecodeError::Version(raw.version));
        }
        let service = match raw.service {
            0 => Service::Uc,
            1 => Service::Rc,
            _ => return Err(DecodeError::Field("service")),
        };
        if raw.credits.get() == 0 {
            return Err(DecodeError::Field("credits"));
        }
        let (nic_qps, rest) = nic_qps.as_chunks::<NUMBER_LEN>();
        if !(2..=max_nic_qps(1)).contains(&nic_qps.len()) || !rest.is_empty() {
            return Err(DecodeError::Length);
        }
        Ok(NicAddress {
            service,
            mtu: raw.mtu.get(),
            control: number(raw.control),
            qkey: raw.qkey.get(),
            psn: number(raw.psn),
            gid: raw.gid,
            credits: raw.credits.get(),
            nic_qps: nic_qps.iter().copied().map(number).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FurtherRail, Routing};

    fn address(nic_qps: usize) -> NicAddress {
        NicAddress {
            service: Service::Rc,
            mtu: 4096,
            control: 0x12_3456,
            qkey: 0x1111_2222,
            psn: 0xAB_CDEF,
            credits: 42,
            gid: [7; 16],
            nic_qps: (0..nic_qps as u32).map(|nic_qp| 0xFF_0000 + nic_qp).collect(),
        }
    }

    #[test]
    fn the_largest_address_has_room_and_comes_back_whole() {
        for nic_qps in [2, 17, max_nic_qps(1)] {
            let bytes = address(nic_qps).encode();
            assert!(bytes.len() <= MAX_ROUTING_LEN);
            assert_eq!(NicAddress::decode(&bytes), Ok(address(nic_qps)));
        }
    }

    #[test]
    fn the_addresses_of_all_rails_fill_a_packet_and_do_not_overflow_it() {
        let most = (1..=MAX_RAILS).map(max_nic_qps).collect::<Vec<_>>();
        assert_eq!(most, [194, 88, 53, 35, 25, 18, 12, 9]);
        for (rails, nic_qps) in (1..).zip(most) {
            let len = |nic_qps| {
                let nic = || address(nic_qps).encode();
                let addr = ([10, 0, 0, 1], 1).into();
                let further = (1..rails).map(|_| FurtherRail { addr, nic: nic() }).collect();
                Routing { nic: nic(), rails: further }.encoded_len()
            };
            assert!(len(nic_qps) <= MAX_ROUTING_LEN, "{rails} rails");
            assert!(rails == 1 || len(nic_qps + 1) > MAX_ROUTING_LEN, "{rails} rails");
        }
    }

    #[test]
    fn an_address_that_cannot_be_is_refused() {
        let good = address(3).encode();
        let spoiled = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            NicAddress::decode(&bytes)
        };
        assert_eq!(spoiled(0, 9), Err(DecodeError::Version(9)));
        assert_eq!(spoiled(1, 2), Err(DecodeError::Field("service")));
        assert_eq!(spoiled(31, 0), Err(DecodeError::Field("credits")));
        let wrong_length = Err(DecodeError::Length);
        let one = NicAddress::decode(&address(1).encode());
        assert_eq!(one, wrong_length, "a path and the safe NIC queue pair at least");
        let mut longest = address(max_nic_qps(1)).encode();
        longest.extend_from_slice(&[0; 3]);
        assert_eq!(NicAddress::decode(&longest), wrong_length, "more than can be told");
        for len in (0..good.len()).filter(|len| *len != good.len() - 3) {
            assert!(NicAddress::decode(&good[..len]).is_err(), "{len} bytes of it");
        }
    }
}
