//! Direct placement: a NIC writes first transmissions of WRITEs before the protocol has seen them, through a queue
//! pair per path. As a driver of such NICs, a host closes the one that a retransmission names before it places the packet
//! that carries the epoch, and tells the sender of the next one. Word of that may get lost, but it is asked again
//! until it has got through.

use std::collections::HashMap;

use braid_transport::{NicEpoch, Placement};
use braid_wire::PathId;

use super::Hosts;
use crate::events::{Event, Events};
use crate::fabric::Fabric;
use crate::packet::{Body, Class, EndId, Packet};

/// The NIC queue pairs that ends receive through.
#[derive(Debug, Default)]
pub(crate) struct NicQps {
    /// By receiving end and path: the epoch that is open, if it is not the first.
    epochs: HashMap<(EndId, PathId), u32>,
    /// They do not close.
    leak: bool,
}

impl NicQps {
    fn epoch(&self, end: EndId, path: PathId) -> u32 {
        self.epochs.get(&(end, path)).copied().unwrap_or(0)
    }

    /// Whether the NIC takes a packet: not if its queue pair is closed.
    pub(crate) fn take(&self, end: EndId, placement: Placement) -> bool {
        match placement {
            Placement::Direct(epoch) => self.leak || epoch.number == self.epoch(end, epoch.path),
            Placement::Staged { .. } => true,
        }
    }

    fn close(&mut self, end: EndId, epoch: NicEpoch) -> NicEpoch {
        let number = self.epoch(end, epoch.path).max(epoch.number + 1);
        self.epochs.insert((end, epoch.path), number);
        NicEpoch { number, ..epoch }
    }
}

impl Hosts {
    /// Closed NIC queue pairs take what was sent to them all the same, so that a test can see the oracle
    /// find what closing prevents.
    pub fn ignore_closing(&mut self) {
        self.nic_qps.leak = true;
    }

    /// Does what a packet asks for: closes an epoch, and answers it by the route that the packet came.
    pub(crate) fn heed(
        &mut self,
        id: EndId,
        epoch: NicEpoch,
        packet: &Packet,
        fabric: &mut Fabric,
        events: &mut Events<Event>,
    ) {
        let next = self.nic_qps.close(id, epoch);
        let (nic, sender) = (packet.dst, id.peer());
        let bytes = fabric.config.frames.ack;
        let answer = Packet::new(nic, packet.src, sender.0, Class::Control, bytes);
        let answer = Packet { path: packet.path, ..answer };
        let answer = fabric.bodies.load(answer, Body::Epoch(next));
        fabric.join(self.nics[nic as usize].port, &answer, events);
    }
}
