//! Direct placement: a NIC writes first transmissions of WRITEs before the protocol has seen them,
//! through one NIC queue pair per path. The host drives such NICs. Before it places a packet that
//! carries an epoch, it closes the NIC queue pair that the packet names and announces the next one
//! to the sender. An announcement may be lost; the sender asks again until one arrives.

use std::collections::HashMap;

use braid_transport::{NicEpoch, Placement};
use braid_wire::PathId;

use super::Hosts;
use crate::events::Events;
use crate::fabric::Fabric;
use crate::packet::{Body, Class, EndId, Packet};

/// The NIC queue pairs of the receiving ends.
#[derive(Debug, Default)]
pub(crate) struct NicQps {
    /// The open epoch by receiving end and path, unless it is the first.
    epochs: HashMap<(EndId, PathId), u32>,
    /// Whether closed queue pairs accept packets, for tests.
    leak: bool,
}

impl NicQps {
    fn epoch(&self, end: EndId, path: PathId) -> u32 {
        self.epochs.get(&(end, path)).copied().unwrap_or(0)
    }

    /// Returns whether the NIC accepts a packet: its queue pair must not be closed.
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
    /// Makes closed NIC queue pairs accept packets, so that a test can see the oracle fire.
    pub fn ignore_closing(&mut self) {
        self.nic_qps.leak = true;
    }

    /// Closes the epoch that a packet names, and announces the next one on the path of the packet.
    pub(crate) fn close_epoch(
        &mut self,
        id: EndId,
        epoch: NicEpoch,
        packet: &Packet,
        fabric: &mut Fabric,
        events: &mut Events,
    ) {
        let next = self.nic_qps.close(id, epoch);
        let (nic, sender) = (packet.dst, id.peer());
        let bytes = fabric.config.frames.ack;
        let answer = Packet::new(nic, packet.src, sender.0, Class::Control, bytes);
        let answer = Packet { path: packet.path, ..answer };
        let answer = fabric.bodies.load(answer, Body::Epoch(next));
        self.join(nic, &answer, fabric, events);
    }
}
