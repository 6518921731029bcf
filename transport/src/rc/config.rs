//! The peer's end of a connection, which both applications agree on by other means.

use std::fmt;
use std::time::Duration;

use braid_cc::ReactionPointConfig;
use braid_wire::QpId;

/// The number of payload bytes of a full packet (IBTA vol. 1, 9.6), the same at both ends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u16)]
pub enum RoceMtu {
    /// 256 bytes.
    B256 = 256,
    /// 512 bytes.
    B512 = 512,
    /// 1024 bytes.
    B1024 = 1024,
    /// 2048 bytes.
    B2048 = 2048,
    /// 4096 bytes.
    B4096 = 4096,
}

impl RoceMtu {
    /// All sizes, smallest first.
    pub const ALL: [RoceMtu; 5] =
        [RoceMtu::B256, RoceMtu::B512, RoceMtu::B1024, RoceMtu::B2048, RoceMtu::B4096];

    /// Bytes of headers, padding and ICRC that a datagram has beside the payload, at most.
    pub const OVERHEAD: usize = 12 + 16 + 4 + 4;

    /// Returns the size in bytes.
    pub const fn bytes(self) -> u32 {
        self as u32
    }

    /// Returns the size of this number of bytes. `None`: there is no such size.
    pub fn from_bytes(bytes: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|mtu| mtu.bytes() == bytes)
    }

    /// Returns the size of a code of `enum ibv_mtu`, as verbs and CM messages have it: 1 to 5.
    /// `None`: there is no such code.
    pub fn from_code(code: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|mtu| mtu.code() == code)
    }

    /// Returns the code of the size, see [`RoceMtu::from_code`].
    pub const fn code(self) -> u32 {
        self.bytes().ilog2() - 7
    }

    /// Returns the largest size whose datagrams have at most `datagram` bytes. `None`: not even the
    /// smallest fits.
    pub fn within(datagram: usize) -> Option<Self> {
        let fits = |mtu: &RoceMtu| mtu.bytes() as usize + Self::OVERHEAD <= datagram;
        Self::ALL.into_iter().rev().find(fits)
    }
}

impl fmt::Display for RoceMtu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bytes().fmt(f)
    }
}

/// The peer's end of a connection, and the parameters that `ibv_modify_qp`(3) sets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RcRemote {
    /// The peer's queue pair number.
    pub qp: QpId,
    /// The first PSN that this end sends (24 bits).
    pub send_psn: u32,
    /// The first PSN that the peer sends (24 bits).
    pub recv_psn: u32,
    /// The path MTU.
    pub mtu: RoceMtu,
    /// READs and atomics that this end may have outstanding at the peer (`max_rd_atomic`). At least
    /// 1.
    pub max_rd_atomic: u8,
    /// Time without an acknowledgement after which packets are sent again (`timeout`).
    pub ack_timeout: Duration,
    /// Number of retries without progress after which the queue pair fails (`retry_cnt`).
    pub retry_count: u8,
    /// Number of packets that this end may have in flight, at least 1. rxe has 128.
    pub window: u16,
    /// DCQCN. `None`: only the window limits this end, and its packets leave without ECN.
    pub dcqcn: Option<ReactionPointConfig>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_verbs() {
        let sizes: Vec<_> =
            (0..8).map(|code| RoceMtu::from_code(code).map(RoceMtu::bytes)).collect();
        let known = [256, 512, 1024, 2048, 4096].map(Some);
        assert_eq!(sizes, [&[None][..], &known, &[None; 2]].concat());
        assert!(RoceMtu::ALL.iter().all(|mtu| RoceMtu::from_code(mtu.code()) == Some(*mtu)));
        assert_eq!(RoceMtu::from_code(u32::MAX), None);
    }
}
