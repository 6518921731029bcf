//! A path's turn: segments in a row that take it, in one or more trains, each of which the driver sends in
//! one call.

use braid_wire::PathId;

use super::segment::Segment;
use crate::EndpointConfig;

/// What a turn and a train may hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TrainLimit {
    segments: u32,
    /// Wire bytes of a full segment.
    full_segment: u64,
    /// Those of a whole train of them.
    train: u64,
}

impl TrainLimit {
    /// `mtu`: payload bytes of a full segment.
    pub(crate) fn new(endpoint: &EndpointConfig, mtu: u16) -> Self {
        let (segments, full_segment) = (endpoint.train_segments, Segment::wire_len(mtu));
        let whole = (endpoint.train_bytes / full_segment).clamp(1, segments.max(1).into());
        TrainLimit { segments, full_segment, train: whole * full_segment }
    }

    /// Most segments of a turn.
    pub(crate) fn segments(self) -> u32 {
        self.segments
    }

    /// The wire bytes of a whole train of full segments.
    pub(crate) fn train(self) -> u64 {
        self.train
    }

    /// The bytes of a turn where `turns` of them share the window `allowance`: whole trains; a smaller turn
    /// is part of one, and a full segment always fits. A path for each train would cost an eighth of the
    /// throughput in cold sockets where the window is large.
    pub(crate) fn room(self, allowance: u64, turns: u64) -> u64 {
        let room = allowance / turns;
        let whole = if room >= self.train { room - room % self.train } else { room };
        whole.max(self.full_segment)
    }

    /// How many full segments those are: what a policy plans with.
    pub(crate) fn full_segments(self, room: u64) -> u32 {
        u32::try_from(room / self.full_segment).unwrap_or(u32::MAX).clamp(1, self.segments)
    }
}

/// The train that left last, while others may join it. A default one takes nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OpenTrain {
    path: PathId,
    /// Bytes that it still takes.
    left: u64,
}

/// The turn that segments join now. A default one has ended.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OpenTurn {
    turn_path: PathId,
    /// That of the train: another queue pair's if it is shared.
    path: PathId,
    /// Segments that it still takes; 0: it has ended.
    left: u32,
    /// Bytes that it still takes.
    room: u64,
    /// Bytes that its train still takes; 0: the next segment begins one.
    train: u64,
}

impl OpenTurn {
    pub(crate) fn new(path: PathId, limit: TrainLimit, room: u64) -> Self {
        OpenTurn { turn_path: path, path, left: limit.segments, room, train: 0 }
    }

    /// Of the segment that joined last.
    pub(crate) fn path(&self) -> PathId {
        self.path
    }

    /// The next segment, with `len` bytes of payload, joins a train of another queue pair if it begins one and fits. With
    /// many queue pairs that have little to send each, trains would else be as short. The turn's path stays: those who
    /// begin trains take different ones.
    pub(crate) fn share(&mut self, open: OpenTrain, len: u16) {
        let same_rail = open.path.rail() == self.turn_path.rail();
        if self.begins_train() && same_rail && Segment::wire_len(len) <= open.left {
            (self.path, self.train) = (open.path, open.left);
        }
    }

    /// What others may join.
    pub(crate) fn train(&self) -> OpenTrain {
        OpenTrain { path: self.path, left: self.train }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.left == 0
    }

    /// The next segment will begin another.
    pub(crate) fn end(&mut self) {
        (self.left, self.train) = (0, 0);
    }

    /// The next segment will begin another train.
    pub(crate) fn end_train(&mut self) {
        self.train = 0;
    }

    pub(crate) fn begins_train(&self) -> bool {
        self.train == 0 || self.has_ended()
    }

    /// A segment with `len` bytes of payload joins.
    pub(crate) fn join(&mut self, len: u16, limit: TrainLimit) {
        let bytes = Segment::wire_len(len);
        if self.begins_train() {
            (self.path, self.train) = (self.turn_path, limit.train);
        }
        let rest = self.train.saturating_sub(bytes);
        self.train = if rest < limit.full_segment { 0 } else { rest };
        self.left -= 1;
        self.room = self.room.saturating_sub(bytes);
        if self.room < limit.full_segment {
            self.end();
        }
    }
}
