//! NVLink: what a GPU sends by another GPU's interface, or gets by one, crosses the domain first.
//!
//! Each GPU has a link into the domain's switch and one out of it; the switch itself is never a bottleneck. An interface
//! that is ahead of a GPU's link waits for it, as it reads from that GPU's memory; what arrives waits behind what
//! came before it, and is acknowledged once it is in its GPU's memory. Crossing an idle link takes no time.

use std::collections::HashMap;

use braid_wire::DataHeader;

use super::memory::message_at;
use crate::packet::Packet;
use crate::time::{Ps, Rate};
use crate::workload::Workload;

/// The links inside domains. A GPU is known by the number of its own interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NvLink {
    /// Of each GPU's link, in either direction.
    pub rate: Rate,
    /// By the messages' groups: from which GPU to which they go.
    pub flows: Vec<(u32, u32)>,
}

/// How far an interface may be ahead of a GPU's link: what it has read before.
const AHEAD_BYTES: u32 = 64 << 10;

/// The links at work.
#[derive(Debug)]
pub(crate) struct NvLinks {
    rate: Rate,
    /// By message: from which GPU to which.
    gpus: Vec<(u32, u32)>,
    /// By GPU: until when its link out is busy.
    out: HashMap<u32, Ps>,
    /// Its link in.
    inward: HashMap<u32, Ps>,
}

impl NvLinks {
    pub(crate) fn new(plan: &NvLink, workload: &Workload) -> Self {
        let of = |group: u32| plan.flows[group as usize];
        let gpus = workload.messages.iter().map(|message| of(message.group)).collect();
        NvLinks { rate: plan.rate, gpus, out: HashMap::new(), inward: HashMap::new() }
    }

    /// An interface has read a packet of a message. When it may read the next.
    pub(crate) fn leave(&mut self, now: Ps, nic: u32, message: u32, bytes: u32) -> Ps {
        let (gpu, _) = self.gpus[message as usize];
        if gpu == nic {
            return now;
        }
        let free = self.out.entry(gpu).or_insert(Ps::ZERO);
        *free = now.max(*free) + self.rate.time_for(bytes);
        Ps(free.0.saturating_sub(self.rate.time_for(AHEAD_BYTES).0)).max(now)
    }

    /// When a packet that has come to an interface is in its GPU's memory; `None`: it is now.
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
    use crate::workload::{Message, Start};

    fn links() -> NvLinks {
        let message = |group| Message {
            src: 1,
            dst: 5,
            bytes: 1000,
            start: Start::At(Ps::ZERO),
            queue: 0,
            group,
        };
        let workload = Workload { messages: vec![message(0), message(1)] };
        let plan = NvLink { rate: Rate::from_gbps(800), flows: vec![(1, 5), (0, 4)] };
        NvLinks::new(&plan, &workload)
    }

    #[test]
    fn a_gpus_own_interface_needs_no_link() {
        let now = Ps::from_micros(7);
        let mut links = links();
        assert!((0..1000).all(|_| links.leave(now, 1, 0, 4096) == now));
    }

    /// 800 Gb/s are 100 bytes a nanosecond.
    #[test]
    fn who_is_ahead_of_the_link_waits() {
        let now = Ps::from_micros(7);
        let mut links = links();
        let may: Vec<Ps> = (0..20).map(|_| links.leave(now, 1, 1, 10_000)).collect();
        assert_eq!(may[5], now, "what it has read before");
        assert_eq!(may[19].0 - may[9].0, 1_000_000, "then 100 ns for each");
    }
}
