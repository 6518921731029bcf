//! The connection of a queue pair, and the sends that wait for it.

use std::collections::VecDeque;
use std::time::Instant;

use braid::{Access, Completion, PostError, QpState, SendWr, Status, Work};

use super::{QueuePair, Sends};
use crate::connect::Message;
use crate::cq::CompletionQueue;
use crate::peer::Peer;

/// A send that waits. `inline`: its data, which is the program's no more.
pub(crate) struct Held {
    pub(crate) wr: SendWr,
    pub(crate) inline: Option<Vec<u8>>,
}

/// Invariant: nothing is held once the engine takes sends.
#[derive(Default)]
pub(crate) struct Link {
    /// Both ends as the program has named them, from RTR on: this one, and the other.
    pub(crate) ends: Option<(Peer, Peer)>,
    pub(crate) is_connected: bool,
    /// Where its sends arrive if it is connected to itself.
    pub(crate) twin: Option<braid::QueuePair>,
    /// Counts what has begun anew: what an attempt of before says does not count.
    pub(crate) attempt: u64,
    held: VecDeque<Held>,
    /// When the sends that are held have waited long enough.
    pub(crate) deadline: Option<Instant>,
}

impl QueuePair {
    /// Takes a send, which was checked as far as that is possible without the engine.
    ///
    /// # Errors
    /// The engine's, or that the queue is full.
    pub(crate) fn post(&self, wr: SendWr, inline: Option<&[u8]>) -> Result<(), PostError> {
        let signalled = wr.signalled;
        self.places.take(signalled)?;
        self.place(wr, inline).inspect_err(|_| self.places.give_back(signalled))
    }

    fn place(&self, wr: SendWr, inline: Option<&[u8]>) -> Result<(), PostError> {
        match self.sends() {
            Sends::Posted => self.hand_over(wr, inline),
            Sends::Refused => Err(PostError::State { state: self.engine.state(), queue: "send" }),
            Sends::Held => self.hold(wr, inline),
        }
    }

    fn hand_over(&self, wr: SendWr, inline: Option<&[u8]>) -> Result<(), PostError> {
        match inline {
            Some(data) => self.engine.post_send_inline(wr, data),
            None => self.engine.post_send(wr),
        }
    }

    fn hold(&self, wr: SendWr, inline: Option<&[u8]>) -> Result<(), PostError> {
        self.check(&wr)?;
        let patience = self.attributes().patience();
        let mut link = self.link();
        // It may have been connected meanwhile.
        if self.sends() != Sends::Held {
            drop(link);
            return self.place(wr, inline);
        }
        link.held.push_back(Held { wr, inline: inline.map(<[u8]>::to_vec) });
        if link.deadline.is_none() {
            link.deadline = Some(Instant::now() + patience);
            self.running.tell(Message::Held(self.number));
        }
        Ok(())
    }

    /// What the engine would refuse.
    pub(crate) fn check(&self, wr: &SendWr) -> Result<(), PostError> {
        let (count, max) = (wr.sges.len(), self.limits.sge as usize);
        if count > max {
            return Err(PostError::TooManySges { count, max });
        }
        wr.check()?;
        let needed = if wr.op.needs_response() { Access::LOCAL_WRITE } else { Access::NONE };
        for piece in &wr.sges {
            self.domain.engine.check(*piece, needed)?;
        }
        Ok(())
    }

    /// It is connected, or the program has moved it to RTS: if both, the engine takes sends from now on.
    pub(super) fn post_held(&self, link: &mut Link) {
        if !link.is_connected || self.sends() != Sends::Held {
            return;
        }
        link.deadline = None;
        for Held { wr, inline } in link.held.drain(..) {
            let (wr_id, work) = (wr.id, wr.op.work());
            // Memory that is gone by now fails it behind those before it, and with it the queue pair.
            let posted = match inline.as_deref() {
                None => self.engine.post_checked_send(wr),
                inline => self.hand_over(wr, inline),
            };
            if let Err(error) = posted {
                tracing::warn!(qp = self.number, %error, "a send that was held cannot be posted");
                self.complete(wr_id, work, Status::LocalProtection);
            }
        }
        self.set_sends(Sends::Posted);
    }

    /// The control thread has connected it.
    pub(crate) fn connected(&self) {
        let mut link = self.link();
        link.is_connected = true;
        self.post_held(&mut link);
    }

    /// The peer was not found in time: the oldest send says so, the others are flushed.
    pub(crate) fn fail_held(&self, first: Status) {
        let mut link = self.link();
        link.deadline = None;
        let held = std::mem::take(&mut link.held);
        self.set_sends(Sends::Posted);
        // Receives that it has are flushed, and so is what is posted from now on.
        let _ = self.engine.modify(QpState::Error);
        let mut status = first;
        for Held { wr, .. } in held {
            self.complete(wr.id, wr.op.work(), status);
            status = Status::Flushed;
        }
    }

    /// Everything that waits is forgotten: it begins anew.
    pub(super) fn forget_link(&self) {
        let mut link = self.link();
        let attempt = link.attempt + 1;
        *link = Link { attempt, ..Link::default() };
    }

    /// Completes a send that the engine does not know.
    pub(crate) fn complete(&self, wr_id: u64, work: Work, status: Status) {
        self.push(&self.send_cq, wr_id, work, status);
    }

    pub(super) fn push(&self, cq: &CompletionQueue, wr_id: u64, work: Work, status: Status) {
        let qp = self.engine.number();
        let completion =
            Completion { qp, wr_id, work, status, len: 0, imm: None, solicited: false };
        // A queue that has overrun is reported as such.
        let _ = cq.engine.push(completion);
    }
}
