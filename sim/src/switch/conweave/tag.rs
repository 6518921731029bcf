//! Tags of ConWeave on packets: 3 bits of kind, 4 of epoch, 10 of path, 15 of time.

use crate::packet::Packet;
use crate::time::Ps;

/// Number of paths that a tag can name.
pub(super) const PATHS: usize = 1 << PATH_BITS;

const KIND_BITS: u32 = 3;
const EPOCH_BITS: u32 = 4;
const PATH_BITS: u32 = 10;
const TIME_BITS: u32 = 32 - KIND_BITS - EPOCH_BITS - PATH_BITS;
/// The resolution of the clock, which wraps after 8.4 ms. No packet waits that long.
const TICK: Ps = Ps::from_nanos(256);

/// The kind of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(super) enum Kind {
    /// A packet on the epoch's first path.
    Data = 1,
    /// The first packet of an epoch, which asks for a reply.
    Request,
    /// The last packet on the first path.
    Tail,
    /// A packet on the second path.
    Rerouted,
    /// To the source: the request has arrived.
    Reply,
    /// To the source: the tail has arrived, and order is restored.
    Clear,
    /// To the source: a packet on this path was marked.
    Marked,
}

const KINDS: [Kind; 7] =
    [Kind::Data, Kind::Request, Kind::Tail, Kind::Rerouted, Kind::Reply, Kind::Clear, Kind::Marked];

/// The clock of an edge switch in the resolution of tags.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stamp(u16);

/// The tag of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Tag {
    pub(super) kind: Kind,
    pub(super) epoch: Epoch,
    pub(super) path: u16,
    /// The time at which the packet left its edge switch; for a rerouted packet, the time of the
    /// tail.
    pub(super) sent: Stamp,
}

/// The number of an epoch, which wraps.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Epoch(u8);

impl Epoch {
    pub(super) fn next(self) -> Epoch {
        Epoch((self.0 + 1) % (1 << EPOCH_BITS))
    }

    /// Returns whether this epoch is in the half of all numbers after `other`.
    pub(super) fn follows(self, other: Epoch) -> bool {
        let ahead = self.0.wrapping_sub(other.0) % (1 << EPOCH_BITS);
        (1..1 << (EPOCH_BITS - 1)).contains(&ahead)
    }
}

impl Stamp {
    pub(super) fn at(time: Ps) -> Stamp {
        Stamp((time.0 / TICK.0 % (1 << TIME_BITS)) as u16)
    }

    /// Returns the time from an earlier stamp to this one.
    pub(super) fn since(self, earlier: Stamp) -> Ps {
        TICK * u64::from(self.0.wrapping_sub(earlier.0) % (1 << TIME_BITS))
    }
}

impl Tag {
    /// Reads the tag of a packet. `None`: it has none.
    pub(super) fn of(packet: &Packet) -> Option<Tag> {
        let mut rest = packet.tag;
        let mut take = |bits: u32| {
            let low = rest & ((1 << bits) - 1);
            rest >>= bits;
            low
        };
        let kind = *KINDS.get((take(KIND_BITS) as usize).checked_sub(1)?)?;
        let (epoch, path, sent) = (take(EPOCH_BITS), take(PATH_BITS), take(TIME_BITS));
        let (epoch, sent) = (Epoch(epoch as u8), Stamp(sent as u16));
        Some(Tag { kind, epoch, path: path as u16, sent })
    }

    pub(super) fn write(self) -> u32 {
        let parts = [
            (TIME_BITS, u32::from(self.sent.0)),
            (PATH_BITS, u32::from(self.path)),
            (EPOCH_BITS, u32::from(self.epoch.0)),
            (KIND_BITS, self.kind as u32),
        ];
        parts.into_iter().fold(0, |tag, (bits, value)| tag << bits | value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Class;

    #[test]
    fn a_tag_is_read_as_it_was_written() {
        let packet = Packet::new(0, 1, 0, Class::Data, 1000);
        assert_eq!(Tag::of(&packet), None);
        for kind in KINDS {
            let sent = Stamp::at(Ps::from_micros(8_000));
            let tag = Tag { kind, epoch: Epoch(15), path: 1023, sent };
            assert_eq!(Tag::of(&Packet { tag: tag.write(), ..packet }), Some(tag));
        }
    }

    #[test]
    fn clock_and_epochs_come_round() {
        let (before, after) =
            (Stamp::at(TICK * ((1 << TIME_BITS) - 3)), Stamp::at(TICK * ((1 << TIME_BITS) + 4)));
        assert_eq!(after.since(before), TICK * 7);
        let last = Epoch(15);
        assert!(last.next().follows(last) && !last.follows(last.next()) && !last.follows(last));
    }
}
