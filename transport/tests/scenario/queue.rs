//! One end of a queue pair as the application sees it: what it will post, has posted, has back.

use std::time::Duration;

use braid_transport::{EventKind, RecvWr, SendOp, SendWr, Status};
use braid_wire::Time;

use super::memory::AreaId;
use super::pattern::Content;

/// A work request for a send queue and what has to come of it.
#[derive(Clone, Debug)]
pub(crate) struct PlannedSend {
    pub(crate) wr: SendWr,
    pub(crate) len: u32,
    /// Local memory: where the payload is, or where the answer lands.
    pub(crate) local: Vec<AreaId>,
    /// The content that a SEND or WRITE carries, or that a READ has to find.
    pub(crate) content: Content,
    /// Memory of the peer that a WRITE fills.
    pub(crate) target: Option<AreaId>,
    /// A later READ wants to find what this WRITE has left.
    pub(crate) keep: bool,
}

impl PlannedSend {
    pub(crate) fn consumes_receive(&self) -> bool {
        matches!(self.wr.op, SendOp::Send { .. } | SendOp::Write { imm: Some(_), .. })
    }

    pub(crate) fn imm(&self) -> Option<u32> {
        match self.wr.op {
            SendOp::Send { imm } | SendOp::Write { imm, .. } => imm,
            _ => None,
        }
    }
}

/// A receive; the one at index `k` takes the `k`-th message of the peer that consumes one.
#[derive(Clone, Debug)]
pub(crate) struct PlannedRecv {
    pub(crate) wr: RecvWr,
    pub(crate) areas: Vec<AreaId>,
    /// Delay before the application posts this one.
    pub(crate) lag: Duration,
}

/// The expected fate of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// Everything succeeds.
    Lives,
    /// Everything succeeds up to some time; then one work request fails, and the rest is flushed.
    Dies,
}

/// The application's pauses of a send queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Drain {
    /// Not now; the next begins then.
    Next(Time),
    /// In SQD; what was begun has not ended.
    Draining,
    /// In SQD until then.
    Drained(Time),
    Never,
}

pub(crate) struct Queue {
    pub(crate) fate: Fate,
    pub(crate) sends: Vec<PlannedSend>,
    /// Those before this index were posted.
    pub(crate) posted: usize,
    /// Those before this index have ended.
    pub(crate) retired: usize,
    pub(crate) send_at: Time,
    /// Those before this index, if WRITEs, were found in the peer's memory.
    pub(crate) verified: usize,
    /// Indices of `sends` that consume a receive of the peer.
    pub(crate) consumers: Vec<usize>,
    pub(crate) recvs: Vec<PlannedRecv>,
    pub(crate) recv_posted: usize,
    /// Those before this index were handed over, with a shared receive queue to any queue pair.
    pub(crate) recv_offered: usize,
    pub(crate) recv_done: usize,
    pub(crate) recv_at: Time,
    pub(crate) drain: Drain,
    /// The first send that failed, how, when.
    pub(crate) failure: Option<(usize, Status, Time)>,
    /// The same for the receives.
    pub(crate) recv_failure: Option<(usize, Status, Time)>,
    /// Longest wait between two posts.
    pub(crate) pace: Duration,
    /// The application posts no more.
    pub(crate) stopped: bool,
    /// When the application destroys a queue pair that has failed.
    pub(crate) destroy_at: Time,
    pub(crate) events: Vec<EventKind>,
}

/// Ids of receives, to tell them from sends at a glance.
pub(crate) const RECV_ID: u64 = 1 << 40;

impl Queue {
    pub(crate) fn new(sends: Vec<PlannedSend>, pace: Duration) -> Self {
        let consuming = |i: &usize| sends[*i].consumes_receive();
        let consumers = (0..sends.len()).filter(consuming).collect();
        Queue {
            fate: Fate::Lives,
            sends,
            posted: 0,
            retired: 0,
            send_at: Time::ZERO,
            verified: 0,
            consumers,
            recvs: Vec::new(),
            recv_posted: 0,
            recv_offered: 0,
            recv_done: 0,
            recv_at: Time::ZERO,
            drain: Drain::Never,
            failure: None,
            recv_failure: None,
            pace,
            stopped: false,
            destroy_at: Time::FAR_FUTURE,
            events: Vec::new(),
        }
    }

    /// The receives that are planned, and the memory of each.
    pub(crate) fn all_receives(&self) -> impl Iterator<Item = (RecvWr, Vec<AreaId>)> {
        self.recvs.iter().map(|recv| (recv.wr.clone(), recv.areas.clone()))
    }

    /// When the application wants to do something.
    pub(crate) fn due(&self) -> Time {
        let mut due = self.destroy_at;
        if !self.stopped && self.posted < self.sends.len() {
            due = due.min(self.send_at);
        }
        if !self.stopped && self.recv_offered < self.recvs.len() {
            due = due.min(self.recv_at);
        }
        match self.drain {
            Drain::Next(at) | Drain::Drained(at) if self.is_alive() => due.min(at),
            _ => due,
        }
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.failure.is_none() && self.recv_failure.is_none()
    }

    /// All that was planned has ended.
    pub(crate) fn is_done(&self) -> bool {
        self.retired == self.sends.len() && self.recv_done == self.recvs.len()
    }

    /// All that was posted has ended, as far as completions can tell.
    pub(crate) fn is_settled(&self) -> bool {
        self.recv_done == self.recv_posted && !self.has_open_sends()
    }

    /// Work requests that have been posted and, as far as is known, not ended.
    pub(crate) fn under_way(&self) -> impl Iterator<Item = &PlannedSend> {
        self.sends[self.retired..self.posted].iter()
    }

    /// Work requests that will still complete. After a failure even the unsignalled ones do.
    pub(crate) fn has_open_sends(&self) -> bool {
        let open = &self.sends[self.retired..self.posted];
        open.iter().any(|send| send.wr.signalled || self.failure.is_some())
    }

    /// Memory of the peer that a WRITE may have filled, whole or in part.
    pub(crate) fn unverified_targets(&self) -> Vec<AreaId> {
        let unverified = self.sends[..self.posted].iter().skip(self.verified);
        unverified.filter_map(|send| send.target).collect()
    }

    /// Memory of this host that an unfinished work request may have filled.
    pub(crate) fn unfinished_areas(&self) -> Vec<AreaId> {
        let sends = self.sends[..self.posted].iter().skip(self.retired).map(|send| &send.local);
        let recvs =
            self.recvs[..self.recv_posted].iter().skip(self.recv_done).map(|recv| &recv.areas);
        sends.chain(recvs).flatten().copied().collect()
    }
}
