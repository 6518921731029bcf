//! Sends of connected queue pairs: taken by the engine, or held until the connection exists.

use std::time::Instant;

use braid::{Access, PostError, QpState, SendWr, Status};

use super::connection::{Held, QpConnection};
use super::queue_pair::{QueuePair, Sends};
use crate::connect::inbox::ControlMessage;

impl QueuePair {
    /// Takes a send. The caller has checked all that does not need the engine.
    ///
    /// # Errors
    /// The queue is full; or the engine's error.
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
        let peer_timeout = self.attributes().peer_timeout();
        let mut connection = self.connection();
        // The control thread may have connected it meanwhile.
        if self.sends() != Sends::Held {
            drop(connection);
            return self.place(wr, inline);
        }
        connection.held.push_back(Held { wr, inline: inline.map(<[u8]>::to_vec) });
        if connection.deadline.is_none() {
            connection.deadline = Some(Instant::now() + peer_timeout);
            self.running.send_control(ControlMessage::Held(self.number));
        }
        Ok(())
    }

    /// Checks a send as the engine does.
    ///
    /// # Errors
    /// That of the engine.
    pub(crate) fn check(&self, wr: &SendWr) -> Result<(), PostError> {
        let (count, max) = (wr.sges.len(), self.queues.limits.sge as usize);
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

    /// Hands the held sends to the engine if the queue pair is both connected and in RTS. From then
    /// on the engine takes sends.
    pub(super) fn post_held(&self, connection: &mut QpConnection) {
        if !connection.is_connected || self.sends() != Sends::Held {
            return;
        }
        connection.deadline = None;
        for Held { wr, inline } in connection.held.drain(..) {
            let (wr_id, work) = (wr.id, wr.op.work());
            // A send whose memory was deregistered fails after those before it, and the queue pair
            // with it.
            let posted = match inline.as_deref() {
                None => self.engine.post_checked_send(wr),
                inline => self.hand_over(wr, inline),
            };
            if let Err(error) = posted {
                tracing::warn!(qp = self.number, %error, "a held send cannot be posted");
                self.queues.complete(wr_id, work, Status::LocalProtection);
            }
        }
        self.set_sends(Sends::Posted);
    }

    /// Tells the queue pair that it is connected.
    pub(crate) fn connected(&self) {
        let mut connection = self.connection();
        connection.is_connected = true;
        self.post_held(&mut connection);
    }

    /// Fails the held sends: the oldest one with the status `first`, the others as flushed.
    pub(crate) fn fail_held(&self, first: Status) {
        let mut connection = self.connection();
        connection.deadline = None;
        let held = std::mem::take(&mut connection.held);
        self.set_sends(Sends::Posted);
        // The engine flushes receives, and everything that is posted from now on.
        let _ = self.engine.modify(QpState::Error);
        let mut status = first;
        for Held { wr, .. } in held {
            self.queues.complete(wr.id, wr.op.work(), status);
            status = Status::Flushed;
        }
    }

    /// Forgets the connection and the held sends.
    pub(super) fn forget_connection(&self) {
        let mut connection = self.connection();
        let attempt = connection.attempt + 1;
        *connection = QpConnection { attempt, ..QpConnection::default() };
    }
}
