//! NVLink: traffic between a GPU and another GPU's interface crosses the NVLink domain.
//!
//! Each GPU has a link into the domain's switch and one out of it. The switch itself is never a
//! bottleneck. An interface reads from a GPU's memory no faster than that GPU's link. Packets that
//! arrive queue for the link of their GPU, and are acknowledged once they are in its memory.
//! Crossing an idle link takes no time.

use std::collections::HashMap;

use braid_wire::DataHeader;

use super::memory::message_at;
use crate::packet::Packet;
use crate::time::{Ps, Rate};

/// The NVLink plan of a host. A GPU has the number of its own interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NvLink {
    /// The rate of each GPU's link, in either direction.
    pub rate: Rate,
    /// The source and destination GPU of each message.
    pub gpus: Vec<(u32, u32)>,
}

/// Number of bytes that an interface may read ahead of a GPU's link.
const AHEAD_BYTES: u32 = 64 << 10;

/// The state of the links.
#[derive(Debug)]
pub(crate) struct NvLinks {
    rate: Rate,
    /// The source and destination GPU of each message.
    gpus: Vec<(u32, u32)>,
    /// By GPU: the time until which its outgoing link is busy.
    out: HashMap<u32, Ps>,
    /// By GPU: the time until which its incoming link is busy.
    inward: HashMap<u32, Ps>,
}

impl NvLinks {
    pub(crate) fn new(plan: NvLink) -> Self {
        let NvLink { rate, gpus } = plan;
        NvLinks { rate, gpus, out: HashMap::new(), inward: HashMap::new() }
    }

    /// Records that an interface has read a packet of a message. Returns the time at which it may
    /// read the next.
    pub(crate) fn leave(&mut self, now: Ps, nic: u32, message: u32, bytes: u32) -> Ps {
        let (gpu, _) = self.gpus[message as usize];
        if gpu == nic {
            return now;
        }
        let free = self.out.entry(gpu).or_insert(Ps::ZERO);
        *free = now.max(*free) + self.rate.time_for(bytes);
        Ps(free.0.saturating_sub(self.rate.time_for(AHEAD_BYTES).0)).max(now)
    }

    /// Returns the time at which a packet that has reached an interface is in its GPU's memory.
    /// `None`: at once.
    pub(crate) fn enter(&mut self, now: Ps, packet: &Packet, header: &DataHeader) -> Option<Ps> {
        let (_, gpu) = self.gpus[message_at(header.address) as usize];
        if gpu == packet.dst || packet.trimmed {
            return None;
        }
        let free = self.inward.entry(gpu).or_insert(Ps::ZERO);
        let begins = now.max(*free);
        *free = begins + self.rate.time_for(packet.bytes);
        (begins > now).then_some(begins)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links() -> NvLinks {
        NvLinks::new(NvLink { rate: Rate::from_gbps(800), gpus: vec![(1, 5), (0, 4)] })
    }

    #[test]
    fn a_gpus_own_interface_needs_no_link() {
        let now = Ps::from_micros(7);
        let mut links = links();
        assert!((0..1000).all(|_| links.leave(now, 1, 0, 4096) == now));
    }

    /// 800 Gb/s are 100 bytes per nanosecond.
    #[test]
    fn an_interface_that_reads_ahead_waits_for_the_link() {
        let now = Ps::from_micros(7);
        let mut links = links();
        let may: Vec<Ps> = (0..20).map(|_| links.leave(now, 1, 1, 10_000)).collect();
        assert_eq!(may[5], now, "what it has read before");
        assert_eq!(may[19].0 - may[9].0, 1_000_000, "then 100 ns for each");
    }
}
