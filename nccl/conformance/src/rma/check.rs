//! A check of the RMA tables.

use super::rank::Rank;
use crate::pair::{self, Verdict};

/// One check.
pub(crate) struct RmaCheck {
    pub(crate) name: &'static str,
    pub(super) ranks: usize,
    /// Whether memory is that of a GPU.
    pub(crate) needs_gpu: bool,
    /// Whether rank 1 has the other table: v13 with v14.
    pub(super) mixes_tables: bool,
    /// The rank that ends in the middle, and is not asked for its result.
    pub(super) dies: Option<usize>,
    /// Variables for the plugin, beside `BRAID_IFNAME` and `BRAID_DATAPATH`.
    pub(crate) env: &'static [(&'static str, &'static str)],
    /// The check injects faults into datagrams.
    pub(crate) udp_only: bool,
    pub(crate) picks_devices: bool,
    pub(super) run: fn(&Rank) -> Verdict,
}

impl RmaCheck {
    pub(super) const fn new(name: &'static str, ranks: usize, run: fn(&Rank) -> Verdict) -> Self {
        RmaCheck {
            name,
            ranks,
            needs_gpu: false,
            mixes_tables: false,
            dies: None,
            env: &[],
            udp_only: false,
            picks_devices: false,
            run,
        }
    }

    pub(super) const fn on_gpu(mut self) -> Self {
        self.needs_gpu = true;
        self
    }

    pub(super) const fn mixes_tables(mut self) -> Self {
        self.mixes_tables = true;
        self
    }

    pub(super) const fn dies(mut self, rank: usize) -> Self {
        self.dies = Some(rank);
        self
    }

    pub(super) const fn with(mut self, env: &'static [(&'static str, &'static str)]) -> Self {
        self.env = env;
        self
    }

    pub(super) const fn udp_only(mut self) -> Self {
        self.udp_only = true;
        self
    }

    pub(super) const fn picks_devices(mut self) -> Self {
        self.picks_devices = true;
        self
    }
}

/// Bytes that differ by place and seed.
pub(super) fn pattern(seed: u64, len: usize) -> Vec<u8> {
    (0..len).map(|place| pair::pattern(place, seed)).collect()
}
