//! Path quanta. A quantum is a sequence of segments that take the same path, in one or more
//! batches. The driver sends each batch in one call.

use std::num::NonZeroU32;

use braid_wire::PathId;

use super::segment::Segment;
use crate::EndpointConfig;

/// Sizes of a quantum and a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchLimit {
    /// Maximum number of segments in a batch.
    segments: u32,
    /// Maximum number of segments that are handed out together with another one.
    followers: u32,
    /// Maximum number of segments in a quantum. More than a batch of full segments are whole
    /// batches.
    quantum: u32,
    /// Wire bytes of a full segment.
    full_segment: u64,
    /// Wire bytes of a batch of full segments.
    batch: u64,
    /// Maximum wire bytes of a batch. Segments that are not full can fill more of them.
    bytes: u64,
}

impl BatchLimit {
    /// `mtu`: payload bytes of a full segment.
    pub(crate) fn new(endpoint: &EndpointConfig, mtu: u16) -> Self {
        let (segments, full_segment) = (endpoint.longest_batch(), Segment::wire_len(mtu));
        let most = endpoint.quantum.unwrap_or(EndpointConfig::QUANTUM).min(segments);
        let whole = (endpoint.batch_bytes / full_segment).clamp(1, most.into());
        let quantum = endpoint.quantum.map_or(whole as u32, |most| most.max(segments));
        let quantum = quantum - quantum % whole as u32;
        let followers = endpoint.transmit_segments.saturating_sub(1);
        let batch = whole * full_segment;
        let bytes = endpoint.batch_bytes.min(u64::from(most) * full_segment).max(batch);
        BatchLimit { segments, followers, quantum, full_segment, batch, bytes }
    }

    /// Maximum number of segments in a batch.
    pub(crate) fn segments(self) -> u32 {
        self.segments
    }

    /// Maximum number of segments that are handed out together with another one.
    pub(crate) fn followers(self) -> u32 {
        self.followers
    }

    /// Wire bytes of a batch of full segments.
    pub(crate) fn batch(self) -> u64 {
        self.batch
    }

    /// Wire bytes of a quantum if `quanta` of them share the window `allowance`. The share is
    /// rounded down to whole batches, unless it is smaller than one; it is at least a full segment.
    /// With a large window, a new path for each batch would cost an eighth of the throughput in
    /// cold sockets.
    pub(crate) fn room(self, allowance: u64, quanta: u64) -> u64 {
        let room = allowance / quanta;
        let whole = if room >= self.batch { room - room % self.batch } else { room };
        whole.max(self.full_segment)
    }

    /// Size of a quantum in full segments, the unit in which path policies plan.
    pub(crate) fn full_segments(self, room: u64) -> u32 {
        u32::try_from(room / self.full_segment).unwrap_or(u32::MAX).clamp(1, self.quantum)
    }
}

/// The last batch, while segments of other queue pairs may join it. A default batch has no room.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OpenBatch {
    path: PathId,
    /// Bytes for which there is still room.
    left: u64,
    /// Segments for which there is still room.
    segments: u32,
    /// Wire bytes of its longest segment. Without room for another such segment it is full.
    longest: u64,
}

/// The quantum of the next segments. A default quantum has ended.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Quantum {
    quantum_path: PathId,
    /// Path of the batch. A shared batch has the path of another queue pair.
    path: PathId,
    /// Segments for which there is still room; 0: the quantum ends with its batch.
    left: u32,
    /// Bytes for which there is still room.
    room: u64,
    /// Bytes for which the batch still has room; 0: the next segment begins a batch.
    batch: u64,
    /// Segments for which the batch still has room.
    segments: u32,
    /// Wire bytes of the longest segment of the batch.
    longest: u64,
    /// Whether the path policy limits the segments of this quantum, so that no batch of its own may
    /// exceed `left`.
    is_short: bool,
}

impl Quantum {
    pub(crate) fn new(path: PathId, limit: BatchLimit, room: u64) -> Self {
        let left = limit.quantum;
        Quantum { quantum_path: path, path, left, room, ..Quantum::default() }
    }

    /// Creates a quantum of at most `most` segments.
    pub(crate) fn short(path: PathId, limit: BatchLimit, room: u64, most: NonZeroU32) -> Self {
        let left = limit.quantum.min(most.get());
        Quantum { left, is_short: true, ..Quantum::new(path, limit, room) }
    }

    /// The path of the segment that joined last.
    pub(crate) fn path(&self) -> PathId {
        self.path
    }

    /// Lets the next segment, with `len` bytes of payload, join a batch of another queue pair if it
    /// fits and would otherwise begin a batch. This avoids short batches if many queue pairs have
    /// little to send. The quantum keeps its own path, so that queue pairs which begin batches take
    /// different paths.
    pub(crate) fn share(&mut self, open: OpenBatch, len: u16) {
        let same_rail = open.path.rail() == self.quantum_path.rail();
        let fits = Segment::wire_len(len) <= open.left;
        if self.begins_batch() && same_rail && fits {
            (self.path, self.batch) = (open.path, open.left);
            (self.segments, self.longest) = (open.segments, open.longest);
        }
    }

    /// The batch that other queue pairs may join.
    pub(crate) fn batch(&self) -> OpenBatch {
        let Quantum { path, batch: left, segments, longest, .. } = *self;
        OpenBatch { path, left, segments, longest }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.left == 0 && self.batch == 0
    }

    /// Ends the quantum, so that the next segment begins another.
    pub(crate) fn end(&mut self) {
        (self.left, self.batch) = (0, 0);
    }

    /// Ends the batch, so that the next segment begins another.
    pub(crate) fn end_batch(&mut self) {
        self.batch = 0;
    }

    pub(crate) fn begins_batch(&self) -> bool {
        self.batch == 0
    }

    /// Adds a segment with `len` bytes of payload.
    pub(crate) fn join(&mut self, len: u16, limit: BatchLimit) {
        let bytes = Segment::wire_len(len);
        if self.begins_batch() {
            (self.path, self.batch, self.longest) = (self.quantum_path, limit.bytes, 0);
            self.segments =
                if self.is_short { self.left.min(limit.segments) } else { limit.segments };
        }
        self.left = self.left.saturating_sub(1);
        self.segments = self.segments.saturating_sub(1);
        let rest = self.batch.saturating_sub(bytes);
        self.longest = self.longest.max(bytes);
        let is_full = rest < self.longest || self.segments == 0;
        self.batch = if is_full { 0 } else { rest };
        self.room = self.room.saturating_sub(bytes);
        if self.room < limit.full_segment {
            self.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The wire bytes of a full segment in these tests.
    const FULL: u64 = 1000;

    fn limit(batch_segments: u32, batch_bytes: u64, quantum: Option<u32>) -> BatchLimit {
        let config = EndpointConfig { batch_segments, batch_bytes, quantum, ..Default::default() };
        let mtu = FULL - Segment::wire_len(0);
        BatchLimit::new(&config, mtu as u16)
    }

    /// Returns the lengths of the batches of a quantum that has a large window.
    fn batches(limit: BatchLimit, most: Option<u32>) -> Vec<u32> {
        let (path, room) = (PathId::new(1), limit.room(1 << 30, 8));
        let mut quantum = match most.and_then(NonZeroU32::new) {
            Some(most) => Quantum::short(path, limit, room, most),
            None => Quantum::new(path, limit, room),
        };
        let mut batches = Vec::new();
        while !quantum.has_ended() {
            if quantum.begins_batch() {
                batches.push(0);
            }
            *batches.last_mut().expect("a segment begins a batch") += 1;
            quantum.join((FULL - Segment::wire_len(0)) as u16, limit);
        }
        batches
    }

    #[test]
    fn a_quantum_is_a_batch_by_default() {
        assert_eq!(batches(limit(64, 65_507, None), None), [48]);
        assert_eq!(batches(limit(64, 44 * FULL, None), None), [44]);
        assert_eq!(batches(limit(64, 15 * FULL, None), None), [15]);
        assert_eq!(batches(limit(1, 65_507, None), None), [1]);
    }

    /// Short segments cost as much per batch as long ones, and fill queues less.
    #[test]
    fn the_default_quantum_limits_bytes() {
        let limit = limit(64, 65_507, None);
        let mut quantum = Quantum::new(PathId::new(1), limit, limit.room(1 << 30, 8));
        let mut segments = 0;
        while !quantum.has_ended() {
            quantum.join(8, limit);
            segments += 1;
        }
        assert_eq!(segments, 64);
    }

    #[test]
    fn segments_that_are_not_full_use_all_bytes_of_a_batch() {
        let limit = limit(64, 3 * FULL + 900, None);
        let lengths = |payloads: &[u16]| {
            let mut quantum = Quantum::new(PathId::new(1), limit, limit.room(1 << 30, 8));
            let mut bytes = 0;
            for payload in payloads.iter().cycle() {
                quantum.join(*payload, limit);
                bytes += Segment::wire_len(*payload);
                if quantum.has_ended() {
                    break;
                }
            }
            bytes
        };
        let payload = |wire_len: u64| (wire_len - Segment::wire_len(0)) as u16;
        assert_eq!(lengths(&[payload(FULL)]), 3 * FULL);
        assert_eq!(lengths(&[payload(430)]), 9 * 430);
        assert_eq!(lengths(&[payload(FULL), payload(500)]), 2 * (FULL + 500));
        assert_eq!(lengths(&[payload(500), payload(FULL)]), 2 * (FULL + 500));
    }

    #[test]
    fn a_quantum_never_has_more_segments_than_configured() {
        for (quantum, expected) in [
            (1, vec![1]),
            (8, vec![8]),
            (43, vec![43]),
            (44, vec![44]),
            (87, vec![44]),
            (88, vec![44, 44]),
            (150, vec![44, 44, 44]),
        ] {
            let limit = limit(64, 44 * FULL, Some(quantum));
            assert_eq!(batches(limit, None), expected, "{quantum}");
            assert_eq!(limit.full_segments(u64::MAX), expected.iter().sum::<u32>());
        }
    }

    #[test]
    fn a_limit_of_the_path_policy_cuts_the_quantum() {
        let long = limit(64, 44 * FULL, Some(88));
        assert_eq!(batches(long, Some(10)), [10]);
        assert_eq!(batches(long, Some(50)), [44, 6]);
        assert_eq!(batches(limit(64, 44 * FULL, Some(8)), Some(10)), [8]);
    }

    #[test]
    fn a_small_window_shortens_quanta_to_a_segment() {
        let limit = limit(64, 44 * FULL, Some(88));
        assert_eq!((limit.room(0, 8), limit.full_segments(0)), (FULL, 1));
        assert_eq!(limit.full_segments(limit.room(8 * 10 * FULL, 8)), 10);
        assert_eq!(limit.full_segments(limit.room(8 * 60 * FULL, 8)), 44);
    }
}
