//! Blind placement: a NIC writes first transmissions of WRITEs before the protocol has seen them, through a queue
//! pair per path. As a driver of such NICs, a host closes the one that a fence names before it places the packet
//! that carries the fence, and tells the sender of the next one. Word of that may get lost, but fences come
//! until it has got through.

use std::collections::HashMap;

use braid_transport::{Fence, Placement};
use braid_wire::PathId;

use super::{EndId, Hosts};
use crate::events::Events;
use crate::fabric::Fabric;
use crate::packet::{Body, Class, Packet};
use crate::simulation::Event;

/// The NIC queue pairs that ends receive through.
#[derive(Debug, Default)]
pub(crate) struct Trunks {
    /// By receiving end and path: the generation that is open, if it is not the first.
    renewed: HashMap<(EndId, PathId), u32>,
    /// They do not close.
    leak: bool,
}

impl Trunks {
    fn generation(&self, end: EndId, path: PathId) -> u32 {
        self.renewed.get(&(end, path)).copied().unwrap_or(0)
    }

    /// Whether the NIC takes a packet: not if its queue pair is closed.
    pub(crate) fn take(&self, end: EndId, placement: Placement) -> bool {
        match placement {
            Placement::Blind(fence) => {
                self.leak || fence.generation == self.generation(end, fence.path)
            }
            Placement::Staged { .. } => true,
        }
    }

    fn close(&mut self, end: EndId, fence: Fence) -> Fence {
        let generation = self.generation(end, fence.path).max(fence.generation + 1);
        self.renewed.insert((end, fence.path), generation);
        Fence { generation, ..fence }
    }
}

impl Hosts {
    /// Closed NIC queue pairs take what was sent to them all the same, so that a test can see the oracle
    /// find what fences prevent.
    pub fn ignore_fences(&mut self) {
        self.trunks.leak = true;
    }

    /// Does what the fence of a packet asks for, and answers it by the way that the packet came.
    pub(crate) fn heed(
        &mut self,
        id: EndId,
        fence: Fence,
        packet: &Packet,
        fabric: &mut Fabric,
        events: &mut Events<Event>,
    ) {
        let renewed = self.trunks.close(id, fence);
        let (nic, sender) = (packet.dst, id.peer());
        let bytes = fabric.config.frames.ack;
        let answer = Packet::new(nic, packet.src, sender.0, Class::Control, bytes);
        let answer = Packet { path: packet.path, ..answer };
        let answer = fabric.bodies.load(answer, Body::Renewed(renewed));
        fabric.join(self.nics[nic as usize].port, &answer, events);
    }
}
