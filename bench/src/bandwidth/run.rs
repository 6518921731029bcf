//! One side of a phase: the progress of its queue pairs, and the loop that drives them.

use std::time::{Duration, Instant};

use braid::{Completion, Status, Work};

use super::observations::{Observations, Watch};
use super::stall::StallDetector;
use crate::cli::Test;
use crate::failure::{Attempt, Failure};
use crate::plan::{Extent, Phase};
use crate::session::Session;
use crate::{interrupt, pattern};

/// The id of a credit. Data messages use their number and receives their slot.
pub(super) const CREDIT: u64 = 1 << 40;
pub(super) const QP_SHIFT: u32 = 44;

/// Turns without a completion before a side sleeps, and its longest sleep. Orders do not wake it.
const SPINS: u64 = 100;
const NAP: Duration = Duration::from_millis(1);
/// Turns between two looks at what takes long or seldom happens.
const LOOK_EVERY: u64 = 64;

/// The progress of one queue pair.
#[derive(Clone, Default)]
pub(super) struct Progress {
    /// Number of messages that it sends in this phase; `u64::MAX`: until it is stopped.
    pub(super) target: u64,
    pub(super) posted: u64,
    pub(super) ended: u64,
    /// Number of released slots: `ended`, or the credit of the other side.
    pub(super) reusable: u64,
    pub(super) received: u64,
    pub(super) credit_sent: u64,
    pub(super) credit_in_flight: bool,
    pub(super) finished: Option<Instant>,
}

/// One side of a phase.
pub(super) struct Run<'s> {
    pub(super) session: &'s mut Session,
    pub(super) phase: Phase,
    pub(super) began: Instant,
    pub(super) transmits: bool,
    pub(super) receives: bool,
    pub(super) progress: Vec<Progress>,
    /// Completed messages of this side, over all queue pairs.
    pub(super) ended: u64,
    /// Number of queue pairs with messages that have not completed.
    pub(super) unended: usize,
    /// Queue pairs that may have room for another message. With thousands of queue pairs, a turn
    /// must not visit all of them. Only credits need a scan of all, because they arrive without a
    /// completion.
    pub(super) with_room: Vec<usize>,
    pub(super) verification: Verification,
    completions: Vec<Completion>,
    pub(super) stall: StallDetector,
    pub(super) observations: Observations,
    lookout: Lookout,
}

/// The part of the loop that runs in some turns only.
#[derive(Default)]
struct Lookout {
    turns: u64,
    /// Time by which an interrupted phase ends.
    deadline: Option<Instant>,
}

/// The check of every byte, for which memory is copied.
pub(super) struct Verification {
    /// The bytes of a message.
    pub(super) found: Vec<u8>,
    scratch: Vec<u8>,
    /// Number of messages without an error.
    pub(super) verified: u64,
}

impl Verification {
    /// Fails unless `found` has the bytes of this message.
    pub(super) fn check(&mut self, qp: usize, message: u64) -> Result<(), Failure> {
        pattern::check(&self.found, &mut self.scratch, qp, message)?;
        self.verified += 1;
        Ok(())
    }
}

/// The part of a phase that a transmitting side has sent.
#[derive(Clone, Copy)]
pub(super) struct Part {
    pub(super) messages: u64,
    pub(super) elapsed: Duration,
}

impl<'s> Run<'s> {
    pub(super) fn new(session: &'s mut Session, phase: Phase) -> Result<Self, Failure> {
        let plan = &session.plan;
        if phase.size > plan.slot_len || phase.depth == 0 || phase.depth > plan.sends {
            return Err(Failure::Peer(format!("requested a phase outside of its plan: {phase:?}")));
        }
        let (transmits, receives) = match (session.is_client, plan.bidirectional) {
            (_, true) => (true, true),
            (client, false) => (client, !client),
        };
        let target = match phase.extent {
            _ if !transmits => 0,
            Extent::Messages(count) => count,
            Extent::Time(_) => u64::MAX,
        };
        let progress = vec![Progress { target, ..Progress::default() }; plan.qps as usize];
        let mut run = Run {
            transmits,
            // READs need no receives at the other side, and neither do unverified WRITEs.
            receives: receives
                && (plan.test == Test::SendBw || (plan.test == Test::WriteBw && plan.verify)),
            ended: 0,
            unended: progress.iter().filter(|qp| qp.target > 0).count(),
            with_room: (0..progress.len()).collect(),
            progress,
            verification: Verification {
                found: vec![0; phase.size as usize],
                scratch: Vec::new(),
                verified: 0,
            },
            completions: Vec::with_capacity(256),
            stall: StallDetector::new(),
            observations: Observations::default(),
            lookout: Lookout::default(),
            phase,
            began: Instant::now(),
            session,
        };
        run.prepare()?;
        Ok(run)
    }

    /// Starts the observations of `watch`.
    pub(super) fn observe(&mut self, watch: &Watch) {
        let qps = self.session.plan.qps;
        self.observations =
            Observations::begin(watch, self.phase, &self.session.engine, qps, self.began);
    }

    fn prepare(&mut self) -> Result<(), Failure> {
        for qp in 0..self.progress.len() {
            self.session.credits.store_u64(8 * qp, 0).attempt("credit")?;
            let is_read = !self.session.is_client || self.session.plan.bidirectional;
            if is_read && self.session.plan.test == Test::ReadBw && self.session.plan.verify {
                self.fill_exposed(qp)?;
            }
            if self.receives && self.session.qps[qp].outstanding().1 == 0 {
                for slot in 0..u64::from(self.session.plan.receives) {
                    self.post_receive(qp, slot)?;
                }
            }
        }
        Ok(())
    }

    /// Returns whether this side's own part of the phase is over: all messages sent, or the time
    /// limit reached.
    pub(super) fn is_over(&self) -> bool {
        match self.phase.extent {
            Extent::Time(limit) if self.transmits => {
                self.ended > 0 && self.began.elapsed() >= limit
            }
            _ => self.has_sent_all(),
        }
    }

    /// Stops posting messages. Returns the part that counts.
    pub(super) fn stop(&mut self) -> Part {
        for qp in self.progress.iter_mut().filter(|qp| qp.target > qp.posted) {
            qp.target = qp.posted;
            qp.finished = (qp.ended == qp.target).then(Instant::now);
        }
        self.unended = self.progress.iter().filter(|qp| qp.ended != qp.target).count();
        Part { messages: self.ended, elapsed: self.began.elapsed() }
    }

    /// Drives the run until this side's part is over, unless it is (`own`), and all of its messages
    /// have completed.
    pub(super) fn finish(&mut self, own: Option<Part>) -> Result<Part, Failure> {
        while own.is_none() && !self.is_over() {
            self.step()?;
        }
        let own = own.unwrap_or_else(|| self.stop());
        self.send_rest()?;
        Ok(own)
    }

    pub(super) fn send_rest(&mut self) -> Result<(), Failure> {
        while !self.has_sent_all() {
            self.step()?;
        }
        Ok(())
    }

    fn has_sent_all(&self) -> bool {
        let credits = self.session.uses_credits();
        self.unended == 0 && !(credits && self.progress.iter().any(|qp| qp.credit_in_flight))
    }

    /// Drives the run until `count` messages have arrived over all queue pairs.
    pub(super) fn receive_all(&mut self, count: u64) -> Result<(), Failure> {
        let credits = self.session.uses_credits();
        let settled =
            |qp: &Progress| (!credits || qp.credit_sent >= qp.received) && !qp.credit_in_flight;
        let received = |all: &[Progress]| all.iter().map(|qp| qp.received).sum::<u64>();
        while self.receives
            && !(received(&self.progress) >= count && self.progress.iter().all(settled))
        {
            self.step()?;
        }
        Ok(())
    }

    /// Reads now and then whether the phase is to end early, for which the other side is told
    /// within [`interrupt::GRACE`].
    pub(super) fn is_interrupted(&mut self) -> Result<bool, Failure> {
        if self.is_time_to_look() {
            self.session.control.look()?;
        }
        let is_interrupted = self.session.control.interruption().is_some();
        if is_interrupted {
            self.lookout.deadline.get_or_insert_with(|| Instant::now() + interrupt::GRACE);
        }
        Ok(is_interrupted)
    }

    /// Returns whether this turn is one of those that look for orders in spite of traffic: a look
    /// costs a turn of the engine.
    pub(super) fn is_time_to_look(&self) -> bool {
        self.lookout.turns.is_multiple_of(LOOK_EVERY)
    }

    pub(super) fn step(&mut self) -> Result<(), Failure> {
        self.lookout.turns += 1;
        if self.is_time_to_look() {
            self.observations.show_progress(self.ended);
            if self.lookout.deadline.is_some_and(|deadline| Instant::now() > deadline) {
                return Err(Failure::Stalled(interrupt::GRACE));
            }
        }
        if self.transmits {
            self.fill_all()?;
        }
        let mut completions = std::mem::take(&mut self.completions);
        self.session.cq.poll(&mut completions, 256).attempt("completion queue")?;
        // A credit has no completion, so it would not wake a side that waits for it.
        let may_sleep = self.stall.idle_turns() > SPINS && !self.session.uses_credits();
        if completions.is_empty() && may_sleep {
            completions = self.session.cq.wait(NAP).attempt("completion queue")?;
        }
        self.stall.on_turn(!completions.is_empty())?;
        for completion in completions.drain(..) {
            self.on_completion(&completion)?;
        }
        self.completions = completions;
        self.observations.tick(&self.session.engine)?;
        if self.receives && self.session.uses_credits() {
            for qp in 0..self.progress.len() {
                self.send_credit(qp)?;
            }
        }
        Ok(())
    }

    fn on_completion(&mut self, completion: &Completion) -> Result<(), Failure> {
        let id = completion.wr_id;
        let qp = (id >> QP_SHIFT) as usize;
        let message = id & (CREDIT - 1);
        if completion.status != Status::Success {
            let what = match completion.work {
                Work::Recv | Work::RecvWriteImm => "a receive".to_owned(),
                _ if id & CREDIT != 0 => "the Write of a credit".to_owned(),
                work => format!("{work:?} of message {message}"),
            };
            return Err(self.session.failed(qp, what, completion.status));
        }
        if matches!(completion.work, Work::Recv | Work::RecvWriteImm) {
            return self.on_receive(qp, message, completion);
        }
        if id & CREDIT != 0 {
            self.progress[qp].credit_in_flight = false;
            return Ok(());
        }
        self.on_end(qp);
        if self.session.plan.verify && self.session.plan.test == Test::ReadBw {
            let slot = message % u64::from(self.session.plan.slots);
            let offset = self.session.plan.slot_offset(qp, message) as usize;
            let found = &mut self.verification.found;
            self.session.local.read_at(offset, found).attempt("memory")?;
            self.verification.check(qp, slot)?;
        }
        Ok(())
    }
}
