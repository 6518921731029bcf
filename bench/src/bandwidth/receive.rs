//! Incoming messages: receives, their verification, and the credits that release slots.

use braid::{Completion, Work, wr};

use super::run::{CREDIT, QP_SHIFT, Run};
use crate::cli::Test;
use crate::failure::{Attempt, Failure};
use crate::pattern;

impl Run<'_> {
    pub(super) fn fill_exposed(&mut self, qp: usize) -> Result<(), Failure> {
        let found = &mut self.verification.found;
        for slot in 0..u64::from(self.session.plan.slots) {
            pattern::fill(found, qp, slot);
            let offset = self.session.plan.slot_offset(qp, slot) as usize;
            self.session.exposed.write_at(offset, found).attempt("memory")?;
        }
        Ok(())
    }

    pub(super) fn post_receive(&self, qp: usize, slot: u64) -> Result<(), Failure> {
        let id = (qp as u64) << QP_SHIFT | slot;
        let piece = match self.session.plan.test {
            Test::SendBw => {
                let offset = self.session.plan.slot_offset(qp, slot) as usize;
                let end = offset + self.session.plan.slot_len as usize;
                Some(self.session.exposed.slice(offset..end).attempt("slot")?)
            }
            _ => None,
        };
        self.session.qps[qp].post_recv(wr::recv(id, piece)).attempt("receive")
    }

    pub(super) fn on_receive(
        &mut self,
        qp: usize,
        slot: u64,
        completion: &Completion,
    ) -> Result<(), Failure> {
        let message = self.progress[qp].received;
        if self.session.plan.verify {
            self.check_received(qp, message, completion)?;
        }
        self.progress[qp].received += 1;
        self.post_receive(qp, slot)
    }

    fn check_received(
        &mut self,
        qp: usize,
        message: u64,
        completion: &Completion,
    ) -> Result<(), Failure> {
        let wrong = |what: String| Err(Failure::Wrong { qp, message, what });
        if u64::from(completion.len) != self.phase.size {
            return wrong(format!("has {} bytes, not {}", completion.len, self.phase.size));
        }
        if completion.work == Work::RecvWriteImm && completion.imm != Some(message as u32) {
            return wrong(format!("came with immediate data {:?}", completion.imm));
        }
        let slot = match self.session.plan.test {
            // Receives complete in posting order, so the slot belongs to the message.
            Test::SendBw => completion.wr_id & (CREDIT - 1),
            _ => message,
        };
        let offset = self.session.plan.slot_offset(qp, slot) as usize;
        let found = &mut self.verification.found;
        self.session.exposed.read_at(offset, found).attempt("memory")?;
        self.verification.check(qp, message)
    }

    /// Sends the number of released slots to the other side. At most one credit is in flight,
    /// because two writes to the same word must not race.
    pub(super) fn send_credit(&mut self, qp: usize) -> Result<(), Failure> {
        let words = self.progress.len();
        let progress = &mut self.progress[qp];
        if progress.credit_in_flight || progress.credit_sent == progress.received {
            return Ok(());
        }
        progress.credit_sent = progress.received;
        progress.credit_in_flight = true;
        let source = 8 * (words + qp);
        self.session.credits.store_u64(source, progress.received).attempt("credit")?;
        let piece = self.session.credits.slice(source..source + 8).attempt("credit")?;
        let remote = self.session.remote_credits.at(8 * qp as u64);
        let id = (qp as u64) << QP_SHIFT | CREDIT;
        self.session.qps[qp].post_send(wr::write(id, [piece], remote)).attempt("credit")
    }
}
