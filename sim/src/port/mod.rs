//! An output port: its queues, and how fast its link is.

mod queue;
mod speed;

pub(crate) use queue::Waiting;
pub(crate) use speed::Speeds;

use crate::packet::{Class, Packet};
use crate::time::{Ps, Rate};
use crate::topology::{Node, PortId, Topology};

use queue::Queue;
use speed::SpeedId;

/// One direction of a cable, with the queues at its sending end.
///
/// Every packet comes by at every hop, and in a large fabric finds nothing of a port in the cache: what it needs
/// lies together in two lines, in this order.
#[derive(Clone, Debug)]
#[repr(C, align(128))]
pub struct Port {
    data: Queue,
    control: Queue,
    /// What is being sent.
    pub(crate) sending: Option<Sending>,
    pub(crate) speed: SpeedId,
    /// What sends.
    pub from: Node,
    /// Bytes queued, the packet that is being sent included.
    pub bytes: u64,
    /// Packets queued, likewise.
    pub packets: u32,
    /// The most packets that were ever queued.
    pub max_packets: u32,
    /// The most bytes.
    pub max_bytes: u64,
    /// What was put on the link.
    pub sent: LinkLoad,
    /// Time spent sending, gaps included.
    pub busy_time: Ps,
    /// Packets marked here.
    pub marked: u64,
    /// The receiving switch has stopped data.
    pub paused: bool,
    /// Pause frames have stopped who sends into it, ...
    pub(crate) told_to_stop: bool,
    /// ... by the bytes that came in by the link and are in the switch behind it.
    pub(crate) held: u64,
    /// The link's speed.
    pub rate: Rate,
    /// How long a bit is under way.
    pub delay: Ps,
}

/// What a link has carried.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LinkLoad {
    /// Packets.
    pub packets: u64,
    /// Bytes of frames, gaps not included.
    pub bytes: u64,
}

impl LinkLoad {
    pub(crate) fn count(&mut self, packet: &Packet) {
        self.packets += 1;
        self.bytes += u64::from(packet.bytes);
    }
}

/// What is to be given back when a packet has left; it may have ended its way by then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sending {
    pub(crate) bytes: u32,
    pub(crate) ingress: u32,
    pub(crate) is_data: bool,
}

impl Port {
    /// All of a fabric's, by number.
    pub(crate) fn all(topology: &Topology, speeds: &mut Speeds) -> Vec<Port> {
        let numbers = topology.ports();
        numbers.map(|port| Port::new(topology, port, speeds)).collect()
    }

    fn new(topology: &Topology, port: PortId, speeds: &mut Speeds) -> Port {
        let (cable, rate) = (&topology.cables[port.cable()], topology.rate(port));
        Port {
            sending: None,
            data: Queue::EMPTY,
            bytes: 0,
            packets: 0,
            max_packets: 0,
            max_bytes: 0,
            sent: LinkLoad::default(),
            busy_time: Ps::ZERO,
            control: Queue::EMPTY,
            from: topology.ends(port).0,
            speed: speeds.find(rate, cable.delay),
            paused: false,
            marked: 0,
            rate,
            delay: cable.delay,
            held: 0,
            told_to_stop: false,
        }
    }

    /// Changes the speed, from the next packet on.
    pub(crate) fn set_rate(&mut self, rate: Rate, speeds: &mut Speeds) {
        self.rate = rate;
        self.speed = speeds.find(rate, self.delay);
    }

    /// Whether it sends nothing just now.
    pub fn is_idle(&self) -> bool {
        self.sending.is_none()
    }

    /// Accounts for a packet that has come; `first`: control does not wait behind data. Returns whether it may
    /// go out at once: nothing waits at an idle port but data that was stopped. Else [`Port::queue`] it.
    ///
    /// A packet that does not wait is never written to its queue: to read what was just written in pieces takes
    /// until they have reached the cache.
    pub(crate) fn admit(&mut self, packet: &Packet, first: bool) -> bool {
        self.bytes += u64::from(packet.bytes);
        self.packets += 1;
        self.max_bytes = self.max_bytes.max(self.bytes);
        self.max_packets = self.max_packets.max(self.packets);
        self.is_idle() && (!self.paused || goes_ahead(packet, first))
    }

    /// The packet waits.
    pub(crate) fn queue(&mut self, packet: Packet, first: bool, waiting: &mut Waiting) {
        let ahead = goes_ahead(&packet, first);
        if ahead { &mut self.control } else { &mut self.data }.push(packet, waiting);
    }

    /// The packet to send next, taken from its queue.
    pub(crate) fn next(&mut self, waiting: &mut Waiting) -> Option<Packet> {
        match self.control.pop(waiting) {
            Some(packet) => Some(packet),
            None if self.paused => None,
            None => self.data.pop(waiting),
        }
    }

    /// The last packet that waits behind others.
    pub(crate) fn last_data<'a>(&self, waiting: &'a mut Waiting) -> Option<&'a mut Packet> {
        self.data.last(waiting)
    }
}

fn goes_ahead(packet: &Packet, first: bool) -> bool {
    first && (packet.class == Class::Control || packet.trimmed)
}
