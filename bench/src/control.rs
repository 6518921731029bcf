//! The control queue pair: orders and answers as small SENDs, apart from the measured traffic.

use std::time::{Duration, Instant};

use braid::{
    Access, CompletionQueue, EndCause, Engine, MemoryRegion, ProtectionDomain, QpOptions,
    QueuePair, Status, wr,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::failure::{Attempt, Failure};
use crate::interrupt;
use crate::plan::{Answer, Order, Phase, from_json, to_json};

/// Number of messages in either direction that may wait.
const SLOTS: usize = 8;
/// Bytes of the longest message: a report with all its degradations.
const SLOT_LEN: usize = 8 << 10;

pub(crate) struct Control {
    pub(crate) qp: QueuePair,
    cq: CompletionQueue,
    inbox: MemoryRegion,
    outbox: MemoryRegion,
    sent: usize,
    /// Whether the server asked to end the run.
    peer_interrupted: bool,
}

/// The id of an outgoing message. Incoming messages have their slot as id.
const SENT: u64 = u64::MAX;

impl Control {
    /// Creates the queue pair, not connected but ready to receive.
    pub(crate) fn new(engine: &Engine, pd: &ProtectionDomain) -> Result<Self, Failure> {
        let cq = engine.create_cq(4 * SLOTS).attempt("completion queue")?;
        let options = QpOptions::new(&cq, &cq).queues(SLOTS as u32, SLOTS as u32);
        let qp = pd.create_qp(options).attempt("control queue pair")?;
        let mr = |access| pd.alloc_mr(SLOTS * SLOT_LEN, access).attempt("control memory");
        let control = Control {
            inbox: mr(Access::LOCAL_WRITE)?,
            outbox: mr(Access::NONE)?,
            qp,
            cq,
            sent: 0,
            peer_interrupted: false,
        };
        control.qp.modify(braid::QpState::Init).attempt("control queue pair to INIT")?;
        for slot in 0..SLOTS {
            control.post(slot)?;
        }
        Ok(control)
    }

    fn post(&self, slot: usize) -> Result<(), Failure> {
        let piece = self.inbox.slice(slot * SLOT_LEN..(slot + 1) * SLOT_LEN).attempt("slot")?;
        self.qp.post_recv(wr::recv(slot as u64, [piece])).attempt("control receive")
    }

    pub(crate) fn send(&mut self, message: &impl Serialize) -> Result<(), Failure> {
        let bytes = to_json(message);
        let offset = self.sent % SLOTS * SLOT_LEN;
        self.sent += 1;
        self.outbox.write_at(offset, &bytes).attempt("control message")?;
        let piece = self.outbox.slice(offset..offset + bytes.len()).attempt("slot")?;
        self.qp.post_send(wr::send(SENT, [piece])).attempt("control send")
    }

    /// Returns the next message, if there is one. Polls the engine if needed.
    pub(crate) fn try_receive<T: DeserializeOwned>(&self) -> Result<Option<T>, Failure> {
        while let Some(completion) = self.cq.poll_one().attempt("control completion queue")? {
            if completion.status != Status::Success {
                return Err(self.ended());
            }
            if completion.wr_id == SENT {
                continue;
            }
            let slot = completion.wr_id as usize;
            let mut bytes = vec![0; completion.len as usize];
            self.inbox.read_at(slot * SLOT_LEN, &mut bytes).attempt("control message")?;
            self.post(slot)?;
            return from_json(&bytes).map(Some);
        }
        Ok(None)
    }

    /// Returns the cause of the connection's end.
    pub(crate) fn ended(&self) -> Failure {
        Failure::Ended(self.qp.error().map_or(EndCause::Peer, |error| error.cause))
    }

    /// Returns the server's next answer, if there is one, and records that it was interrupted.
    pub(crate) fn try_answer(&mut self) -> Result<Option<Answer>, Failure> {
        match self.try_receive()? {
            Some(Answer::Interrupted) => {
                self.peer_interrupted = true;
                Ok(None)
            }
            other => Ok(other),
        }
    }

    /// Returns the server's next answer.
    pub(crate) fn answer(&mut self, within: Duration) -> Result<Answer, Failure> {
        let deadline = Instant::now() + within;
        loop {
            if let Some(answer) = self.try_answer()? {
                return Ok(answer);
            }
            if Instant::now() > deadline {
                return Err(Failure::Stalled(within));
            }
        }
    }

    /// Returns why the run should end early, if it should.
    pub(crate) fn interruption(&self) -> Option<Failure> {
        match (interrupt::is_requested(), self.peer_interrupted) {
            (true, _) => Some(Failure::Interrupted),
            (_, true) => Some(Failure::PeerInterrupted),
            _ => None,
        }
    }

    /// Reads what the server may say during a phase, which is only that it was interrupted.
    pub(crate) fn look(&mut self) -> Result<(), Failure> {
        match self.try_answer()? {
            None => Ok(()),
            Some(_) => Err(Failure::Peer("sent an unexpected answer".to_owned())),
        }
    }

    /// Orders the server to begin a phase, and waits until it is ready.
    pub(crate) fn begin(&mut self, phase: Phase, within: Duration) -> Result<(), Failure> {
        self.send(&Order::Begin(phase))?;
        match self.answer(within)? {
            Answer::Ready => Ok(()),
            _ => Err(Failure::Peer("sent a report before the order to end".to_owned())),
        }
    }

    /// Sends a message and waits until it is acknowledged, so that the connection can be closed.
    pub(crate) fn flush(&mut self, message: &impl Serialize) -> Result<(), Failure> {
        self.send(message)?;
        let deadline = Instant::now() + Duration::from_secs(2);
        while self.qp.outstanding().0 > 0 && Instant::now() < deadline {
            // A peer that has already left causes an error, and nothing remains to be sent.
            if self.cq.poll_one().is_err() {
                break;
            }
        }
        Ok(())
    }

    /// Keeps the connection alive until the other side ends it or `limit` has passed, so that
    /// unacknowledged messages can be retransmitted.
    pub(crate) fn linger(&self, limit: Duration) {
        let deadline = Instant::now() + limit;
        while self.qp.state() != braid::QpState::Error && Instant::now() < deadline {
            let _ = self.cq.poll_one();
        }
    }
}
