//! Forwarding in a switch.

use crate::events::{Event, Events};
use crate::packet::{Body, EndId, Packet};
use crate::switch::{Action, GateContext, Offer, Pass};
use crate::topology::PortId;

use super::{Fabric, Loss};

impl Fabric {
    /// Forwards a packet that has reached a switch.
    #[inline(always)]
    pub(crate) fn forward(&mut self, switch: u32, packet: &Packet, events: &mut Events) {
        if self.switches[switch as usize].gate.is_none() {
            return self.route(switch, packet, None, events);
        }
        self.forward_through_gate(switch, packet, events);
    }

    #[inline(never)]
    fn forward_through_gate(&mut self, switch: u32, packet: &Packet, events: &mut Events) {
        match self.at_gate(switch, Some(*packet), 0, events) {
            Pass::On(packet, port) => self.route(switch, &packet, port, events),
            Pass::Held => {}
        }
        self.carry_out(switch, events);
    }

    /// Wakes the gate of a switch.
    pub fn on_wake(&mut self, switch: u32, token: u32, events: &mut Events) {
        self.at_gate(switch, None, token, events);
        self.carry_out(switch, events);
    }

    /// Passes a packet to the gate, or wakes the gate.
    fn at_gate(
        &mut self,
        switch: u32,
        packet: Option<Packet>,
        token: u32,
        events: &Events,
    ) -> Pass {
        let dst = packet.map(|packet| packet.dst);
        let mut context = GateContext {
            now: events.now(),
            switch,
            topology: &self.topology,
            queues: &self.ports,
            ports: dst.map_or(&[], |dst| self.routes.towards(switch, dst)),
            bodies: &mut self.bodies,
            actions: &mut self.actions,
        };
        let gate = self.switches[switch as usize].gate.as_mut().expect("only gates are asked");
        match packet {
            Some(packet) => gate.on_packet(packet, &mut context),
            None => {
                gate.on_wake(token, &mut context);
                Pass::Held
            }
        }
    }

    /// Carries out the actions that a gate has asked for.
    fn carry_out(&mut self, switch: u32, events: &mut Events) {
        let mut actions = std::mem::take(&mut self.actions);
        for action in actions.drain(..) {
            match action {
                Action::Release(packet, port) => self.route(switch, &packet, port, events),
                Action::Send(packet, body) => {
                    if body != Body::Internal {
                        self.unreported.added.push(EndId(packet.end));
                    }
                    let packet = self.bodies.load(packet, body);
                    self.route(switch, &packet, None, events);
                }
                Action::Wake(span, token) => events.after(span, Event::Gate { switch, token }),
            }
        }
        self.actions = actions;
    }

    /// Chooses the output port, unless `named` gives it, and queues the packet there.
    #[inline(always)]
    fn route(&mut self, switch: u32, packet: &Packet, named: Option<PortId>, events: &mut Events) {
        let ports = self.routes.towards(switch, packet.dst);
        let port = match (named, ports) {
            (Some(port), _) => port,
            (None, []) => {
                self.drop_packet(*packet, Loss::NoRoute);
                return;
            }
            (None, [only]) => *only,
            (None, _) => {
                let (queues, topology) = (&self.ports[..], &self.topology);
                let now = events.now();
                let offer = Offer { now, switch, packet, ports, queues, topology };
                self.switches[switch as usize].chooser.choose(&offer)
            }
        };
        self.join_at(port, packet, events);
    }
}
