//! The exchange between fabric and protocol: arrivals in, transmissions out.

use braid_transport::{Admit, Arrival, Completion, Egress, Placement, Status};
use braid_wire::{DataHeader, PathId, RailId, Stream};

use super::memory::message_at;
use super::{Failed, Hosts, News};
use crate::events::{Event, Events};
use crate::fabric::Fabric;
use crate::packet::{Body, Class, EndId, Packet};
use crate::time::Ps;
use crate::workload::Message;

impl Hosts {
    /// Posts a message.
    pub(crate) fn post(
        &mut self,
        number: u32,
        message: &Message,
        fabric: &mut Fabric,
        events: &mut Events<Event>,
    ) {
        let end = self.end_of[number as usize];
        self.deliveries.post(number);
        self.ends[end.index()].post(events.now().to_time(), number, message);
        self.enlist(end);
        self.kick_interfaces(end, fabric, events);
    }

    /// Passes a packet that has reached its interface to the protocol.
    pub(crate) fn receive(
        &mut self,
        packet: &Packet,
        body: Body,
        fabric: &mut Fabric,
        events: &mut Events<Event>,
    ) -> Result<(), Failed> {
        let id = EndId(packet.end);
        let now = events.now().to_time();
        self.ends[id.index()].silence.on_received(events.now());
        match body {
            Body::Data(..) if packet.trimmed => {
                self.return_trimmed(packet, fabric, events);
                return Ok(());
            }
            Body::Data(header, placement) => {
                if let Placement::Staged { closes: Some(epoch) } = placement {
                    self.close_epoch(id, epoch, packet, fabric, events);
                }
                if self.nic_qps.take(id, placement) {
                    self.place(id, packet, &header, placement, events.now());
                }
            }
            Body::Ack(ack) => {
                let end = &mut self.ends[id.index()];
                end.endpoint.on_ack(now, end.slot, &ack, self.sets.get_mut(end.paths));
            }
            Body::Control(control) => {
                let end = &mut self.ends[id.index()];
                let set = self.sets.get_mut(end.paths);
                let left_by = Egress::Path(packet.path);
                end.endpoint.on_control(now, end.slot, &control, left_by, set);
            }
            Body::Epoch(epoch) => {
                let end = &mut self.ends[id.index()];
                end.endpoint.begin_epoch(end.slot, epoch);
            }
            Body::Returned => return self.on_lost(id, packet.psn, fabric, events),
            Body::Internal => unreachable!("switches consume their internal packets"),
        }
        self.process(id, fabric, events)
    }

    fn place(
        &mut self,
        id: EndId,
        packet: &Packet,
        header: &DataHeader,
        placement: Placement,
        now: Ps,
    ) {
        let message = message_at(header.address);
        if let Placement::Direct(_) = placement {
            self.deliveries.place_directly(message);
        }
        let end = &mut self.ends[id.index()];
        let arrival = Arrival {
            header,
            segments: 1,
            stamp: header.stamp,
            path: packet.path,
            congestion: packet.marked,
            may_be_replied_to: false,
        };
        let admit = end.endpoint.on_arrival(now.to_time(), end.slot, &arrival, &self.memory);
        if let Admit::Take(_) = admit {
            self.deliveries.place(message, header.len);
            self.nics[packet.dst as usize].load.received += u64::from(header.len);
            end.endpoint.placed(now.to_time(), end.slot, &self.memory);
        }
    }

    /// Handles the network's report that it lost a packet of this end.
    pub(crate) fn on_lost(
        &mut self,
        id: EndId,
        psn: u32,
        fabric: &mut Fabric,
        events: &mut Events<Event>,
    ) -> Result<(), Failed> {
        let end = &mut self.ends[id.index()];
        let (now, set) = (events.now().to_time(), self.sets.get_mut(end.paths));
        end.endpoint.on_lost(now, end.slot, Stream::Requests, psn, set);
        self.process(id, fabric, events)
    }

    /// Replaces a lost packet under ideal recovery, which costs its serialisation time only. The
    /// sender has one more packet to send. The receiver repeats its acknowledgement on another
    /// path, because the one that has just failed may fail for good.
    pub(crate) fn replace_lost(
        &mut self,
        packet: &Packet,
        body: Body,
        fabric: &mut Fabric,
        events: &mut Events<Event>,
    ) -> Result<(), Failed> {
        if packet.class == Class::Data {
            return self.on_lost(EndId(packet.end).peer(), packet.psn, fabric, events);
        }
        let path = PathId::new(packet.path.get() + 1);
        let again = Packet { path, ..*packet };
        let again = fabric.bodies.load(again, body);
        fabric.join(self.nics[packet.src as usize].port, &again, events);
        Ok(())
    }

    pub(crate) fn on_timer(
        &mut self,
        id: EndId,
        fabric: &mut Fabric,
        events: &mut Events<Event>,
    ) -> Result<(), Failed> {
        let end = &mut self.ends[id.index()];
        if end.armed > events.now() {
            return Ok(()); // the timer was re-armed for an earlier instant
        }
        end.armed = Ps::NEVER;
        let (now, set) = (events.now().to_time(), self.sets.get_mut(end.paths));
        if end.endpoint.next_timeout(set).is_some_and(|at| at <= now) {
            end.silence.on_timer(end.endpoint.qp(end.slot).counters().retransmitted);
            end.endpoint.on_timeout(now, set);
        }
        self.process(id, fabric, events)
    }

    /// Processes the outputs of an endpoint after an input.
    fn process(
        &mut self,
        id: EndId,
        fabric: &mut Fabric,
        events: &mut Events<Event>,
    ) -> Result<(), Failed> {
        while let Some(completion) = self.ends[id.index()].endpoint.poll_completion() {
            self.on_completion(id, &completion, events.now())?;
        }
        if let Some(event) = self.ends[id.index()].endpoint.poll_event() {
            return Err(self.failed(id, format!("{:?}", event.kind), events.now()));
        }
        if id.sends() {
            self.enlist(id);
            self.kick_interfaces(id, fabric, events);
        } else {
            self.send_control(id, fabric, events);
        }
        self.rearm(id, events);
        Ok(())
    }

    /// Sends the control packets of a receiving end, which do not wait for their turn.
    fn send_control(&mut self, id: EndId, fabric: &mut Fabric, events: &mut Events<Event>) {
        let now = events.now().to_time();
        loop {
            let end = &mut self.ends[id.index()];
            let set = self.sets.get_mut(end.paths);
            let Some(transmit) = end.endpoint.poll_transmit(now, set) else { return };
            self.send(id, transmit, fabric, events);
        }
    }

    fn on_completion(&mut self, id: EndId, of: &Completion, now: Ps) -> Result<(), Failed> {
        if of.status != Status::Success {
            return Err(self.failed(id, of.status.to_string(), now));
        }
        if id.sends() {
            self.news.push(News::Acknowledged(of.wr_id as u32));
        } else {
            // All receives are posted alike, so the immediate data name the message.
            let message = of.imm.expect("every message carries its number");
            self.deliveries.complete(message);
            self.news.push(News::Delivered(message));
        }
        Ok(())
    }

    fn failed(&self, id: EndId, why: String, at: Ps) -> Failed {
        let (own, far) = self.ends[id.index()].interfaces.of(RailId::FIRST);
        let (src, dst) = if id.sends() { (own, far) } else { (far, own) };
        Failed { src, dst, at, why }
    }

    /// Schedules a timer event for the end's next time-out.
    pub(crate) fn rearm(&mut self, id: EndId, events: &mut Events<Event>) {
        let end = &mut self.ends[id.index()];
        let Some(at) = end.endpoint.next_timeout(self.sets.get_mut(end.paths)) else { return };
        let at = Ps::from_time(at);
        // An end that is due already waits for its interface, which will poll it.
        if at <= events.now() && !end.queued.is_empty() {
            return;
        }
        let at = at.max(events.now());
        if at < end.armed {
            end.armed = at;
            events.at(at, Event::Timer { end: id });
        }
    }
}
