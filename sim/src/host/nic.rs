//! Network interfaces: scheduling of the ends that share a link.

use std::collections::VecDeque;

use braid_lb::RailSet;
use braid_transport::{Transmit, TransmitBody};
use braid_wire::RailId;

use super::credit::CreditQueue;
use super::memory::message_at;
use super::{End, Hosts};
use crate::events::{Event, Events};
use crate::fabric::Fabric;
use crate::packet::{Body, Class, EndId, Packet};
use crate::time::Ps;
use crate::topology::{PortId, Topology};

/// The state of an interface. Its link is a port of the fabric.
#[derive(Debug)]
pub(crate) struct Nic {
    pub(crate) port: PortId,
    /// The ends that may have data to send, in turn.
    ready: VecDeque<EndId>,
    /// The earliest time for the next data packet, if the interface is paced.
    next_data: Ps,
    /// The time of the scheduled wake-up.
    wake: Ps,
    pub(crate) load: NicLoad,
    pub(super) credit: CreditQueue,
}

/// The payload bytes that an interface has carried.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct NicLoad {
    /// Bytes sent, including retransmissions.
    pub sent: u64,
    /// Bytes received for the first time.
    pub received: u64,
}

impl Nic {
    /// `grant`: bytes of a grant of credit.
    pub(crate) fn new(port: PortId, grant: u64) -> Nic {
        let (load, credit) = (NicLoad::default(), CreditQueue::new(grant));
        Nic { port, ready: VecDeque::new(), next_data: Ps::ZERO, wake: Ps::NEVER, load, credit }
    }

    /// Returns the end whose turn is next.
    pub(super) fn next(&self) -> Option<EndId> {
        self.ready.front().copied()
    }
}

/// Creates the interfaces of a fabric. `grant`: bytes of a grant of credit.
pub(crate) fn all(topology: &Topology, grant: u64) -> Vec<Nic> {
    topology.nic_ports().into_iter().map(|port| Nic::new(port, grant)).collect()
}

impl Hosts {
    /// Lists an end as ready at all its interfaces.
    #[inline]
    pub(crate) fn enlist(&mut self, end: EndId) {
        let End { interfaces, queued, .. } = &mut self.ends[end.index()];
        for (rail, (nic, _)) in interfaces.iter() {
            if !queued.contains(rail) {
                queued.insert(rail);
                self.nics[nic as usize].ready.push_back(end);
            }
        }
    }

    /// Calls [`Hosts::kick`] for all interfaces of an end.
    #[inline]
    pub(crate) fn kick_interfaces(&mut self, id: EndId, fabric: &mut Fabric, events: &mut Events) {
        for rail in (0..self.ends[id.index()].interfaces.count()).map(RailId::new) {
            let (nic, _) = self.ends[id.index()].interfaces.of(rail);
            self.kick(nic, fabric, events);
        }
    }

    /// Returns the rails of an end whose interfaces have enough data queued, or may not send now.
    fn full_rails(&self, id: EndId, fabric: &Fabric, now: Ps) -> RailSet {
        let is_full = |nic: u32| {
            let it = &self.nics[nic as usize];
            let waiting = fabric.ports[it.port.index()].bytes;
            waiting >= self.config.send_queue || it.next_data > now
        };
        let rails = self.ends[id.index()].interfaces.iter();
        rails.filter(|(_, (nic, _))| is_full(*nic)).map(|(rail, _)| rail).collect()
    }

    /// Sends data while the link of the interface is free. An idle port has no packet in its queue
    /// that it may send.
    #[inline]
    pub(crate) fn kick(&mut self, nic: u32, fabric: &mut Fabric, events: &mut Events) {
        let port = self.nics[nic as usize].port;
        while fabric.may_take_data(port)
            && !self.nics[nic as usize].ready.is_empty()
            && self.may_send_data(nic, events)
        {
            self.pull(nic, fabric, events);
        }
    }

    /// Returns whether pacing allows data now. If not, a wake-up is scheduled.
    #[inline]
    fn may_send_data(&mut self, nic: u32, events: &mut Events) -> bool {
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
    #[inline(never)]
    fn pull(&mut self, nic: u32, fabric: &mut Fabric, events: &mut Events) {
        let Some(id) = self.nics[nic as usize].ready.pop_front() else { return };
        let now = events.now().to_time();
        let full = self.full_rails(id, fabric, events.now());
        let end = &mut self.ends[id.index()];
        let set = self.sets.get_mut(end.paths);
        set.devices_mut().hold(full);
        match end.protocol().endpoint.poll_transmit(now, set) {
            Some(transmit) => {
                // A batch leaves as a whole, as from a socket.
                let continues = self.endpoint(id).continues_batch();
                let ready = &mut self.nics[nic as usize].ready;
                if continues {
                    ready.push_front(id)
                } else {
                    ready.push_back(id)
                }
                self.send(id, transmit, fabric, events);
            }
            None => {
                let End { interfaces, queued, .. } = &mut self.ends[id.index()];
                queued.remove(interfaces.rail_of(nic));
                self.rearm(id, events);
                self.retire(id);
            }
        }
    }

    /// Puts a packet of an end on the wire.
    pub(crate) fn send(
        &mut self,
        id: EndId,
        transmit: Transmit,
        fabric: &mut Fabric,
        events: &mut Events,
    ) {
        let rail = transmit.egress.rail();
        let end = &mut self.ends[id.index()];
        let protocol = end.protocol();
        if let Some(timer) = protocol.silence.on_sent(events.now()) {
            let retransmitted = protocol.qp().counters().retransmitted;
            if retransmitted > timer.retransmitted {
                self.waits.record(id, timer.silent_since, events.now());
            }
        }
        let (src, dst) = end.interfaces.of(rail);
        let port = self.nics[src as usize].port;
        let frames = fabric.config.frames;
        let control = || Packet::new(src, dst, id.peer().0, Class::Control, frames.ack);
        let packet = match transmit.body {
            TransmitBody::Segment { header, path, placement, .. } => {
                let bytes = u32::from(header.len) + frames.header;
                let packet = Packet::new(src, dst, id.peer().0, Class::Data, bytes);
                let wire = fabric.ports[port.index()].rate.time_for(bytes + frames.gap);
                self.pace(src, wire, events);
                self.read(src, message_at(header.address), bytes, events);
                self.nics[src as usize].load.sent += u64::from(header.len);
                let packet = Packet { psn: header.psn, path, ..packet };
                fabric.bodies.load_data(packet, header, placement)
            }
            TransmitBody::Ack(ack) => {
                let (psn, path) = (ack.cumulative, transmit.egress.path().unwrap_or_default());
                fabric.bodies.load(Packet { psn, path, ..control() }, Body::Ack(ack))
            }
            TransmitBody::Credit(credit) => {
                let path = transmit.egress.path().unwrap_or_default();
                fabric.bodies.load(Packet { path, ..control() }, Body::Credit(credit))
            }
            TransmitBody::Control(message) => {
                let path = transmit.egress.path().unwrap_or_default();
                fabric.bodies.load(Packet { path, ..control() }, Body::Control(message))
            }
            TransmitBody::Probe(..) => unreachable!("path MTU discovery is off in the simulator"),
        };
        self.join(src, &packet, fabric, events);
    }

    /// Charges the NVLink transfer of a packet that the interface reads from another GPU's memory.
    fn read(&mut self, nic: u32, message: u32, bytes: u32, events: &Events) {
        let Some(links) = &mut self.nvlinks else { return };
        let next = links.leave(events.now(), nic, message, bytes);
        let it = &mut self.nics[nic as usize];
        it.next_data = it.next_data.max(next);
    }

    /// Returns a trimmed segment to its sender.
    pub(crate) fn return_trimmed(
        &mut self,
        packet: &Packet,
        fabric: &mut Fabric,
        events: &mut Events,
    ) {
        let (nic, sender) = (packet.dst, EndId(packet.end).peer());
        let answer =
            Packet::new(nic, packet.src, sender.0, Class::Control, fabric.config.frames.ack);
        let answer = Packet { psn: packet.psn, path: packet.path, ..answer };
        let answer = fabric.bodies.load(answer, Body::Returned);
        self.join(nic, &answer, fabric, events);
    }

    /// Sets the earliest time for the next data packet.
    fn pace(&mut self, nic: u32, wire: Ps, events: &Events) {
        if self.config.share < 1.0 {
            let span = Ps((wire.0 as f64 / self.config.share) as u64);
            self.nics[nic as usize].next_data = events.now() + span;
        }
    }
}
