//! What ConWeave's switches write on packets: 3 bits of kind, 4 of epoch, 10 of path, 15 of time.

use crate::packet::Packet;
use crate::time::Ps;

/// Paths that a tag can name.
pub(super) const PATHS: usize = 1 << PATH_BITS;

const KIND_BITS: u32 = 3;
const EPOCH_BITS: u32 = 4;
const PATH_BITS: u32 = 10;
const TIME_BITS: u32 = 32 - KIND_BITS - EPOCH_BITS - PATH_BITS;
/// The clock counts these, and comes round after 8.4 ms: no packet waits as long.
const TICK: Ps = Ps::from_nanos(256);

/// What a packet is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(super) enum Kind {
    /// On the epoch's first path.
    Data = 1,
    /// The epoch's first packet: a reply is wanted.
    Request,
    /// The last on the first path.
    Tail,
    /// On the second path.
    Rerouted,
    /// To the source: the request has come.
    Reply,
    /// To the source: the tail has come, and everything is in order.
    Clear,
    /// To the source: a packet on this path was marked.
    Marked,
}

const KINDS: [Kind; 7] =
    [Kind::Data, Kind::Request, Kind::Tail, Kind::Rerouted, Kind::Reply, Kind::Clear, Kind::Marked];

/// The clock of an edge switch, as tags carry it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stamp(u16);

/// What is written on a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Tag {
    pub(super) kind: Kind,
    pub(super) epoch: Epoch,
    pub(super) path: u16,
    /// When the packet left its edge switch; of a rerouted one, when the tail did.
    pub(super) sent: Stamp,
}

/// An epoch's number, which comes round.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Epoch(u8);

impl Epoch {
    pub(super) fn next(self) -> Epoch {
        Epoch((self.0 + 1) % (1 << EPOCH_BITS))
    }

    /// Whether it is one of the half of all that follow another.
    pub(super) fn follows(self, other: Epoch) -> bool {
        let ahead = self.0.wrapping_sub(other.0) % (1 << EPOCH_BITS);
        (1..1 << (EPOCH_BITS - 1)).contains(&ahead)
    }
}

impl Stamp {
    pub(super) fn at(time: Ps) -> Stamp {
        Stamp((time.0 / TICK.0 % (1 << TIME_BITS)) as u16)
    }

    /// The time from an earlier stamp to this one.
    pub(super) fn since(self, earlier: Stamp) -> Ps {
        TICK * u64::from(self.0.wrapping_sub(earlier.0) % (1 << TIME_BITS))
    }
}

impl Tag {
    /// What is written on a packet; `None`: nothing.
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
