//! A train: segments in a row that take the same path, so that the driver can send them in one call.

use braid_wire::PathId;

use super::window::Segment;

/// What a train may hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TrainLimit {
    pub(crate) segments: u32,
    /// Payload bytes of a full segment.
    pub(crate) mtu: u16,
}

impl TrainLimit {
    fn full_segment(self) -> u64 {
        Segment::wire_len(self.mtu)
    }

    /// The bytes of a path's turn where `turns` of them share the window `allowance`; a full segment always
    /// fits. A turn may take several system calls of the driver; a path for each would cost an eighth of
    /// the throughput in cold sockets where the window is large.
    pub(crate) fn room(self, allowance: u64, turns: u64) -> u64 {
        (allowance / turns).max(self.full_segment())
    }

    /// How many full segments those are: what a policy plans with.
    pub(crate) fn full_segments(self, room: u64) -> u32 {
        u32::try_from(room / self.full_segment()).unwrap_or(u32::MAX).clamp(1, self.segments)
    }
}

/// The train that segments join now. A default one has ended.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OpenTrain {
    path: PathId,
    /// Segments that it still takes; 0: it has ended.
    left: u32,
    /// Bytes that it still takes.
    room: u64,
}

impl OpenTrain {
    pub(crate) fn new(path: PathId, limit: TrainLimit, room: u64) -> Self {
        OpenTrain { path, left: limit.segments, room }
    }

    pub(crate) fn path(&self) -> PathId {
        self.path
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.left == 0
    }

    /// The next segment will begin another.
    pub(crate) fn end(&mut self) {
        self.left = 0;
    }

    /// A segment with `len` bytes of payload joins.
    pub(crate) fn join(&mut self, len: u16, limit: TrainLimit) {
        self.left -= 1;
        self.room = self.room.saturating_sub(Segment::wire_len(len));
        if self.room < limit.full_segment() {
            self.end();
        }
    }
}
