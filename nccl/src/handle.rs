//! The 128 bytes that a listening rank hands to the rank that connects to it.
//!
//! | bytes | |
//! |---|---|
//! | 0..8 | `BraidNet`, or `BraidRma` for the RMA tables |
//! | 8..10 | version of this layout and of the greeting, little-endian |
//! | 10..12 | UDP port |
//! | 12 | 4 or 6 |
//! | 13 | version of the RMA table, 0 in handles of the net tables |
//! | 16..32 | IP address |
//! | 40..48 | number of the listening communicator |
//! | 48..56 | check of the bytes before |
//! | 64..72 | the connecting side's own: its attempt under way, 0 at first |

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// `NCCL_NET_HANDLE_MAXSIZE`.
pub(crate) const HANDLE_LEN: usize = 128;

/// The version of handle and greeting.
pub(crate) const VERSION: u16 = 1;
const MAGIC: &[u8; 8] = b"BraidNet";
const RMA_MAGIC: &[u8; 8] = b"BraidRma";
/// The place of the version of the RMA table.
const TABLE: usize = 13;
const CHECKED: usize = 48;
const ATTEMPT: std::ops::Range<usize> = 64..72;

/// Bytes that are not a handle of this plugin.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum HandleError {
    #[error("the handle does not belong to this plugin; set NCCL_NET=Braid on all ranks")]
    Foreign,
    #[error(
        "the handle does not belong to the RMA tables of this plugin; set NCCL_RMA_PLUGIN, or NCCL_NET_PLUGIN, to the same file on all ranks"
    )]
    NotRma,
    #[error(
        "the handle has version {found}, this plugin has {VERSION}; use the same build on all hosts"
    )]
    Version { found: u16 },
    #[error("the handle is damaged")]
    Damaged,
    #[error("the handle belongs to an unknown connection attempt")]
    Attempt,
}

/// The address of a listening communicator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Address {
    pub(crate) engine: SocketAddr,
    /// The listening communicator of the engine.
    pub(crate) listener: u64,
}

impl Address {
    /// Returns a new handle without an attempt.
    pub(crate) fn to_handle(self) -> [u8; HANDLE_LEN] {
        self.to_bytes(MAGIC, 0)
    }

    /// Returns a new handle for the RMA table of this version.
    pub(crate) fn to_rma_handle(self, table: u8) -> [u8; HANDLE_LEN] {
        self.to_bytes(RMA_MAGIC, table)
    }

    fn to_bytes(self, magic: &[u8; 8], table: u8) -> [u8; HANDLE_LEN] {
        let mut bytes = [0; HANDLE_LEN];
        bytes[..8].copy_from_slice(magic);
        bytes[TABLE] = table;
        bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
        bytes[10..12].copy_from_slice(&self.engine.port().to_le_bytes());
        match self.engine {
            SocketAddr::V4(addr) => {
                bytes[12] = 4;
                bytes[16..20].copy_from_slice(&addr.ip().octets());
            }
            SocketAddr::V6(addr) => {
                bytes[12] = 6;
                bytes[16..32].copy_from_slice(&addr.ip().octets());
            }
        }
        bytes[40..48].copy_from_slice(&self.listener.to_le_bytes());
        let check = fnv(&bytes[..CHECKED]);
        bytes[CHECKED..CHECKED + 8].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    /// Reads a handle that came from another rank.
    ///
    /// # Errors
    /// See [`HandleError`].
    pub(crate) fn from_handle(bytes: &[u8; HANDLE_LEN]) -> Result<Self, HandleError> {
        if !bytes.starts_with(MAGIC) {
            return Err(HandleError::Foreign);
        }
        Address::from_bytes(bytes)
    }

    /// Reads a handle of an RMA table. Returns the version of that table, too.
    ///
    /// # Errors
    /// See [`HandleError`].
    pub(crate) fn from_rma_handle(bytes: &[u8; HANDLE_LEN]) -> Result<(Self, u8), HandleError> {
        if !bytes.starts_with(RMA_MAGIC) {
            return Err(HandleError::NotRma);
        }
        Ok((Address::from_bytes(bytes)?, bytes[TABLE]))
    }

    fn from_bytes(bytes: &[u8; HANDLE_LEN]) -> Result<Self, HandleError> {
        let version = u16::from_le_bytes(array(&bytes[8..10]));
        if version != VERSION {
            return Err(HandleError::Version { found: version });
        }
        if fnv(&bytes[..CHECKED]) != word(bytes, CHECKED) {
            return Err(HandleError::Damaged);
        }
        let port = u16::from_le_bytes(array(&bytes[10..12]));
        let engine = match bytes[12] {
            4 => {
                let ip: IpAddr = Ipv4Addr::from(array::<4>(&bytes[16..20])).into();
                SocketAddr::new(ip, port)
            }
            6 => {
                let ip: IpAddr = Ipv6Addr::from(array::<16>(&bytes[16..32])).into();
                SocketAddr::new(ip, port)
            }
            _ => return Err(HandleError::Damaged),
        };
        Ok(Address { engine, listener: word(bytes, 40) })
    }
}

/// Returns the attempt of this handle, or 0 if there is none.
pub(crate) fn attempt(bytes: &[u8; HANDLE_LEN]) -> u64 {
    word(bytes, ATTEMPT.start)
}

/// Stores the attempt in the handle.
pub(crate) fn set_attempt(bytes: &mut [u8; HANDLE_LEN], attempt: u64) {
    bytes[ATTEMPT].copy_from_slice(&attempt.to_le_bytes());
}

fn word(bytes: &[u8; HANDLE_LEN], at: usize) -> u64 {
    u64::from_le_bytes(array(&bytes[at..at + 8]))
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.try_into().expect("the range has this length")
}

/// FNV-1a: detects damage, but no manipulation.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(engine: &str) -> Address {
        Address { engine: engine.parse().unwrap(), listener: 0x0123_4567_89ab_cdef }
    }

    #[test]
    fn both_families_survive_the_journey() {
        for engine in ["10.1.2.3:4791", "[fd00::7]:65535"] {
            let mut handle = address(engine).to_handle();
            assert_eq!(attempt(&handle), 0);
            set_attempt(&mut handle, 42);
            assert_eq!(attempt(&handle), 42);
            assert_eq!(Address::from_handle(&handle), Ok(address(engine)));
        }
    }

    #[test]
    fn handles_of_the_tables_are_told_apart() {
        let there = address("10.1.2.3:4791");
        let (net, rma) = (there.to_handle(), there.to_rma_handle(14));
        assert_eq!(Address::from_rma_handle(&rma), Ok((there, 14)));
        assert_eq!(Address::from_rma_handle(&net), Err(HandleError::NotRma));
        assert_eq!(Address::from_handle(&rma), Err(HandleError::Foreign));
        let mut damaged = rma;
        damaged[TABLE] = 13;
        assert_eq!(Address::from_rma_handle(&damaged), Err(HandleError::Damaged));
    }

    #[test]
    fn foreign_old_and_damaged_handles_are_told_apart() {
        let good = address("10.1.2.3:4791").to_handle();
        assert_eq!(Address::from_handle(&[7; HANDLE_LEN]), Err(HandleError::Foreign));
        let mut other = good;
        other[8] = 9;
        assert_eq!(Address::from_handle(&other), Err(HandleError::Version { found: 9 }));
        for at in 10..48 {
            let mut damaged = good;
            damaged[at] ^= 1;
            assert_eq!(Address::from_handle(&damaged), Err(HandleError::Damaged));
        }
    }
}
