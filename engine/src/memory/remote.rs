//! The description of a memory region for a peer.

use braid_transport::RemoteAddr;

/// Bytes of an encoded [`RemoteRegion`].
pub const REMOTE_REGION_LEN: usize = 20;

/// A memory region as its owner describes it to a peer, for example as private data of
/// [`crate::QueuePair::connect`].
///
/// ```
/// use braid::RemoteRegion;
///
/// let region = RemoteRegion { addr: 0x7F00_0000_0000, len: 4096, rkey: 9 };
/// let private_data = region.to_bytes(); // travels to the peer
/// let known = RemoteRegion::from_bytes(&private_data).unwrap();
/// assert_eq!(known.at(64).addr, 0x7F00_0000_0040);
/// assert!(RemoteRegion::from_bytes(b"short").is_err());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RemoteRegion {
    /// The address of the first byte at the owner.
    pub addr: u64,
    /// The length in bytes.
    pub len: u64,
    /// The key for access.
    pub rkey: u32,
}

/// The bytes are not a [`RemoteRegion`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "{have} bytes do not name a memory region; RemoteRegion::to_bytes makes {REMOTE_REGION_LEN}"
)]
pub struct MalformedKey {
    /// The number of bytes.
    pub have: usize,
}

impl RemoteRegion {
    /// The address `offset` bytes into the region, for a work request. The owner's engine checks
    /// the bounds of every access, so one out of bounds fails there.
    pub fn at(&self, offset: u64) -> RemoteAddr {
        RemoteAddr { addr: self.addr.wrapping_add(offset), rkey: self.rkey }
    }

    /// Encodes the region, big-endian.
    pub fn to_bytes(&self) -> [u8; REMOTE_REGION_LEN] {
        let mut bytes = [0; REMOTE_REGION_LEN];
        bytes[..8].copy_from_slice(&self.addr.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.len.to_be_bytes());
        bytes[16..].copy_from_slice(&self.rkey.to_be_bytes());
        bytes
    }

    /// Decodes a region from the start of `bytes`.
    ///
    /// # Errors
    /// There are fewer than [`REMOTE_REGION_LEN`] bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, MalformedKey> {
        let short = MalformedKey { have: bytes.len() };
        let (addr, rest) = bytes.split_first_chunk().ok_or(short)?;
        let (len, rest) = rest.split_first_chunk().ok_or(short)?;
        let rkey = rest.first_chunk().ok_or(short)?;
        Ok(RemoteRegion {
            addr: u64::from_be_bytes(*addr),
            len: u64::from_be_bytes(*len),
            rkey: u32::from_be_bytes(*rkey),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn survives_the_journey() {
        let region = RemoteRegion { addr: 0x1234_5678_9ABC, len: 1 << 33, rkey: 0xDEAD_BEEF };
        assert_eq!(RemoteRegion::from_bytes(&region.to_bytes()), Ok(region));
        assert_eq!(RemoteRegion::from_bytes(&[0; 19]), Err(MalformedKey { have: 19 }));
    }
}
