//! An interface: what its ends may send, and when.

use std::collections::VecDeque;

use braid_transport::{Transmit, TransmitBody};

use super::Hosts;
use crate::events::{Event, Events};
use crate::fabric::Fabric;
use crate::packet::{Body, Class, EndId, Packet};
use crate::time::Ps;
use crate::topology::{Node, PortId, Topology};

/// An interface's own state; its link is a port of the fabric.
#[derive(Debug)]
pub(crate) struct Nic {
    pub(crate) port: PortId,
    /// Ends that may have data, in turn.
    ready: VecDeque<EndId>,
    /// Data may not leave before, where the interface uses a part of its link only.
    next_data: Ps,
    /// When it will be woken.
    wake: Ps,
}

impl Nic {
    pub(crate) fn new(port: PortId) -> Nic {
        Nic { port, ready: VecDeque::new(), next_data: Ps::ZERO, wake: Ps::NEVER }
    }
}

/// The interfaces of a fabric.
pub(crate) fn all(topology: &Topology) -> Vec<Nic> {
    let mut ports = vec![PortId(u32::MAX); topology.nics.len()];
    for (cable, index) in topology.cables.iter().zip(0..) {
        if let Node::Nic(nic) = cable.low {
            ports[nic as usize] = PortId(2 * index);
        }
    }
    ports.into_iter().map(Nic::new).collect()
}

impl Hosts {
    /// An end may have something to send.
    pub(crate) fn enlist(&mut self, end: EndId) {
        let it = &mut self.ends[end.index()];
        if !it.queued {
            it.queued = true;
            self.nics[it.nic as usize].ready.push_back(end);
        }
    }

    /// The interface's link may be free: it sends what comes next.
    pub(crate) fn kick(&mut self, nic: u32, fabric: &mut Fabric, events: &mut Events<Event>) {
        let port = self.nics[nic as usize].port;
        fabric.start(port, events);
        while fabric.may_take_data(port) && !self.nics[nic as usize].ready.is_empty() {
            if !self.is_time(nic, events) {
                return;
            }
            self.pull(nic, fabric, events);
        }
    }

    /// Whether data may leave now; if not, it will be tried again.
    fn is_time(&mut self, nic: u32, events: &mut Events<Event>) -> bool {
        let it = &mut self.nics[nic as usize];
        if events.now() >= it.next_data {
            return true;
        }
        if it.wake != it.next_data {
            it.wake = it.next_data;
            events.at(it.wake, Event::Wake { nic });
        }
        false
    }

    /// Asks the next end for a packet.
    fn pull(&mut self, nic: u32, fabric: &mut Fabric, events: &mut Events<Event>) {
        let Some(id) = self.nics[nic as usize].ready.pop_front() else { return };
        let now = events.now().to_time();
        let set = self.sets.get_mut(self.ends[id.index()].paths);
        match self.ends[id.index()].endpoint.poll_transmit(now, set) {
            Some(transmit) => {
                self.nics[nic as usize].ready.push_back(id);
                self.send(id, transmit, fabric, events);
            }
            None => {
                self.ends[id.index()].queued = false;
                self.rearm(id, events);
            }
        }
    }

    /// Puts on the wire what an end wants to send.
    pub(crate) fn send(
        &mut self,
        id: EndId,
        transmit: Transmit,
        fabric: &mut Fabric,
        events: &mut Events<Event>,
    ) {
        let end = &self.ends[id.index()];
        let (src, dst, port) = (end.nic, end.peer_nic, self.nics[end.nic as usize].port);
        let frames = fabric.config.frames;
        let control = || Packet::new(src, dst, id.peer().0, Class::Control, frames.ack);
        let (packet, body) = match transmit.body {
            TransmitBody::Segment { header, path, placement, .. } => {
                let bytes = u32::from(header.len) + frames.header;
                let packet = Packet::new(src, dst, id.peer().0, Class::Data, bytes);
                self.pace(
                    src,
                    fabric.ports[port.index()].rate.time_for(bytes + frames.gap),
                    events,
                );
                (Packet { psn: header.psn, path, ..packet }, Body::Data(header, placement))
            }
            TransmitBody::Ack(ack, egress) => {
                let (psn, path) = (ack.cumulative, egress.path().unwrap_or_default());
                (Packet { psn, path, ..control() }, Body::Ack(ack))
            }
            TransmitBody::Control(message, egress) => {
                let path = egress.path().unwrap_or_default();
                (Packet { path, ..control() }, Body::Control(message))
            }
            TransmitBody::Probe(..) => unreachable!("no endpoint here searches its path's MTU"),
        };
        let packet = fabric.bodies.load(packet, body);
        fabric.join(port, &packet, events);
    }

    /// Gives a trimmed segment back to who sent it.
    pub(crate) fn give_back(
        &mut self,
        packet: &Packet,
        fabric: &mut Fabric,
        events: &mut Events<Event>,
    ) {
        let (nic, sender) = (packet.dst, EndId(packet.end).peer());
        let answer =
            Packet::new(nic, packet.src, sender.0, Class::Control, fabric.config.frames.ack);
        let answer = Packet { psn: packet.psn, path: packet.path, ..answer };
        let answer = fabric.bodies.load(answer, Body::Returned);
        fabric.join(self.nics[nic as usize].port, &answer, events);
    }

    /// Keeps the distance to the next packet of data.
    fn pace(&mut self, nic: u32, wire: Ps, events: &Events<Event>) {
        if self.config.share < 1.0 {
            let span = Ps((wire.0 as f64 / self.config.share) as u64);
            self.nics[nic as usize].next_data = events.now() + span;
        }
    }
}
