//! The memory that Themis needs in an edge switch (Themis, section 4).

use crate::time::{Ps, Rate};

/// The inputs of the memory requirement of an edge switch (Themis, table 1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ThemisMemory {
    /// Number of equal routes between two interfaces.
    pub paths: u64,
    /// Speed of the last hop.
    pub bandwidth: Rate,
    /// Round trip of the last hop.
    pub last_hop_rtt: Ps,
    /// Number of interfaces below the switch.
    pub nics: u64,
    /// Number of queue pairs of each interface that lead to other switches.
    pub queue_pairs_per_nic: u64,
    /// Bytes of a full packet.
    pub mtu: u64,
    /// The capacity of the PSN ring, in hundredths of the last hop's bandwidth-delay product.
    pub expansion_percent: u64,
}

/// The change of the UDP source port for a route.
const PATH_ENTRY_BYTES: u64 = 2;
/// Queue pair 13, blocked ePSN 3, its validity 1, index in the ring 3.
const FLOW_ENTRY_BYTES: u64 = 20;
/// A PSN, truncated to the bits that distinguish those in the ring.
const RING_ENTRY_BYTES: u64 = 1;

impl ThemisMemory {
    /// The paper's example: a fat tree of 32-port switches at 400 Gb/s.
    pub const EXAMPLE: ThemisMemory = ThemisMemory {
        paths: 256,
        bandwidth: Rate::from_gbps(400),
        last_hop_rtt: Ps::from_micros(2),
        nics: 16,
        queue_pairs_per_nic: 100,
        mtu: 1500,
        expansion_percent: 150,
    };

    /// Returns the number of PSNs in the ring of a queue pair: N_entries.
    pub fn ring_entries(&self) -> u64 {
        let bit_ps = u128::from(self.bandwidth.bps()) * u128::from(self.last_hop_rtt.0);
        let most = bit_ps * u128::from(self.expansion_percent);
        let per_entry = u128::from(self.mtu) * 8 * 1_000_000_000_000 * 100;
        u64::try_from(most.div_ceil(per_entry)).unwrap_or(u64::MAX)
    }

    /// Returns the bytes for a queue pair: M_QP.
    pub fn queue_pair_bytes(&self) -> u64 {
        FLOW_ENTRY_BYTES + self.ring_entries() * RING_ENTRY_BYTES
    }

    /// Returns the bytes for the switch: M_total (Themis, Eq. 4).
    pub fn total_bytes(&self) -> u64 {
        let flows = self.queue_pairs_per_nic * self.nics;
        self.paths * PATH_ENTRY_BYTES + self.queue_pair_bytes() * flows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_example_needs_193_kb() {
        let example = ThemisMemory::EXAMPLE;
        assert_eq!((example.ring_entries(), example.queue_pair_bytes()), (100, 120));
        assert_eq!(example.total_bytes(), 192_512);
    }

    #[test]
    fn a_ring_is_rounded_up() {
        let one_more = ThemisMemory { mtu: 1499, ..ThemisMemory::EXAMPLE };
        assert_eq!(one_more.ring_entries(), 101);
        let jumbo = ThemisMemory { mtu: 4158, ..ThemisMemory::EXAMPLE };
        assert_eq!(jumbo.ring_entries(), 37);
    }
}
