//! The plan of an emulated network.

use std::time::Duration;

use super::packet::Packet;
use crate::{FabricError, Rate};

/// The length of the Ethernet header, which packets have on a link only.
pub const HEADER_BYTES: u64 = 14;

const MAX_HOSTS: usize = 64;
const MAX_LINKS: usize = 64;
const MAX_DELAY: Duration = Duration::from_secs(1);
const MTUS: std::ops::RangeInclusive<u32> = 576..=9000;

/// A FIFO queue that drops at its tail, and the wire behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The rate at which the queue drains, with Ethernet headers.
    pub rate: Rate,
    /// Bytes that the queue holds before it drops.
    pub queue: u64,
    /// The delay from the end of the queue to the other end of the link.
    pub delay: Duration,
    /// Bytes in the queue above which ECN-capable packets are marked (RFC 3168).
    pub mark: Option<u64>,
    /// The reordering on the wire.
    pub reordering: Reordering,
    /// The percentage of packets that are lost on the wire, at random.
    pub loss_percent: u32,
}

/// The reordering of packets of one flow behind the queue, as on aggregated links and in fabrics
/// that spray.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Reordering {
    /// No reordering.
    #[default]
    None,
    /// The delay of each packet differs by up to this time in either direction, at most by the
    /// delay.
    Jitter(Duration),
    /// This percentage of the packets, at random, has no delay.
    Skip(u32),
}

/// The links of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topology {
    /// One switch: link `i` leads to host `i`.
    Star(Vec<Link>),
    /// Two hosts with these links between them in both directions, like the spines between two
    /// leaves. The source port of a packet chooses the link, as in
    /// [`Routing::Acl`](crate::Routing::Acl).
    Parallel(Vec<Link>),
}

/// An emulated network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// Up to 12 lower-case letters and digits, a letter first.
    pub name: String,
    /// The MTU of the devices of all hosts, in bytes.
    pub mtu: u32,
    /// Hosts and links.
    pub topology: Topology,
}

impl Network {
    /// The number of hosts.
    #[must_use]
    pub fn hosts(&self) -> usize {
        match &self.topology {
            Topology::Star(links) => links.len(),
            Topology::Parallel(_) => 2,
        }
    }

    /// All queues, by the index that packets use. Parallel links towards host 0 come first.
    #[must_use]
    pub fn links(&self) -> Vec<Link> {
        match &self.topology {
            Topology::Star(links) => links.clone(),
            Topology::Parallel(links) => links.repeat(2),
        }
    }

    /// The link that a packet for host `to` passes.
    pub(super) fn route(&self, packet: Packet, to: usize) -> usize {
        match &self.topology {
            Topology::Star(_) => to,
            Topology::Parallel(links) => to * links.len() + packet.choice() % links.len(),
        }
    }

    /// The host that a link leads to.
    pub(super) fn end_of(&self, link: usize) -> usize {
        match &self.topology {
            Topology::Star(_) => link,
            Topology::Parallel(links) => link / links.len(),
        }
    }

    pub(super) fn check(&self) -> Result<(), FabricError> {
        crate::plan::check_name(&self.name)?;
        let links = self.links();
        if !(2..=MAX_HOSTS).contains(&self.hosts()) || links.is_empty() || links.len() > MAX_LINKS {
            let accepted = format!("2 to {MAX_HOSTS} hosts, 1 to {MAX_LINKS} links");
            return Err(FabricError::argument("network of so many links", links.len(), accepted));
        }
        if !MTUS.contains(&self.mtu) {
            return Err(FabricError::argument("mtu", self.mtu, format!("{MTUS:?}")));
        }
        links.iter().try_for_each(|link| link.check(u64::from(self.mtu)))
    }
}

impl Link {
    fn check(&self, mtu: u64) -> Result<(), FabricError> {
        self.rate.check("rate")?;
        if self.queue < mtu + HEADER_BYTES {
            let accepted = format!("at least a packet, {} bytes", mtu + HEADER_BYTES);
            return Err(FabricError::argument("queue", self.queue, accepted));
        }
        if self.delay > MAX_DELAY {
            let accepted = format!("at most {MAX_DELAY:?}");
            return Err(FabricError::argument("delay", format!("{:?}", self.delay), accepted));
        }
        if self.loss_percent > 100 {
            return Err(FabricError::argument("percent lost", self.loss_percent, "0 to 100"));
        }
        match self.reordering {
            Reordering::Jitter(most) if most > self.delay => {
                let accepted = format!("at most the delay, {:?}", self.delay);
                Err(FabricError::argument("jitter", format!("{most:?}"), accepted))
            }
            Reordering::Skip(percent) if percent > 100 => {
                Err(FabricError::argument("percent that skip the delay", percent, "0 to 100"))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: Link = Link {
        rate: Rate::from_bits(10_000_000),
        queue: 15_000,
        delay: Duration::from_millis(5),
        mark: None,
        reordering: Reordering::None,
        loss_percent: 0,
    };

    fn network(topology: Topology) -> Network {
        Network { name: "net".into(), mtu: 1500, topology }
    }

    #[test]
    fn parallel_links_are_chosen_by_the_source_port_in_both_directions() {
        let network = network(Topology::Parallel(vec![LINK; 4]));
        let from = |port| Packet { source_port: port, ..Packet::default() };
        assert_eq!([0, 1].map(|to| network.route(from(0xC006), to)), [2, 6]);
        assert_eq!([2, 6].map(|link| network.end_of(link)), [0, 1]);
        assert_eq!((network.hosts(), network.links().len()), (2, 8));
    }

    #[test]
    fn what_cannot_be_is_refused_with_what_can() {
        let refused = |link| {
            network(Topology::Star(vec![LINK, link])).check().expect_err("it cannot be").to_string()
        };
        network(Topology::Star(vec![LINK; 2])).check().expect("two hosts");
        assert!(refused(Link { queue: 1000, ..LINK }).contains("1514"));
        assert!(refused(Link { delay: Duration::from_secs(2), ..LINK }).contains("delay 2s"));
        let jitter = Reordering::Jitter(Duration::from_millis(6));
        assert!(refused(Link { reordering: jitter, ..LINK }).contains("jitter 6ms"));
        assert!(refused(Link { reordering: Reordering::Skip(101), ..LINK }).contains("101"));
        assert!(refused(Link { loss_percent: 102, ..LINK }).contains("percent lost 102"));
        assert!(network(Topology::Star(vec![LINK])).check().is_err(), "one host");
        assert!(network(Topology::Parallel(vec![])).check().is_err(), "no link");
    }
}
