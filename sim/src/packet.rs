//! Packets under way, and where what they carry is kept meanwhile.
//!
//! A packet is a small value that moves from queue to queue: what a switch needs of it is at hand, in
//! order, wherever the switch looks. Its body waits on a shelf for its receiver.

use braid_transport::{NicEpoch, Placement};
use braid_wire::{Ack, Control, DataHeader, PathId};

/// What a fabric treats differently.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Class {
    /// Carries payload.
    Data,
    /// An acknowledgement or another sign from host to host.
    Control,
}

/// What a switch sees of a packet, and what the fabric notes on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet {
    /// The interface it comes from.
    pub src: u32,
    /// The interface it goes to.
    pub dst: u32,
    /// The end of a queue pair that takes it in: its [`EndId`].
    pub end: u32,
    /// Low 24 bits of its PSN; of an ACK, its cumulative PSN.
    pub psn: u32,
    /// Bytes of the frame, without the gap between frames.
    pub bytes: u32,
    /// What switches tell each other with it; 0 when it leaves its host.
    pub tag: u32,
    /// Where its body is.
    pub body: BodyId,
    /// The link that it is on, or came to the switch by; `u32::MAX` before the first.
    pub(crate) ingress: u32,
    /// The path that its sender chose: the UDP source port.
    pub path: PathId,
    /// Data or control.
    pub class: Class,
    /// Carries a congestion mark (ECN CE).
    pub marked: bool,
    /// A switch has cut off its payload.
    pub trimmed: bool,
}

/// A body's place on the [`Bodies`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BodyId(u32);

/// An end's place: even ones send, the next odd one receives from it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EndId(pub u32);

impl EndId {
    /// The other end of the same queue pair.
    pub const fn peer(self) -> EndId {
        EndId(self.0 ^ 1)
    }

    /// Whether it is the sending end.
    pub const fn sends(self) -> bool {
        self.0.is_multiple_of(2)
    }

    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a packet carries for its receiver.
#[derive(Clone, PartialEq, Debug)]
pub enum Body {
    /// A segment and how it is to be placed; payload is never carried, only described.
    Data(DataHeader, Placement),
    /// An acknowledgement.
    Ack(Ack),
    /// A sign of life or tear-down.
    Control(Control),
    /// The end that it comes from receives with this NIC queue pair now.
    Epoch(NicEpoch),
    /// The network gives a trimmed segment back to its sender: the packet's PSN of the requests was lost.
    Returned,
    /// Something between switches, which no host reads.
    Internal,
}

/// The bodies of all packets under way. Places are used again; nothing is allocated once a run is in
/// its stride.
#[derive(Clone, Debug, Default)]
pub struct Bodies {
    data: Shelf<(DataHeader, Placement)>,
    other: Shelf<Body>,
}

/// Bodies of one kind; segments are kept apart because they are most, and small.
#[derive(Clone, Debug)]
struct Shelf<T> {
    bodies: Vec<Option<T>>,
    free: Vec<BodyId>,
}

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Shelf { bodies: Vec::new(), free: Vec::new() }
    }
}

impl<T> Shelf<T> {
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

    fn len(&self) -> usize {
        self.bodies.len() - self.free.len()
    }
}

impl Bodies {
    /// Packets under way.
    pub fn len(&self) -> usize {
        self.data.len() + self.other.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The packet, with a body to carry.
    ///
    /// # Panics
    /// If data carries no segment, or control one.
    pub fn load(&mut self, packet: Packet, body: Body) -> Packet {
        let is_data = matches!(body, Body::Data(..));
        assert!(is_data == (packet.class == Class::Data), "{:?} carries {body:?}", packet.class);
        let body = match body {
            Body::Data(header, placement) => self.data.put((header, placement)),
            other => self.other.put(other),
        };
        Packet { body, ..packet }
    }

    /// The packet has come to its end, wherever.
    pub fn unload(&mut self, packet: &Packet) -> Body {
        match packet.class {
            Class::Data => {
                let (header, placement) = self.data.take(packet.body);
                Body::Data(header, placement)
            }
            Class::Control => self.other.take(packet.body),
        }
    }

    /// What a packet under way carries, if that is data.
    pub(crate) fn data(&self, packet: &Packet) -> Option<&(DataHeader, Placement)> {
        let shelf = (packet.class == Class::Data).then_some(&self.data)?;
        shelf.bodies.get(packet.body.0 as usize)?.as_ref()
    }

    /// The acknowledgement that a packet carries, for switches that read them; `None`: it carries something else.
    pub fn ack(&self, packet: &Packet) -> Option<&Ack> {
        match self.other.bodies.get(packet.body.0 as usize) {
            Some(Some(Body::Ack(ack))) if packet.class == Class::Control => Some(ack),
            _ => None,
        }
    }

    /// As [`Bodies::ack`], to be changed.
    pub fn ack_mut(&mut self, packet: &Packet) -> Option<&mut Ack> {
        match self.other.bodies.get_mut(packet.body.0 as usize) {
            Some(Some(Body::Ack(ack))) if packet.class == Class::Control => Some(ack),
            _ => None,
        }
    }
}

impl Packet {
    /// A packet as its sender makes it, before it is loaded.
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
            path: PathId::default(),
            class,
            marked: false,
            trimmed: false,
        }
    }

    /// Whether it carries a segment, also a trimmed one.
    pub fn is_data(&self) -> bool {
        self.class == Class::Data
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_fits_a_cache_line_with_its_event() {
        assert!(size_of::<Packet>() <= 40, "{}", size_of::<Packet>());
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
