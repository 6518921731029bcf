//! The exchange between fabric and protocol: arrivals in, transmissions out.

use braid_cc::CreditDemand;
use braid_transport::{Admit, Arrival, Completion, Egress, Endpoint, Placement, Status};
use braid_wire::{Credit, DataHeader, PathId, RailId, Stream};

use super::config::Recovery;
use super::credit::{CreditKey, wire_len};
use super::end::Protocol;
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
        events: &mut Events,
    ) {
        let end = self.end_of[number as usize];
        self.deliveries.post(number);
        let key = self.memory.key();
        self.begin(end).post(events.now().to_time(), number, key, message);
        self.enlist(end);
        self.kick_interfaces(end, fabric, events);
    }

    /// Brings an end into use, unless it is already.
    fn begin(&mut self, id: EndId) -> &mut Protocol {
        let end = &mut self.ends[id.index()];
        end.begin(id, &self.settings, self.sets.get_mut(end.paths));
        end.protocol()
    }

    /// Drops the protocol state of a queue pair's ends once nothing can concern them any more. Call
    /// this after whatever may have been the last event of an end.
    #[inline]
    pub(crate) fn retire(&mut self, id: EndId) {
        if self.ends[id.index()].open == 0 {
            self.retire_if_done(id);
        }
    }

    fn retire_if_done(&mut self, id: EndId) {
        let [own, far] = [id, id.peer()].map(|id| &self.ends[id.index()]);
        let nothing_between = own.sent == far.received && far.sent == own.received;
        if !(nothing_between && own.is_done() && far.is_done()) {
            return;
        }
        for id in [id, id.peer()] {
            let protocol = self.ends[id.index()].finish();
            let degrees = protocol.as_ref().and_then(|protocol| protocol.qp().ooo_degrees());
            degrees.into_iter().for_each(|degrees| self.degrees.merge(degrees));
        }
    }

    /// Counts a packet that an end's peer sends, or a switch on behalf of the peer.
    pub(crate) fn count_sent(&mut self, to: EndId) {
        let from = &mut self.ends[to.peer().index()];
        from.sent = from.sent.wrapping_add(1);
    }

    /// Handles the loss of a packet in the fabric.
    pub(crate) fn on_dropped(
        &mut self,
        packet: &Packet,
        body: Body,
        fabric: &mut Fabric,
        events: &mut Events,
    ) -> Result<(), Failed> {
        if body == Body::Internal {
            return Ok(());
        }
        let id = EndId(packet.end);
        let end = &mut self.ends[id.index()];
        end.received = end.received.wrapping_add(1);
        if self.config.recovery == Recovery::Ideal {
            self.replace_lost(packet, body, fabric, events)?;
        }
        self.retire(id);
        Ok(())
    }

    /// Puts a packet that an end sends to its peer, with its body, on the wire of an interface.
    #[inline]
    pub(crate) fn join(
        &mut self,
        nic: u32,
        packet: &Packet,
        fabric: &mut Fabric,
        events: &mut Events,
    ) {
        self.count_sent(EndId(packet.end));
        fabric.join(self.nics[nic as usize].port, packet, events);
    }

    /// Passes a packet that has reached its interface to the protocol.
    pub(crate) fn receive(
        &mut self,
        packet: &Packet,
        fabric: &mut Fabric,
        events: &mut Events,
    ) -> Result<(), Failed> {
        let id = EndId(packet.end);
        let now = events.now().to_time();
        self.begin(id).silence.on_received(events.now());
        let end = &mut self.ends[id.index()];
        end.received = end.received.wrapping_add(1);
        // The two frequent kinds of bodies are read in their places, because a copy is large.
        let data = fabric.bodies.data(packet);
        if let Some((len, placement)) = data.map(|(header, placement)| (header.len, *placement)) {
            self.nics[packet.dst as usize].credit.on_arrival(events.now());
            if packet.trimmed {
                fabric.bodies.discard(packet);
                self.on_trimmed(packet, len, events);
                self.return_trimmed(packet, fabric, events);
                return Ok(());
            }
            if let Placement::Staged { closes: Some(epoch) } = placement {
                self.close_epoch(id, epoch, packet, fabric, events);
            }
            let takes = self.nic_qps.take(id, placement);
            if let Some((header, _)) = fabric.bodies.data(packet).filter(|_| takes) {
                self.place(id, packet, header, placement, events.now());
            }
            fabric.bodies.discard(packet);
        } else if let Some(ack) = fabric.bodies.ack(packet) {
            let set = self.sets.get_mut(end.paths);
            let Protocol { endpoint, slot, .. } = end.protocol();
            endpoint.on_ack(now, *slot, ack, set);
            fabric.bodies.discard(packet);
        } else {
            let set = self.sets.get_mut(end.paths);
            let Protocol { endpoint, slot, .. } = end.protocol();
            match fabric.bodies.unload(packet) {
                Body::Control(control) => {
                    let left_by = Egress::Path(packet.path);
                    endpoint.on_control(now, *slot, &control, left_by, set);
                }
                Body::Credit(credit) => self.on_credit(id, &credit, events),
                Body::Epoch(epoch) => endpoint.begin_epoch(*slot, epoch),
                Body::Returned => return self.on_lost(id, packet.psn, fabric, events),
                Body::Data(..) | Body::Ack(_) | Body::Internal => {
                    unreachable!("switches consume their internal packets")
                }
            }
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
        let Protocol { endpoint, slot, .. } = self.ends[id.index()].protocol();
        let arrival = Arrival {
            header,
            segments: 1,
            stamp: header.stamp,
            path: packet.path,
            congestion: packet.marked,
            may_be_replied_to: false,
        };
        let admit = endpoint.on_arrival(now.to_time(), *slot, &arrival, &self.memory);
        if let Admit::Take(_) = admit {
            self.deliveries.place(message, header.len);
            self.nics[packet.dst as usize].load.received += u64::from(header.len);
            endpoint.placed(now.to_time(), *slot, &self.memory);
        }
    }

    /// Handles the network's report that it lost a packet of this end.
    pub(crate) fn on_lost(
        &mut self,
        id: EndId,
        psn: u32,
        fabric: &mut Fabric,
        events: &mut Events,
    ) -> Result<(), Failed> {
        let end = &mut self.ends[id.index()];
        let (now, set) = (events.now().to_time(), self.sets.get_mut(end.paths));
        let Protocol { endpoint, slot, .. } = end.protocol();
        endpoint.on_lost(now, *slot, Stream::Requests, psn, set);
        self.process(id, fabric, events)
    }

    /// Handles a credit packet that an end has received.
    fn on_credit(&mut self, id: EndId, credit: &Credit, events: &mut Events) {
        let Protocol { endpoint, slot, .. } = self.ends[id.index()].protocol();
        if let Some(demand) = endpoint.on_credit(*slot, credit) {
            self.on_demand((id, credit.stream, credit.rail), &demand, events);
        }
    }

    /// Handles a trimmed packet of a sender that may need credit to send it again. `len`: its
    /// payload bytes.
    fn on_trimmed(&mut self, packet: &Packet, len: u16, events: &mut Events) {
        let id = EndId(packet.end);
        let end = &mut self.ends[id.index()];
        let rail = end.interfaces.rail_of(packet.dst);
        let Protocol { endpoint, slot, .. } = end.protocol();
        let demand = endpoint.on_trimmed(*slot, Stream::Requests, rail, wire_len(len));
        if let Some(demand) = demand {
            self.on_demand((id, Stream::Requests, rail), &demand, events);
        }
    }

    fn on_demand(&mut self, key: CreditKey, demand: &CreditDemand, events: &mut Events) {
        let (id, _, rail) = key;
        let interfaces = &self.ends[id.index()].interfaces;
        assert!(rail.get() < interfaces.count(), "{id:?} has no rail {rail}");
        let (nic, _) = interfaces.of(rail);
        let credit = &mut self.nics[nic as usize].credit;
        credit.on_demand(events.now(), key, demand);
        credit.expect_grants(nic, false, events);
    }

    /// Grants the credit of an interface that is due.
    pub(crate) fn grant_credit(
        &mut self,
        nic: u32,
        fabric: &mut Fabric,
        events: &mut Events,
    ) -> Result<(), Failed> {
        while let Some((turn, most)) = self.nics[nic as usize].credit.poll(events.now()) {
            let (id, stream, rail) = turn.key;
            let Some(Protocol { endpoint, slot, .. }) = self.ends[id.index()].in_use_mut() else {
                continue;
            };
            if let Some(grant) = endpoint.grant_credit(*slot, stream, rail, most) {
                self.nics[nic as usize].credit.on_grant(events.now(), turn, &grant);
                self.process(id, fabric, events)?;
            }
        }
        self.nics[nic as usize].credit.expect_grants(nic, true, events);
        Ok(())
    }

    /// Replaces a lost packet under ideal recovery, which costs its serialisation time only. The
    /// sender has one more packet to send. The receiver repeats its acknowledgement on another
    /// path, because the one that has just failed may fail for good.
    fn replace_lost(
        &mut self,
        packet: &Packet,
        body: Body,
        fabric: &mut Fabric,
        events: &mut Events,
    ) -> Result<(), Failed> {
        if packet.class == Class::Data {
            return self.on_lost(EndId(packet.end).peer(), packet.psn, fabric, events);
        }
        let path = PathId::new(packet.path.get() + 1);
        let again = fabric.bodies.load(Packet { path, ..*packet }, body);
        self.join(packet.src, &again, fabric, events);
        Ok(())
    }

    pub(crate) fn on_timer(
        &mut self,
        id: EndId,
        fabric: &mut Fabric,
        events: &mut Events,
    ) -> Result<(), Failed> {
        let end = &mut self.ends[id.index()];
        if end.in_use().is_none_or(|protocol| protocol.armed > events.now()) {
            return Ok(()); // the timer was re-armed for an earlier instant
        }
        let set = self.sets.get_mut(end.paths);
        let protocol = end.protocol();
        protocol.armed = Ps::NEVER;
        if protocol.next_timeout(set).is_some_and(|at| at <= events.now()) {
            protocol.silence.on_timer(protocol.qp().counters().retransmitted);
            protocol.endpoint.on_timeout(events.now().to_time(), set);
        }
        self.process(id, fabric, events)
    }

    /// Processes the outputs of an endpoint after an input.
    fn process(
        &mut self,
        id: EndId,
        fabric: &mut Fabric,
        events: &mut Events,
    ) -> Result<(), Failed> {
        while let Some(completion) = self.endpoint(id).poll_completion() {
            self.on_completion(id, &completion, events.now())?;
        }
        if let Some(event) = self.endpoint(id).poll_event() {
            return Err(self.failed(id, format!("{:?}", event.kind), events.now()));
        }
        if id.sends() {
            self.enlist(id);
            self.kick_interfaces(id, fabric, events);
        } else {
            self.send_control(id, fabric, events);
        }
        self.rearm(id, events);
        self.retire(id);
        Ok(())
    }

    #[inline]
    pub(crate) fn endpoint(&mut self, id: EndId) -> &mut Endpoint {
        &mut self.ends[id.index()].protocol().endpoint
    }

    /// Sends the control packets of a receiving end, which do not wait for their turn.
    fn send_control(&mut self, id: EndId, fabric: &mut Fabric, events: &mut Events) {
        let now = events.now().to_time();
        loop {
            let end = &mut self.ends[id.index()];
            let set = self.sets.get_mut(end.paths);
            let Some(transmit) = end.protocol().endpoint.poll_transmit(now, set) else { return };
            self.send(id, transmit, fabric, events);
        }
    }

    fn on_completion(&mut self, id: EndId, of: &Completion, now: Ps) -> Result<(), Failed> {
        if of.status != Status::Success {
            return Err(self.failed(id, of.status.to_string(), now));
        }
        self.ends[id.index()].open -= 1;
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
    pub(crate) fn rearm(&mut self, id: EndId, events: &mut Events) {
        let end = &mut self.ends[id.index()];
        let is_queued = !end.queued.is_empty();
        let set = self.sets.get_mut(end.paths);
        let Some(protocol) = end.in_use_mut() else { return }; // its last packet was the last event
        let Some(at) = protocol.next_timeout(set) else { return };
        // An end that is due already waits for its interface, which will poll it.
        if at <= events.now() && is_queued {
            return;
        }
        let at = at.max(events.now());
        if at < protocol.armed {
            protocol.armed = at;
            events.at(at, Event::Timer { end: id });
        }
    }
}
