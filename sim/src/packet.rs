//! Packets in flight, and the store of their bodies.
//!
//! A packet is a small value that moves from queue to queue. It holds the fields that a switch
//! reads. Its body stays in a store until the receiver takes it.

use braid_transport::{NicEpoch, Placement};
use braid_wire::{Ack, Control, Credit, DataHeader, PathId};

use crate::prefetch;

/// The class of a packet, which a fabric may treat differently.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Class {
    /// A packet with payload.
    Data,
    /// An acknowledgement or another packet without payload.
    Control,
}

/// The fields of a packet that a switch reads, and the marks of the fabric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet {
    /// The sending interface.
    pub src: u32,
    /// The receiving interface.
    pub dst: u32,
    /// The end of a queue pair that receives it: an [`EndId`].
    pub end: u32,
    /// Low 24 bits of the PSN, or of the cumulative PSN of an ACK.
    pub psn: u32,
    /// Bytes of the frame, without the gap after it.
    pub bytes: u32,
    /// The tag that switches write for each other; 0 when the packet leaves its host.
    pub tag: u32,
    /// The place of the body.
    pub body: BodyId,
    /// The link that the packet is on or arrived by; `u32::MAX` before the first.
    pub(crate) ingress: u32,
    /// The link by which the packet came to the node that has sent it; `u32::MAX`: it began there.
    pub(crate) came_by: u32,
    /// The path chosen by the sender: the UDP source port.
    pub path: PathId,
    /// Data or control.
    pub class: Class,
    /// Whether it carries a congestion mark (ECN CE).
    pub marked: bool,
    /// Whether a switch has trimmed it.
    pub trimmed: bool,
}

/// The place of a body in [`Bodies`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BodyId(u32);

/// The number of an end. Even ends send, and the next odd one receives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EndId(pub u32);

impl EndId {
    /// Returns the other end of the same queue pair.
    pub const fn peer(self) -> EndId {
        EndId(self.0 ^ 1)
    }

    /// Returns whether this is the sending end.
    pub const fn sends(self) -> bool {
        self.0.is_multiple_of(2)
    }

    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The content of a packet for its receiver.
#[derive(Clone, PartialEq, Debug)]
pub enum Body {
    /// A segment and its placement. The payload is only described.
    Data(DataHeader, Placement),
    /// An acknowledgement.
    Ack(Ack),
    /// A request or grant of credit.
    Credit(Credit),
    /// A ping or a tear-down.
    Control(Control),
    /// The NIC queue pair with which the sender of this packet receives from now on.
    Epoch(NicEpoch),
    /// A trimmed segment that the network returns to its sender. The packet carries its PSN.
    Returned,
    /// A packet between switches, which no host reads.
    Internal,
}

/// The bodies of all packets in flight. Places are reused, so a run allocates no more once it is in
/// its steady state.
#[derive(Clone, Debug, Default)]
pub struct Bodies {
    data: Store<(DataHeader, Placement)>,
    other: Store<Body>,
}

/// Bodies of one kind. Segments are kept apart, because they are the most frequent and small.
#[derive(Clone, Debug)]
struct Store<T> {
    bodies: Vec<Option<T>>,
    free: Vec<BodyId>,
}

impl<T> Default for Store<T> {
    fn default() -> Self {
        Store { bodies: Vec::new(), free: Vec::new() }
    }
}

impl<T> Store<T> {
    #[inline]
    fn put(&mut self, body: T) -> BodyId {
        match self.free.pop() {
            Some(id) => {
                self.bodies[id.0 as usize] = Some(body);
                id
            }
            None => {
                self.bodies.push(Some(body));
                BodyId(self.bodies.len() as u32 - 1)
            }
        }
    }

    fn take(&mut self, id: BodyId) -> T {
        self.free.push(id);
        self.bodies[id.0 as usize].take().expect("a packet has its body")
    }

    #[inline]
    fn discard(&mut self, id: BodyId) {
        self.free.push(id);
        self.bodies[id.0 as usize] = None;
    }

    fn len(&self) -> usize {
        self.bodies.len() - self.free.len()
    }
}

impl Bodies {
    /// Returns the number of packets in flight.
    pub fn len(&self) -> usize {
        self.data.len() + self.other.len()
    }

    /// Returns whether no packet is in flight.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Stores a body and returns the packet that carries it.
    ///
    /// # Panics
    /// Panics if a data packet carries no segment, or a control packet carries one.
    pub fn load(&mut self, packet: Packet, body: Body) -> Packet {
        let is_data = matches!(body, Body::Data(..));
        assert!(is_data == (packet.class == Class::Data), "{:?} carries {body:?}", packet.class);
        let body = match body {
            Body::Data(header, placement) => self.data.put((header, placement)),
            other => self.other.put(other),
        };
        Packet { body, ..packet }
    }

    /// Stores a segment and returns the data packet that carries it.
    #[inline]
    pub(crate) fn load_data(
        &mut self,
        packet: Packet,
        header: DataHeader,
        placement: Placement,
    ) -> Packet {
        Packet { body: self.data.put((header, placement)), ..packet }
    }

    /// Takes the body of a packet that has reached the end of its route.
    pub fn unload(&mut self, packet: &Packet) -> Body {
        match packet.class {
            Class::Data => {
                let (header, placement) = self.data.take(packet.body);
                Body::Data(header, placement)
            }
            Class::Control => self.other.take(packet.body),
        }
    }

    /// Drops the body of a packet that has reached the end of its route.
    #[inline]
    pub(crate) fn discard(&mut self, packet: &Packet) {
        match packet.class {
            Class::Data => self.data.discard(packet.body),
            Class::Control => self.other.discard(packet.body),
        }
    }

    /// Requests the body of a packet.
    #[inline]
    pub(crate) fn expect(&self, packet: &Packet) {
        let place = packet.body.0 as usize;
        match packet.class {
            Class::Data => prefetch::element(&self.data.bodies, place),
            Class::Control => prefetch::element(&self.other.bodies, place),
        }
    }

    /// Returns the segment of a packet, if it carries one.
    pub(crate) fn data(&self, packet: &Packet) -> Option<&(DataHeader, Placement)> {
        let store = (packet.class == Class::Data).then_some(&self.data)?;
        store.bodies.get(packet.body.0 as usize)?.as_ref()
    }

    /// Returns the acknowledgement of a packet, for switches that read them. `None`: it carries
    /// none.
    pub fn ack(&self, packet: &Packet) -> Option<&Ack> {
        match self.other.bodies.get(packet.body.0 as usize) {
            Some(Some(Body::Ack(ack))) if packet.class == Class::Control => Some(ack),
            _ => None,
        }
    }

    /// Returns the acknowledgement of a packet for modification.
    pub fn ack_mut(&mut self, packet: &Packet) -> Option<&mut Ack> {
        match self.other.bodies.get_mut(packet.body.0 as usize) {
            Some(Some(Body::Ack(ack))) if packet.class == Class::Control => Some(ack),
            _ => None,
        }
    }
}

impl Packet {
    /// Creates a packet without a body.
    pub fn new(src: u32, dst: u32, end: u32, class: Class, bytes: u32) -> Packet {
        Packet {
            src,
            dst,
            end,
            psn: 0,
            bytes,
            tag: 0,
            body: BodyId(u32::MAX),
            ingress: u32::MAX,
            came_by: u32::MAX,
            path: PathId::default(),
            class,
            marked: false,
            trimmed: false,
        }
    }

    /// Returns whether the packet carries a segment, trimmed or not.
    pub fn is_data(&self) -> bool {
        self.class == Class::Data
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_fits_a_cache_line_with_its_event() {
        assert!(size_of::<Packet>() <= 44, "{}", size_of::<Packet>());
    }

    #[test]
    fn places_are_used_again() {
        let mut bodies = Bodies::default();
        let packet = Packet::new(0, 1, 0, Class::Control, 64);
        let first = bodies.load(packet, Body::Returned);
        assert_eq!((bodies.unload(&first), bodies.len()), (Body::Returned, 0));
        assert_eq!(bodies.load(packet, Body::Internal).body, first.body);
    }
}
