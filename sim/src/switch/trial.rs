//! A test set-up for switch policies: an edge switch of a fat tree with 128 hosts.

use super::offer::Offer;
use crate::packet::{Class, Packet};
use crate::port::{Port, Speeds};
use crate::time::{Ps, Rate};
use crate::topology::{FatTree, PortId, Routes, Topology};

/// Switch 0, with the hosts 0 to 3 below it and four uplinks.
pub(crate) struct Trial {
    pub(crate) topology: Topology,
    pub(crate) queues: Vec<Port>,
    pub(crate) now: Ps,
    routes: Routes,
    down: Vec<PortId>,
}

impl Trial {
    pub(crate) fn new() -> Trial {
        let plan = FatTree::k_ary(8, Rate::from_gbps(800), Ps::from_nanos(500)).unwrap();
        let topology = plan.build().unwrap();
        let queues = Port::all(&topology, &mut Speeds::default());
        let routes = Routes::new(&topology, |_| true);
        Trial { topology, queues, now: Ps::ZERO, routes, down: Vec::new() }
    }

    pub(crate) fn uplinks(&self) -> Vec<PortId> {
        self.topology.uplinks(0).collect()
    }

    /// Cuts a cable, of which routing learns.
    pub(crate) fn cut(&mut self, port: PortId) {
        self.down.extend([port, port.reverse()]);
        self.routes = Routes::new(&self.topology, |port| !self.down.contains(&port));
    }

    /// Offers a packet to a host to a switch policy.
    pub(crate) fn offer<T>(
        &self,
        dst: u32,
        class: Class,
        choose: impl FnOnce(&Offer<'_>) -> T,
    ) -> T {
        let packet = Packet::new(0, dst, 0, class, 4158);
        choose(&Offer {
            now: self.now,
            switch: 0,
            packet: &packet,
            ports: self.routes.towards(0, dst),
            queues: &self.queues,
            topology: &self.topology,
        })
    }
}
