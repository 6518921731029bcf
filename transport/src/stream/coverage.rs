//! Coverage of messages by segments that have arrived. A message is whole when its bytes are
//! covered from 0 to its length, each exactly once. The cuts and the order of the segments do not
//! matter.

use braid_wire::{DataHeader, Opcode};

/// Maximum number of ranges beyond fronts per queue. A sender that cuts a message in PSN order has
/// a packet in the window for each range, so it never needs more.
const MAX_RANGES: usize = 4096;

/// The bytes of one message that have arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Arriving {
    opcode: Opcode,
    len: u32,
    /// Number of bytes from 0 on without a hole.
    front: u32,
}

impl Arriving {
    /// Returns a message that counts as whole from the start.
    pub(crate) fn whole(opcode: Opcode) -> Self {
        Arriving { opcode, len: 0, front: 0 }
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.front == self.len
    }
}

/// A segment contradicts others of its message. It covers bytes that have arrived before, or it is
/// empty although its message is not. Or it belongs to another message, or leaves more holes than
/// packets can be missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Contradiction;

/// Bytes that have arrived beyond the fronts of a queue's messages: usually none.
///
/// Invariants: `ranges` is sorted by message and start. The ranges of a message are not empty, lie
/// beyond its front, and neither overlap nor touch each other or the front.
#[derive(Clone, Debug, Default)]
pub(crate) struct Coverage {
    ranges: Vec<Range>,
}

#[derive(Clone, Copy, Debug)]
struct Range {
    message: u64,
    start: u32,
    end: u32,
}

impl Coverage {
    /// Adds a segment of the message with this number in its queue.
    #[inline]
    pub(crate) fn cover(
        &mut self,
        message: u64,
        arriving: &mut Option<Arriving>,
        header: &DataHeader,
    ) -> Result<(), Contradiction> {
        let (opcode, len, start) = (header.opcode, header.message_len, header.offset);
        let end = start.saturating_add(header.len.into());
        let mut known = match *arriving {
            None => Arriving { opcode, len, front: 0 },
            Some(known) if (known.opcode, known.len) == (opcode, len) && !known.is_whole() => known,
            Some(_) => return Err(Contradiction),
        };
        if start == known.front && start < end && self.ranges.is_empty() {
            known.front = end;
        } else if len > 0 {
            self.insert(message, &mut known.front, start, end)?;
        }
        *arriving = Some(known);
        Ok(())
    }

    #[inline(never)]
    fn insert(
        &mut self,
        message: u64,
        front: &mut u32,
        start: u32,
        end: u32,
    ) -> Result<(), Contradiction> {
        let ranges = &mut self.ranges;
        let at = ranges.partition_point(|range| (range.message, range.start) < (message, start));
        let own = |index: &usize| ranges.get(*index).is_some_and(|range| range.message == message);
        let (before, after) = (at.checked_sub(1).filter(own), Some(at).filter(own));
        let reached = before.map_or(*front, |index| ranges[index].end);
        if start < reached || start >= end || after.is_some_and(|index| ranges[index].start < end) {
            return Err(Contradiction);
        }
        let touches = after.is_some_and(|index| ranges[index].start == end);
        let end = if touches { ranges.remove(at).end } else { end };
        match before {
            _ if start > reached && ranges.len() >= MAX_RANGES => return Err(Contradiction),
            _ if start > reached => ranges.insert(at, Range { message, start, end }),
            Some(index) => ranges[index].end = end,
            None => *front = end,
        }
        Ok(())
    }

    /// Releases unused memory.
    pub(crate) fn trim(&mut self) {
        self.ranges.shrink_to(crate::idle::KEPT_ENTRIES);
    }
}

#[cfg(test)]
mod tests {
    use braid_wire::{QpId, Token};
    use proptest::prelude::*;

    use super::*;

    fn segment(opcode: Opcode, message_len: u32, offset: u32, len: u16) -> DataHeader {
        DataHeader {
            opcode,
            qp: QpId::new(2),
            token: Token(7),
            psn: 0,
            ack_request: false,
            solicited: false,
            last: offset + u32::from(len) == message_len,
            retransmission: false,
            number: 0,
            address: 0,
            rkey: 0,
            message_len,
            offset,
            len,
            imm: 0,
            stamp: 0,
            payload_crc: 0,
            operands: None,
        }
    }

    #[test]
    fn a_message_that_contradicts_itself_is_refused() {
        let (mut coverage, mut arriving) = (Coverage::default(), None);
        let mut cover = |opcode, message_len, offset, len| {
            coverage.cover(0, &mut arriving, &segment(opcode, message_len, offset, len))
        };
        assert_eq!(cover(Opcode::Send, 100, 0, 10), Ok(()));
        assert_eq!(cover(Opcode::SendImm, 100, 10, 10), Err(Contradiction), "another opcode");
        assert_eq!(cover(Opcode::Send, 101, 10, 10), Err(Contradiction), "another length");
        assert_eq!(cover(Opcode::Send, 100, 9, 10), Err(Contradiction), "a byte twice");
        assert_eq!(cover(Opcode::Send, 100, 10, 0), Err(Contradiction), "no byte at all");
        assert_eq!(cover(Opcode::Send, 100, 20, 80), Ok(()));
        assert_eq!(cover(Opcode::Send, 100, 10, 11), Err(Contradiction), "a byte twice");
        assert!(!arriving.unwrap().is_whole());
    }

    #[test]
    fn nothing_follows_a_whole_message() {
        let (mut coverage, mut arriving) = (Coverage::default(), None);
        let other = segment(Opcode::Send, 100, 10, 10);
        assert_eq!(coverage.cover(1, &mut None, &other), Ok(()), "another one has a hole");
        let empty = segment(Opcode::Send, 0, 0, 0);
        assert_eq!(coverage.cover(0, &mut arriving, &empty), Ok(()));
        assert!(arriving.unwrap().is_whole());
        assert_eq!(coverage.cover(0, &mut arriving, &empty), Err(Contradiction));
    }

    #[test]
    fn holes_are_no_more_than_packets_can_be_missing() {
        let (mut coverage, mut arriving) = (Coverage::default(), None);
        let len = 4 * MAX_RANGES as u32;
        let mut cover = |offset| {
            coverage.cover(0, &mut arriving, &segment(Opcode::ReadResponse, len, offset, 1))
        };
        for hole in 0..MAX_RANGES as u32 {
            assert_eq!(cover(len - 2 - 2 * hole), Ok(()));
        }
        assert_eq!(cover(1), Err(Contradiction));
        assert_eq!(cover(0), Ok(()), "the front moves on");
        assert_eq!(cover(len - 1), Ok(()), "a hole that is filled makes none");
    }

    const LEN: u32 = 64;

    proptest! {
        /// Compares with a flag for each byte: segments of several messages, some of which overlap.
        #[test]
        fn every_byte_counts_once(
            segments in prop::collection::vec((0usize..3, 0u32..LEN, 1u16..24), 1..80),
        ) {
            let mut coverage = Coverage::default();
            let mut messages = [None; 3];
            let mut model = [[false; LEN as usize]; 3];
            for (message, offset, len) in segments {
                let len = len.min((LEN - offset) as u16);
                let bytes = offset as usize..(offset + u32::from(len)) as usize;
                let is_new = model[message][bytes.clone()].iter().all(|covered| !covered);
                let header = segment(Opcode::Send, LEN, offset, len);
                let outcome = coverage.cover(message as u64, &mut messages[message], &header);
                prop_assert_eq!(outcome.is_ok(), is_new);
                if is_new {
                    model[message][bytes].fill(true);
                }
                let whole = model[message].iter().all(|covered| *covered);
                prop_assert_eq!(messages[message].unwrap().is_whole(), whole);
            }
            let unfinished = messages.iter().flatten().any(|message: &Arriving| !message.is_whole());
            prop_assert!(unfinished || coverage.ranges.is_empty());
        }

        /// A message that is cut in any way and shuffled becomes whole with its last segment, not
        /// before.
        #[test]
        fn a_shuffled_message_becomes_whole(
            cuts in prop::collection::btree_set(1u32..LEN, 0..20),
            order in any::<u64>(),
        ) {
            let ends = cuts.iter().copied().chain([LEN]);
            let starts = [0].into_iter().chain(cuts.iter().copied());
            let mut segments: Vec<_> = starts.zip(ends).collect();
            let count = segments.len();
            for index in (1..count).rev() {
                segments.swap(index, (order.rotate_left(index as u32) % (index as u64 + 1)) as usize);
            }
            let (mut coverage, mut arriving) = (Coverage::default(), None);
            for (index, (start, end)) in segments.into_iter().enumerate() {
                let header = segment(Opcode::Send, LEN, start, (end - start) as u16);
                prop_assert_eq!(coverage.cover(5, &mut arriving, &header), Ok(()));
                prop_assert_eq!(arriving.unwrap().is_whole(), index + 1 == count);
            }
            prop_assert!(coverage.ranges.is_empty());
        }
    }
}
