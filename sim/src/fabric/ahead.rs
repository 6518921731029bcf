//! Prefetching of what a frame on a link will need.

use crate::packet::Packet;
use crate::prefetch;
use crate::topology::{Node, PortId};

use super::Fabric;

/// The node that a frame will reach.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ahead {
    Switch,
    Nic,
}

impl Fabric {
    /// Requests the port that sends a frame.
    #[inline(always)]
    pub(crate) fn expect_port(&self, frame: &Packet) {
        prefetch::element(&self.ports, frame.ingress as usize);
    }

    /// Requests the packet that its port will send after a frame. Returns the interface, if the
    /// port is of one. The port has been requested.
    #[inline(always)]
    pub(crate) fn expect_start(&self, frame: &Packet) -> Option<u32> {
        let port = &self.ports[frame.ingress as usize];
        self.waiting.expect(port.first());
        match port.from {
            Node::Nic(nic) => Some(nic),
            Node::Switch(switch) => {
                prefetch::element(&self.switches, switch as usize);
                None
            }
        }
    }

    /// Returns the interface that sends a frame. The port has been requested.
    #[inline(always)]
    pub(crate) fn sender(&self, frame: &Packet) -> Option<u32> {
        match self.ports[frame.ingress as usize].from {
            Node::Nic(nic) => Some(nic),
            Node::Switch(_) => None,
        }
    }

    /// Returns the kind of node that a frame will reach. The link has been requested.
    #[inline(always)]
    pub(crate) fn reaches(&self, frame: &Packet) -> Ahead {
        match self.links[frame.ingress as usize].to {
            Node::Nic(_) => Ahead::Nic,
            Node::Switch(_) => Ahead::Switch,
        }
    }

    /// Requests the far end of the link that a frame is on.
    #[inline(always)]
    pub(crate) fn expect_link(&self, frame: &Packet) {
        prefetch::element(&self.links, frame.ingress as usize);
    }

    /// Requests the switch that a frame will reach, or the body of a frame that will reach an
    /// interface. The link has been requested.
    #[inline(always)]
    pub(crate) fn expect_arrival(&self, frame: &Packet) -> Ahead {
        match self.links[frame.ingress as usize].to {
            Node::Switch(switch) => {
                prefetch::element(&self.switches, switch as usize);
                self.routes.expect(switch, frame.dst);
                Ahead::Switch
            }
            Node::Nic(_) => {
                self.bodies.expect(frame);
                Ahead::Nic
            }
        }
    }

    /// Requests the port that a frame will join. The switch has been requested.
    #[inline(always)]
    pub(crate) fn expect_join(&self, frame: &Packet) -> Ahead {
        let Node::Switch(switch) = self.links[frame.ingress as usize].to else { return Ahead::Nic };
        if let Some(port) = self.foresee(switch, frame) {
            prefetch::element(&self.ports, port.index());
        }
        Ahead::Switch
    }

    /// Returns the port that a switch will choose for a packet, if that is certain.
    #[inline(always)]
    fn foresee(&self, switch: u32, packet: &Packet) -> Option<PortId> {
        match self.routes.towards(switch, packet.dst) {
            [] => None,
            [only] => Some(*only),
            ports => self.switches[switch as usize].chooser.foresee(packet, ports),
        }
    }
}
