//! The fabric: output-queued switches joined by links, and the life of a packet within it.
//!
//! A packet is in the queue of a port, on a link, or gone: delivered, or dropped and accounted for.

mod buffer;
mod config;
mod forward;
mod ledger;
mod pause;

pub use config::{Buffer, Marking, NetworkConfig, Pause, When};
pub use ledger::{Ledger, Loss};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::events::Events;
use crate::packet::{Bodies, Body, EndId, Packet};
use crate::port::{LinkLoad, Port, Speeds, Waiting};
use crate::prefetch;
use crate::switch::{Action, Chooser, Gate};
use crate::topology::{Node, PortId, Routes, Topology};

/// A running network.
#[derive(Debug)]
pub struct Fabric {
    /// The plan of the topology.
    pub topology: Topology,
    /// The configuration.
    pub config: NetworkConfig,
    /// All ports, by number.
    pub ports: Vec<Port>,
    /// The packets in the queues of the ports.
    waiting: Waiting,
    /// The bodies of all packets in flight.
    pub bodies: Bodies,
    /// The counts of lost packets.
    pub ledger: Ledger,
    /// The links, by port.
    links: Vec<Link>,
    speeds: Speeds,
    switches: Vec<Switch>,
    pub(crate) routes: Routes,
    unreported: Unreported,
    /// Actions that a gate has asked for.
    actions: Vec<Action>,
    /// Number of ports that are sending.
    busy: u32,
    rng: Pcg64Mcg,
}

/// The packets that left the fabric, or joined it, without their hosts. The hosts have not been
/// informed yet.
#[derive(Default, Debug)]
struct Unreported {
    dropped: Vec<(Packet, Loss)>,
    /// The receiving end of each packet that a switch has sent to a host.
    added: Vec<EndId>,
}

/// The state of a switch, without its queues, which belong to its ports.
#[derive(Debug)]
#[repr(C)] // in the order in which packets need the fields
struct Switch {
    /// Bytes in all queues of the switch.
    used: u64,
    /// Bytes of the buffer that are kept for what arrives by links that were paused.
    headroom: u64,
    /// Present only if the policy needs one.
    gate: Option<Box<Gate>>,
    chooser: Chooser,
}

/// The far end of a port. It is kept apart from the queues, because an arrival needs nothing else.
#[derive(Clone, Copy, Debug)]
struct Link {
    to: Node,
    /// If false, every packet on the link is lost.
    up: bool,
    /// The probability that a packet is lost otherwise.
    loss: f32,
}

/// The result of an arrival.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Advance {
    /// The packet is in flight, or lost.
    Under,
    /// The packet has reached an interface.
    Reached {
        /// The interface.
        nic: u32,
    },
}

/// The node that a frame will reach.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ahead {
    Switch,
    Nic,
}

impl Fabric {
    /// Creates a network with empty queues. `seed` decides all random choices of its switches.
    pub fn new(topology: Topology, config: NetworkConfig, seed: u64) -> Fabric {
        let routes = Routes::new(&topology, |_| true);
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let mut speeds = Speeds::default();
        let numbers = || topology.ports();
        let ports = Port::all(&topology, &mut speeds);
        let links =
            numbers().map(|port| Link { to: topology.ends(port).1, up: true, loss: 0.0 }).collect();
        let switches = (0..topology.switches.len() as u32)
            .map(|switch| {
                let (policy, hashed) = (&config.policy, config.control_hashed);
                let chooser = Chooser::new(policy, hashed, &topology, switch, rng.random());
                let gate = Gate::new(policy, &topology, switch, rng.random()).map(Box::new);
                Switch { used: 0, headroom: 0, gate, chooser }
            })
            .collect();
        let mut fabric = Fabric {
            topology,
            config,
            ports,
            waiting: Waiting::new(),
            bodies: Bodies::default(),
            ledger: Ledger::default(),
            links,
            speeds,
            switches,
            routes,
            unreported: Unreported::default(),
            actions: Vec::new(),
            busy: 0,
            rng,
        };
        fabric.keep_headroom();
        fabric
    }

    /// Starts to send the port's first packet, if the port is idle and may send.
    pub fn start(&mut self, port: PortId, events: &mut Events) {
        self.start_next(port, events);
    }

    #[inline(always)]
    fn start_next(&mut self, port: PortId, events: &mut Events) {
        if let Some(queue) = self.ports[port.index()].next() {
            let packet = queue.pop(&mut self.waiting);
            self.send(port, &packet, packet.marked, events);
        }
    }

    /// Puts a packet that the port has accounted for onto its link. `marked` replaces the packet's
    /// own mark.
    #[inline(always)]
    pub(super) fn send(
        &mut self,
        port: PortId,
        packet: &Packet,
        mut marked: bool,
        events: &mut Events,
    ) {
        let it = &mut self.ports[port.index()];
        let is_data = packet.is_data();
        it.sent.count(packet);
        self.busy += 1;
        it.is_sending = true;
        if let Some(marking) = &self.config.marking
            && marking.when == When::Leaving
            && is_data
            && !marked
        {
            marked = marking.marks(it.bytes, it.rate, &mut self.rng);
            it.marked += u64::from(marked);
        }
        let frame = self.speeds.frame(it.speed, packet, self.config.frames.gap, events);
        it.busy_time += frame.occupies;
        let came_by = packet.ingress;
        events.launch(frame.spans, packet, |packet| {
            (packet.ingress, packet.came_by, packet.marked) = (port.0, came_by, marked);
        });
    }

    /// Queues a packet at an output port of a switch or an interface.
    pub fn join(&mut self, port: PortId, packet: &Packet, events: &mut Events) {
        self.join_at(port, packet, events);
    }

    /// Handles the end of a transmission: the port may send the next packet. Returns the node that
    /// sends.
    #[inline(always)]
    pub fn on_sent(&mut self, sent: &Packet, events: &mut Events) -> Node {
        self.busy -= 1;
        let from = self.leave(sent, events);
        self.start_next(PortId(sent.ingress), events);
        from
    }

    /// Handles the arrival of a packet at the far end of a link.
    #[inline(always)]
    pub fn on_arrived(&mut self, packet: &Packet, events: &mut Events) -> Advance {
        let Link { to, up, loss } = self.links[packet.ingress as usize];
        let lost = match up {
            false => Some(Loss::LinkDown),
            true if loss > 0.0 && self.rng.random::<f32>() < loss => Some(Loss::LossyLink),
            true => None,
        };
        if let Some(lost) = lost {
            self.lose_on_link(packet, lost);
            return Advance::Under;
        }
        self.ledger.arrived.count(packet);
        match to {
            Node::Nic(nic) => Advance::Reached { nic },
            Node::Switch(switch) => {
                self.forward(switch, packet, events);
                Advance::Under
            }
        }
    }

    #[cold]
    fn lose_on_link(&mut self, packet: &Packet, loss: Loss) {
        self.ledger.lost_on_links.count(packet);
        self.drop_packet(*packet, loss);
    }

    /// Returns whether there are packets for [`Fabric::next_dropped`] or [`Fabric::next_added`].
    #[inline(always)]
    pub(crate) fn has_unreported(&self) -> bool {
        !self.unreported.dropped.is_empty() || !self.unreported.added.is_empty()
    }

    /// Returns a packet dropped since the last call, with its body and the reason.
    pub fn next_dropped(&mut self) -> Option<(Packet, Body, Loss)> {
        let (packet, loss) = self.unreported.dropped.pop()?;
        Some((packet, self.bodies.unload(&packet), loss))
    }

    /// Returns the end that a packet of a switch is for, of a packet sent since the last call.
    pub(crate) fn next_added(&mut self) -> Option<EndId> {
        self.unreported.added.pop()
    }

    /// Cuts or repairs one direction of a cable. Packets on the cable are lost silently; packets in
    /// its queue wait.
    pub fn set_up(&mut self, port: PortId, up: bool, events: &mut Events) {
        self.links[port.index()].up = up;
        if up {
            self.start(port, events);
        }
    }

    /// Changes the speed of a link, from the next packet on.
    pub fn set_rate(&mut self, port: PortId, rate: crate::time::Rate) {
        self.ports[port.index()].set_rate(rate, &mut self.speeds);
        self.keep_headroom();
    }

    /// Changes the probability, 0 to 1, that a packet on a link is lost.
    pub fn set_loss(&mut self, port: PortId, share: f32) {
        self.links[port.index()].loss = share;
    }

    /// Recomputes the routes from the links that are up.
    pub fn converge(&mut self) {
        let links = &self.links;
        self.routes = Routes::new(&self.topology, |port| links[port.index()].up);
        for switch in &mut self.switches {
            switch.chooser.on_routes_changed();
        }
    }

    #[cold]
    fn drop_packet(&mut self, packet: Packet, loss: Loss) {
        self.ledger.dropped[loss as usize] += 1;
        self.unreported.dropped.push((packet, loss));
    }

    /// Checks the invariants of an empty network.
    ///
    /// # Panics
    /// Panics if a queue or an account is not empty, if a link has not delivered all its packets,
    /// or if a queue was longer than its buffer.
    pub(crate) fn check_conservation(&self) {
        let mut sent = LinkLoad::default();
        for (port, id) in self.ports.iter().zip(0..) {
            let id = PortId(id);
            assert!(port.bytes == 0 && port.packets == 0, "{} bytes left at {id:?}", port.bytes);
            assert!(port.held == 0, "{} bytes left in the account of {id:?}", port.held);
            sent.packets += port.sent.packets;
            sent.bytes += port.sent.bytes;
            let is_limited = !self.config.trim && self.config.pause.is_none();
            let room = match (self.config.buffer, port.from) {
                (Buffer::PerPort { bytes }, Node::Switch(_)) if is_limited => bytes,
                (Buffer::Shared { bytes, .. }, Node::Switch(_)) if is_limited => bytes,
                _ => u64::MAX,
            };
            assert!(port.max_bytes <= room, "{} bytes were in {id:?}", port.max_bytes);
        }
        let (arrived, lost) = (self.ledger.arrived, self.ledger.lost_on_links);
        let balanced = sent.packets == arrived.packets + lost.packets
            && sent.bytes == arrived.bytes + lost.bytes;
        assert!(balanced, "{sent:?} was sent, {arrived:?} has arrived, {lost:?} was lost");
        let used: u64 = self.switches.iter().map(|switch| switch.used).sum();
        assert!(used == 0, "{used} bytes left in the buffers of switches");
    }

    /// Returns whether an interface's link is free for data.
    #[inline]
    pub(crate) fn may_take_data(&self, port: PortId) -> bool {
        let it = &self.ports[port.index()];
        it.is_idle() && !it.paused
    }

    /// Returns whether no packet is in the network and no port is sending.
    pub fn is_empty(&self) -> bool {
        self.bodies.is_empty() && self.busy == 0
    }

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

    /// Requests the packet that its port will send after a frame.
    #[inline(always)]
    pub(crate) fn expect_packet(&self, frame: &Packet) {
        self.waiting.expect(self.ports[frame.ingress as usize].first());
    }

    /// Requests the body of a frame that will reach an interface.
    #[inline(always)]
    pub(crate) fn expect_body(&self, frame: &Packet) {
        if let Node::Nic(_) = self.links[frame.ingress as usize].to {
            self.bodies.expect(frame);
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

    /// Returns whether a frame will reach an interface. The link has been requested.
    #[inline(always)]
    pub(crate) fn reaches_nic(&self, frame: &Packet) -> bool {
        matches!(self.links[frame.ingress as usize].to, Node::Nic(_))
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
