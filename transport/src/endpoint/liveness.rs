//! Whether the peer is alive, and whether dead paths work again.

use braid_lb::PathSet;
use braid_wire::{ControlKind, PathId, Time};

use super::{Endpoint, Member, QpSlot, Transmit, TransmitBody};
use crate::Status;

/// Signs of life of the peer.
#[derive(Debug)]
pub(super) struct Liveness {
    pub(super) check_at: Time,
    /// Pings since then.
    unanswered: u32,
    /// The queue pair that is to ask for a sign of life.
    asker: Option<u32>,
    /// Questions take paths and the receiving port in turn: a single way may be dead.
    asks_by_path: bool,
    /// What is to be answered.
    pub(super) answer: Option<Answer>,
    /// Where the search for a queue pair to ping goes on.
    cursor: usize,
}

/// The answer to a PING, on the path that the PING came by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    pub(super) index: u32,
    pub(super) kind: ControlKind,
    pub(super) stamp: u32,
    pub(super) path: PathId,
}

impl Liveness {
    pub(super) fn new(check_at: Time) -> Self {
        Liveness {
            check_at,
            unanswered: 0,
            asker: None,
            asks_by_path: false,
            answer: None,
            cursor: 0,
        }
    }
}

impl Endpoint {
    pub(super) fn heard(&mut self) {
        self.liveness.unanswered = 0;
    }

    /// Queue pairs that expect something of the peer ask for it in turn, also while others hear from
    /// it: the other end of just this one may be gone, and its farewell lost. A peer that is silent
    /// through enough pings is given up. Counting pings, not time, forgives a pause of our own process.
    pub(super) fn check_liveness(&mut self, now: Time) {
        if now < self.liveness.check_at {
            return;
        }
        self.liveness.check_at = now + self.config.ping_interval;
        let interval = self.config.ping_interval.as_nanos().max(1);
        let limit = (self.config.peer_timeout.as_nanos() / interval).max(1);
        if u128::from(self.liveness.unanswered) < limit {
            self.ping_next();
            return;
        }
        self.liveness.unanswered = 0;
        for index in 0..self.members.len() as u32 {
            if let Some(member) = self.members[index as usize].as_mut() {
                member.qp.give_up(Status::RetryExceeded);
                self.settle(index);
            }
        }
    }

    /// Pings on behalf of the next queue pair that waits for something.
    pub(super) fn ping_next(&mut self) {
        let count = self.members.len();
        let waits = |index: &usize| {
            self.members[*index].as_ref().is_some_and(|member| member.qp.is_waiting())
        };
        let start = self.liveness.cursor;
        let found = (0..count).map(|step| (start + step) % count).find(waits);
        if let Some(index) = found {
            self.liveness.cursor = index + 1;
            self.liveness.unanswered += 1;
            self.liveness.asker = Some(index as u32);
        }
    }

    pub(super) fn poll_liveness(&mut self, now: Time, paths: &mut PathSet) -> Option<Transmit> {
        if let Some(Answer { index, kind, stamp, path }) = self.liveness.answer.take() {
            let transmit = self.control(index, kind, stamp, Some(path));
            if transmit.is_some() {
                return transmit;
            }
        }
        let index = self.liveness.asker.take()?;
        let qp = &mut self.members[index as usize].as_mut()?.qp;
        let path = self.liveness.asks_by_path.then(|| qp.single_path(now, paths));
        self.liveness.asks_by_path = path.is_none();
        self.control(index, ControlKind::Ping, now.stamp(), path)
    }

    /// A queue pair that can ask whether a path works again.
    pub(super) fn prober(&self) -> Option<u32> {
        let probes = |member: &Option<Member>| {
            member.as_ref().is_some_and(|member| member.qp.state().receives())
        };
        self.members.iter().position(probes).map(|index| index as u32)
    }

    /// A path that is out of use is asked whether it works again.
    pub(super) fn poll_probe(&mut self, now: Time, paths: &mut PathSet) -> Option<Transmit> {
        paths.next_probe().filter(|at| *at <= now)?;
        let index = self.prober()?;
        let path = paths.poll_probe(now)?;
        self.control(index, ControlKind::Ping, now.stamp(), Some(path))
    }

    fn control(
        &self,
        index: u32,
        kind: ControlKind,
        stamp: u32,
        path: Option<PathId>,
    ) -> Option<Transmit> {
        let member = self.members[index as usize].as_ref()?;
        let control = member.qp.control(kind, stamp)?;
        Some(Transmit { slot: QpSlot(index), body: TransmitBody::Control(control, path) })
    }
}
