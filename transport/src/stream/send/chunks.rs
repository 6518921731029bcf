//! The chunks of a subflow: consecutive segments of its stream. A controller is informed when the
//! first segment of a chunk was sent and when the last was acknowledged.

use std::collections::VecDeque;
use std::time::Duration;

use braid_cc::Chunk;
use braid_wire::{Psn, Time};

/// Invariants: `records` are in PSN order. `complete` counts those with all segments sent and
/// acknowledged. The last record takes `left` more bytes; 0: the next segment begins another.
#[derive(Debug)]
pub(crate) struct Chunks {
    size: u64,
    left: u64,
    records: VecDeque<ChunkRecord>,
    complete: usize,
}

#[derive(Clone, Copy, Debug)]
struct ChunkRecord {
    first: Psn,
    last: Psn,
    unacked: u32,
    chunk: Chunk,
}

/// First acknowledgement of a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChunkAck {
    pub(crate) now: Time,
    /// Delay of the acknowledgement at the peer.
    pub(crate) peer_delay: Duration,
    /// The round-trip sample, if it was taken from this segment.
    pub(crate) rtt: Option<Duration>,
}

impl Chunks {
    /// Creates chunks of `size` bytes.
    pub(crate) fn new(size: u64) -> Self {
        Chunks { size: size.max(1), left: 0, records: VecDeque::new(), complete: 0 }
    }

    /// Counts the first transmission of a segment with this many bytes on the wire.
    pub(crate) fn on_sent(&mut self, now: Time, psn: Psn, bytes: u64) {
        if self.left == 0 {
            self.left = self.size;
            let chunk = Chunk {
                first_sent: now,
                last_sent: now,
                last_acked: now,
                peer_delay: Duration::ZERO,
                bytes: 0,
                longest_rtt: None,
            };
            self.records.push_back(ChunkRecord { first: psn, last: psn, unacked: 0, chunk });
        }
        if let Some(record) = self.records.back_mut() {
            record.last = psn;
            record.chunk.last_sent = now;
            record.chunk.bytes += bytes;
            record.unacked += 1;
        }
        self.left = self.left.saturating_sub(bytes);
    }

    /// Whether the segment sent last is the last of its chunk.
    pub(crate) fn is_between(&self) -> bool {
        self.left == 0
    }

    /// Ends the present chunk, because the stream has nothing more to send.
    pub(crate) fn end(&mut self) {
        if self.left > 0 {
            self.left = 0;
            let ended = self.records.back().is_some_and(|record| record.unacked == 0);
            self.complete += usize::from(ended);
        }
    }

    /// Counts the first acknowledgement of a segment. Returns whether it belongs to a chunk.
    pub(crate) fn on_acked(&mut self, psn: Psn, arrival: ChunkAck) -> bool {
        let Some(index) = self.index(psn) else { return false };
        let is_open = self.left > 0 && index + 1 == self.records.len();
        let ChunkRecord { unacked, chunk, .. } = &mut self.records[index];
        *unacked = unacked.saturating_sub(1);
        (chunk.last_acked, chunk.peer_delay) = (arrival.now, arrival.peer_delay);
        chunk.longest_rtt = chunk.longest_rtt.max(arrival.rtt);
        self.complete += usize::from(*unacked == 0 && !is_open);
        true
    }

    /// Returns the chunk of a segment; usually it is the oldest.
    fn index(&self, psn: Psn) -> Option<usize> {
        let index = match self.records.get(1) {
            Some(second) if psn >= second.first => {
                self.records.partition_point(|record| record.first <= psn).checked_sub(1)?
            }
            _ => 0,
        };
        self.records.get(index).filter(|found| (found.first..=found.last).contains(&psn))?;
        Some(index)
    }

    /// Returns the next chunk whose segments are all acknowledged.
    pub(crate) fn pop(&mut self) -> Option<Chunk> {
        if self.complete == 0 {
            return None;
        }
        self.complete -= 1;
        let index = self.records.iter().position(|record| record.unacked == 0)?;
        self.records.remove(index).map(|record| record.chunk)
    }

    /// Drops all chunks, because their segments will not be acknowledged.
    pub(crate) fn clear(&mut self) {
        *self = Chunks::new(self.size);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Time {
        Time::from_nanos(us * 1000)
    }

    fn arrival(us: u64) -> ChunkAck {
        ChunkAck { now: at(us), peer_delay: Duration::ZERO, rtt: None }
    }

    /// Returns two chunks of two segments each, sent at 0, 1, 2 and 3 us.
    fn two() -> Chunks {
        let mut chunks = Chunks::new(2000);
        (0..4).for_each(|index| chunks.on_sent(at(index), Psn(10 + index), 1000));
        assert!(chunks.is_between());
        chunks
    }

    fn spans(chunks: &mut Chunks) -> Vec<(Time, Time, u64)> {
        let popped = std::iter::from_fn(|| chunks.pop());
        popped.map(|chunk| (chunk.first_sent, chunk.last_acked, chunk.bytes)).collect()
    }

    #[test]
    fn a_chunk_ends_when_the_last_of_its_segments_is_acknowledged_in_whatever_order() {
        let mut chunks = two();
        chunks.on_acked(Psn(13), arrival(20));
        chunks.on_acked(Psn(11), arrival(21));
        assert!(spans(&mut chunks).is_empty());
        chunks.on_acked(Psn(12), arrival(22));
        assert_eq!(spans(&mut chunks), [(at(2), at(22), 2000)]);
        chunks.on_acked(Psn(10), arrival(30));
        assert_eq!(spans(&mut chunks), [(at(0), at(30), 2000)]);
    }

    #[test]
    fn a_chunk_tells_when_its_first_and_its_last_segment_left() {
        let mut chunks = two();
        (10..14).for_each(|psn| assert!(chunks.on_acked(Psn(psn), arrival(20))));
        let sent = std::iter::from_fn(|| chunks.pop()).map(|c| (c.first_sent, c.last_sent));
        assert_eq!(sent.collect::<Vec<_>>(), [(at(0), at(1)), (at(2), at(3))]);
    }

    #[test]
    fn the_longest_sample_is_that_of_its_own_segments() {
        let mut chunks = two();
        let sampled = |us| ChunkAck { rtt: Some(Duration::from_micros(us)), ..arrival(20) };
        for (psn, us) in [(10, 5), (11, 9), (12, 7), (13, 6)] {
            chunks.on_acked(Psn(psn), sampled(us));
        }
        let longest = std::iter::from_fn(|| chunks.pop()).map(|chunk| chunk.longest_rtt.unwrap());
        assert_eq!(longest.collect::<Vec<_>>(), [9, 7].map(Duration::from_micros));
    }

    #[test]
    fn a_stream_that_has_nothing_more_to_send_ends_its_chunk() {
        let mut chunks = Chunks::new(2000);
        chunks.on_sent(at(0), Psn(0), 1000);
        chunks.on_acked(Psn(0), arrival(5));
        assert!(spans(&mut chunks).is_empty(), "more may follow");
        chunks.end();
        chunks.end();
        assert_eq!(spans(&mut chunks), [(at(0), at(5), 1000)]);
        chunks.on_sent(at(9), Psn(1), 1000);
        chunks.end();
        chunks.on_acked(Psn(1), arrival(12));
        assert_eq!(spans(&mut chunks), [(at(9), at(12), 1000)]);
    }
}
