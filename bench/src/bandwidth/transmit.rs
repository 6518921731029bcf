//! Outgoing messages: as many at a time as the depth allows.

use std::time::Instant;

use braid::wr;

use super::run::{QP_SHIFT, Run};
use crate::cli::Test;
use crate::failure::{Attempt, Failure};
use crate::pattern;

impl Run<'_> {
    pub(super) fn fill_all(&mut self) -> Result<(), Failure> {
        if self.session.uses_credits() {
            return (0..self.progress.len()).try_for_each(|qp| self.fill_one(qp));
        }
        while let Some(qp) = self.with_room.pop() {
            self.fill_one(qp)?;
        }
        Ok(())
    }

    fn fill_one(&mut self, qp: usize) -> Result<(), Failure> {
        if self.session.uses_credits() {
            let credited = self.session.credits.load_u64(8 * qp).attempt("credit")?;
            let progress = &mut self.progress[qp];
            progress.reusable = progress.reusable.max(credited.min(progress.ended));
        } else {
            self.progress[qp].reusable = self.progress[qp].ended;
        }
        let depth = u64::from(self.phase.depth);
        loop {
            let progress = &self.progress[qp];
            let full = progress.posted - progress.reusable >= depth
                || progress.posted - progress.ended >= depth;
            if full || progress.posted >= progress.target {
                return Ok(());
            }
            self.post_message(qp, progress.posted)?;
            self.progress[qp].posted += 1;
        }
    }

    fn post_message(&mut self, qp: usize, message: u64) -> Result<(), Failure> {
        let plan = &self.session.plan;
        let slot = plan.slot_offset(qp, message);
        let range = slot as usize..(slot + self.phase.size) as usize;
        if plan.verify {
            let found = &mut self.verification.found;
            match plan.test {
                Test::ReadBw => found.fill(0),
                _ => pattern::fill(found, qp, message),
            }
            self.session.local.write_at(range.start, found).attempt("memory")?;
        }
        let piece = self.session.local.slice(range).attempt("slot")?;
        let id = (qp as u64) << QP_SHIFT | message;
        let remote = self.session.remote.at(slot);
        let work = match plan.test {
            Test::SendBw => wr::send(id, [piece]),
            Test::ReadBw => wr::read(id, [piece], remote),
            _ if plan.verify => wr::write_imm(id, [piece], remote, message as u32),
            _ => wr::write(id, [piece], remote),
        };
        self.observations.on_post();
        self.session.qps[qp].post_send(work).attempt("post")
    }

    /// Handles the completion of a message of this side.
    pub(super) fn on_end(&mut self, qp: usize) {
        let progress = &mut self.progress[qp];
        progress.ended += 1;
        self.ended += 1;
        if progress.ended == progress.target {
            progress.finished = Some(Instant::now());
            self.unended -= 1;
        } else if !self.session.uses_credits() {
            self.with_room.push(qp);
        }
        self.observations.on_completion();
    }
}
