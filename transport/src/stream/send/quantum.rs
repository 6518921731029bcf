//! A path's quantum: segments in a row that take the path, in one or more batches. The driver sends
//! each batch in one call.

use std::num::NonZeroU32;

use braid_wire::PathId;

use super::segment::Segment;
use crate::EndpointConfig;

/// Sizes of a quantum and a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchLimit {
    /// Most segments of a batch.
    segments: u32,
    /// Those of a quantum of full ones: so many, in whole batches.
    quantum: u32,
    /// Wire bytes of a full segment.
    full_segment: u64,
    /// Those of a whole batch of them.
    batch: u64,
}

impl BatchLimit {
    /// `mtu`: payload bytes of a full segment.
    pub(crate) fn new(endpoint: &EndpointConfig, mtu: u16) -> Self {
        let (segments, full_segment) = (endpoint.batch_segments, Segment::wire_len(mtu));
        let whole = (endpoint.batch_bytes / full_segment).clamp(1, segments.max(1).into());
        let quantum = segments.max(1).next_multiple_of(whole as u32);
        BatchLimit { segments, quantum, full_segment, batch: whole * full_segment }
    }

    /// Most segments of a batch.
    pub(crate) fn segments(self) -> u32 {
        self.segments
    }

    /// The wire bytes of a whole batch of full segments.
    pub(crate) fn batch(self) -> u64 {
        self.batch
    }

    /// The bytes of a quantum where `quanta` of them share the window `allowance`: whole batches. A
    /// smaller quantum is part of a batch, and a full segment always fits. A path for each batch
    /// would cost an eighth of the throughput in cold sockets where the window is large.
    pub(crate) fn room(self, allowance: u64, quanta: u64) -> u64 {
        let room = allowance / quanta;
        let whole = if room >= self.batch { room - room % self.batch } else { room };
        whole.max(self.full_segment)
    }

    /// The quantum in full segments: policies plan with these.
    pub(crate) fn full_segments(self, room: u64) -> u32 {
        u32::try_from(room / self.full_segment).unwrap_or(u32::MAX).clamp(1, self.quantum)
    }
}

/// The batch that left last, while others may join it. A default one takes nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OpenBatch {
    path: PathId,
    /// Bytes that it still takes.
    left: u64,
    /// Segments that it still takes.
    segments: u32,
}

/// The quantum that segments join now. A default one has ended.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Quantum {
    quantum_path: PathId,
    /// That of the batch: another queue pair's if it is shared.
    path: PathId,
    /// Segments that it still takes; 0: it ends with its batch.
    left: u32,
    /// Bytes that it still takes.
    room: u64,
    /// Bytes that its batch still takes; 0: the next segment begins one.
    batch: u64,
    /// Segments that its batch still takes.
    segments: u32,
    /// Its own path takes no more than `left`: less than others do.
    is_short: bool,
}

impl Quantum {
    pub(crate) fn new(path: PathId, limit: BatchLimit, room: u64) -> Self {
        let left = limit.segments;
        Quantum { quantum_path: path, path, left, room, batch: 0, segments: 0, is_short: false }
    }

    /// One of at most so many segments.
    pub(crate) fn short(path: PathId, limit: BatchLimit, room: u64, most: NonZeroU32) -> Self {
        let left = limit.segments.min(most.get());
        Quantum { left, is_short: true, ..Quantum::new(path, limit, room) }
    }

    /// The path of the segment that joined last.
    pub(crate) fn path(&self) -> PathId {
        self.path
    }

    /// Lets the next segment, with `len` bytes of payload, join a batch of another queue pair if it
    /// begins a batch and fits. With many queue pairs that have little to send each, batches would
    /// be short otherwise. The quantum's own path stays: queue pairs that begin batches take
    /// different ones.
    pub(crate) fn share(&mut self, open: OpenBatch, len: u16) {
        let same_rail = open.path.rail() == self.quantum_path.rail();
        let fits = Segment::wire_len(len) <= open.left;
        if self.begins_batch() && same_rail && fits {
            (self.path, self.batch, self.segments) = (open.path, open.left, open.segments);
        }
    }

    /// The batch that others may join.
    pub(crate) fn batch(&self) -> OpenBatch {
        OpenBatch { path: self.path, left: self.batch, segments: self.segments }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.left == 0 && self.batch == 0
    }

    /// The next segment will begin another.
    pub(crate) fn end(&mut self) {
        (self.left, self.batch) = (0, 0);
    }

    /// The next segment will begin another batch.
    pub(crate) fn end_batch(&mut self) {
        self.batch = 0;
    }

    pub(crate) fn begins_batch(&self) -> bool {
        self.batch == 0
    }

    /// A segment with `len` bytes of payload joins.
    pub(crate) fn join(&mut self, len: u16, limit: BatchLimit) {
        let bytes = Segment::wire_len(len);
        if self.begins_batch() {
            (self.path, self.batch) = (self.quantum_path, limit.batch);
            self.segments = if self.is_short { self.left } else { limit.segments };
        }
        self.left = self.left.saturating_sub(1);
        self.segments = self.segments.saturating_sub(1);
        let rest = self.batch.saturating_sub(bytes);
        let is_full = rest < limit.full_segment || self.segments == 0;
        self.batch = if is_full { 0 } else { rest };
        self.room = self.room.saturating_sub(bytes);
        if self.room < limit.full_segment {
            self.end();
        }
    }
}
