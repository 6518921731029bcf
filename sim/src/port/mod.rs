//! An output port: its queues, and the speed of its link.

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
/// Each packet visits a port at every hop, and in a large fabric no part of the port is in the
/// cache. So the fields that a packet needs are stored together in two cache lines, in this order.
#[derive(Clone, Debug)]
#[repr(C, align(128))]
pub struct Port {
    data: Queue,
    control: Queue,
    /// Whether a packet is being sent, or the gap after it.
    pub(crate) is_sending: bool,
    pub(crate) speed: SpeedId,
    /// The node that sends.
    pub from: Node,
    /// Bytes queued, including the packet that is being sent.
    pub bytes: u64,
    /// Packets queued, including the packet that is being sent.
    pub packets: u32,
    /// Maximum number of packets queued.
    pub max_packets: u32,
    /// Maximum number of bytes queued.
    pub max_bytes: u64,
    /// Packets and bytes put on the link.
    pub sent: LinkLoad,
    /// Time spent sending, including gaps.
    pub busy_time: Ps,
    /// Number of packets marked at this port.
    pub marked: u64,
    /// Whether the receiving switch has paused data.
    pub paused: bool,
    /// Whether the node that sends into this port is paused.
    pub(crate) pause_sent: bool,
    /// Bytes that arrived by this link and are still in the switch behind it.
    pub(crate) held: u64,
    /// Bytes of the buffer behind the link that are kept for what arrives after a pause frame.
    pub(crate) headroom: u64,
    /// The link's speed.
    pub rate: Rate,
    /// Propagation delay.
    pub delay: Ps,
}

/// The packets and bytes that a link has carried.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LinkLoad {
    /// Packets.
    pub packets: u64,
    /// Bytes of frames, without the gaps.
    pub bytes: u64,
}

impl LinkLoad {
    pub(crate) fn count(&mut self, packet: &Packet) {
        self.packets += 1;
        self.bytes += u64::from(packet.bytes);
    }
}

impl Port {
    /// Creates all ports of a fabric, by number.
    pub(crate) fn all(topology: &Topology, speeds: &mut Speeds) -> Vec<Port> {
        let numbers = topology.ports();
        numbers.map(|port| Port::new(topology, port, speeds)).collect()
    }

    fn new(topology: &Topology, port: PortId, speeds: &mut Speeds) -> Port {
        let (cable, rate) = (&topology.cables[port.cable()], topology.rate(port));
        Port {
            is_sending: false,
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
            headroom: 0,
            pause_sent: false,
        }
    }

    /// Changes the speed, from the next packet on.
    pub(crate) fn set_rate(&mut self, rate: Rate, speeds: &mut Speeds) {
        self.rate = rate;
        self.speed = speeds.find(rate, self.delay);
    }

    /// Returns whether the port is idle.
    pub fn is_idle(&self) -> bool {
        !self.is_sending
    }

    /// Accounts for a packet that has arrived; `first`: control overtakes data. Returns whether the
    /// packet may be sent at once: the port is idle and only paused data waits. Otherwise the
    /// caller passes the packet to [`Port::queue`].
    ///
    /// A packet that does not wait is never written to its queue, because reading it back would
    /// wait until all its parts have reached the cache.
    #[inline(always)]
    pub(crate) fn admit(&mut self, packet: &Packet, first: bool) -> bool {
        self.bytes += u64::from(packet.bytes);
        self.packets += 1;
        self.max_bytes = self.max_bytes.max(self.bytes);
        self.max_packets = self.max_packets.max(self.packets);
        self.is_idle() && (!self.paused || goes_ahead(packet, first))
    }

    /// Queues a packet and returns it for changes.
    #[inline(always)]
    pub(crate) fn queue<'a>(
        &mut self,
        packet: &Packet,
        first: bool,
        waiting: &'a mut Waiting,
    ) -> &'a mut Packet {
        let ahead = goes_ahead(packet, first);
        if ahead { &mut self.control } else { &mut self.data }.push(packet, waiting)
    }

    /// Returns the queue of the next packet to send, if the port may send one.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> Option<&mut Queue> {
        if self.is_sending {
            None
        } else if !self.control.is_empty() {
            Some(&mut self.control)
        } else {
            Some(&mut self.data).filter(|data| !self.paused && !data.is_empty())
        }
    }

    /// Returns the place of the first packet that waits, control before data.
    #[inline(always)]
    pub(crate) fn first(&self) -> usize {
        if self.control.is_empty() { self.data.first() } else { self.control.first() }
    }

    /// Returns the last packet in the data queue.
    pub(crate) fn last_data<'a>(&self, waiting: &'a mut Waiting) -> Option<&'a mut Packet> {
        self.data.last(waiting)
    }
}

#[inline(always)]
fn goes_ahead(packet: &Packet, first: bool) -> bool {
    first && (packet.class == Class::Control || packet.trimmed)
}
