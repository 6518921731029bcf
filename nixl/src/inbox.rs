//! The queue pairs of peers that have connected to this agent, and their notifications.

use std::collections::HashMap;
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

use braid::{
    Access, Completion, CompletionQueue, ConnectionRequest, Engine, MemoryRegion, ProtectionDomain,
    QpId, QpState, QueuePair, SharedReceiveQueue, Status, Work, wr,
};

use crate::frame::{FRAME, FrameError, Notification, Texts};
use crate::settings::Settings;

/// Number of frames that can arrive before any is taken.
const RECEIVES: u32 = 1024;
/// The service thread takes frames when fewer receives are left.
const LOW: u32 = RECEIVES / 2;
/// Bytes of waiting notifications from which on no more are taken. Peers then wait.
const MAX_WAITING: usize = 256 << 20;

/// All that peers have sent.
pub(crate) struct Inbox {
    pd: ProtectionDomain,
    srq: SharedReceiveQueue,
    cq: CompletionQueue,
    /// The frames, by the id of their receive.
    frames: MemoryRegion,
    state: Mutex<InboxState>,
}

#[derive(Default)]
struct InboxState {
    peers: HashMap<QpId, Sender>,
    waiting: Vec<Notification>,
    waiting_bytes: usize,
    /// Queue pairs that have ended. Frames of them may still wait to be taken.
    ended: Vec<QpId>,
}

struct Sender {
    qp: QueuePair,
    texts: Texts,
}

impl Inbox {
    pub(crate) fn new(engine: &Engine, pd: &ProtectionDomain) -> Result<Self, String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        // Receives, and what ends with the queue pairs.
        let cq = engine.create_cq(2 * RECEIVES as usize).map_err(|error| text(&error))?;
        let srq = pd.create_srq(RECEIVES, 1).map_err(|error| text(&error))?;
        let len = RECEIVES as usize * FRAME;
        let frames = pd.alloc_mr(len, Access::LOCAL_WRITE).map_err(|error| text(&error))?;
        let inbox = Inbox { pd: pd.clone(), srq, cq, frames, state: Mutex::default() };
        (0..u64::from(RECEIVES)).for_each(|id| inbox.receive(id));
        inbox.srq.set_limit(LOW);
        Ok(inbox)
    }

    /// Accepts a peer.
    pub(crate) fn accept(&self, request: ConnectionRequest, settings: &Settings) {
        let from = request.peer_addr();
        // Held until the peer is known, so that its frames find it.
        let mut state = self.state();
        let mut options = settings.qp_options(&self.cq).queues(1, RECEIVES);
        options.srq = Some(self.srq.clone());
        let qp = match self.pd.create_qp(options) {
            Ok(qp) => qp,
            Err(error) => return tracing::error!(%from, "cannot accept a peer: {error}"),
        };
        match request.accept(&qp, b"") {
            Ok(()) => {
                tracing::debug!(%from, "peer connected");
                state.peers.insert(qp.number(), Sender { qp, texts: Texts::default() });
            }
            Err(error) => tracing::warn!(%from, "a peer was not accepted: {error}"),
        }
    }

    /// Takes arrived frames.
    pub(crate) fn drain(&self) {
        self.drain_into(&mut self.state());
    }

    /// Returns all notifications that have arrived.
    pub(crate) fn take(&self) -> Vec<Notification> {
        let mut state = self.state();
        self.drain_into(&mut state);
        state.waiting_bytes = 0;
        let waiting = mem::take(&mut state.waiting);
        if self.srq.limit() == 0 {
            self.srq.set_limit(LOW);
        }
        waiting
    }

    /// Adds a notification of this agent to itself.
    pub(crate) fn push(&self, notification: Notification) {
        self.state().add(notification);
    }

    /// Forgets a queue pair that has ended, once its frames are taken.
    pub(crate) fn on_end(&self, qp: QpId) {
        let mut state = self.state();
        if state.peers.contains_key(&qp) {
            state.ended.push(qp);
        }
        self.drain_into(&mut state);
    }

    /// Forgets all queue pairs that have ended.
    pub(crate) fn find_ended(&self) {
        let mut state = self.state();
        let ended = state.peers.iter().filter(|(_, peer)| peer.qp.state() == QpState::Error);
        let ended: Vec<_> = ended.map(|(qp, _)| *qp).collect();
        state.ended.extend(ended);
        self.drain_into(&mut state);
    }

    /// Watches the receives again, after the event that few are left.
    pub(crate) fn watch(&self) {
        let state = self.state();
        // Otherwise `take` does it.
        if state.waiting_bytes < MAX_WAITING {
            self.srq.set_limit(LOW);
        }
    }

    fn drain_into(&self, state: &mut InboxState) {
        while state.waiting_bytes < MAX_WAITING {
            match self.cq.poll_one() {
                Ok(Some(done)) => self.on_completion(state, &done),
                Ok(None) => {
                    for qp in mem::take(&mut state.ended) {
                        state.peers.remove(&qp);
                    }
                    return;
                }
                // There is room for all completions.
                Err(error) => return tracing::error!("notifications are lost: {error}"),
            }
        }
    }

    fn on_completion(&self, state: &mut InboxState, done: &Completion) {
        if done.work != Work::Recv {
            return;
        }
        if done.status == Status::Success {
            let mut frame = vec![0; done.len as usize];
            let read = self.frames.read_at(done.wr_id as usize * FRAME, &mut frame);
            if read.is_ok() {
                state.on_frame(done.qp, &frame);
            }
        }
        self.receive(done.wr_id);
    }

    fn receive(&self, id: u64) {
        let start = id as usize * FRAME;
        let place = self.frames.slice(start..start + FRAME);
        let posted = place.map(|place| self.srq.post_recv(wr::recv(id, [place])));
        if !matches!(posted, Ok(Ok(()))) {
            tracing::error!(id, "a receive for notifications was not posted");
        }
    }

    fn state(&self) -> MutexGuard<'_, InboxState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl InboxState {
    fn on_frame(&mut self, qp: QpId, frame: &[u8]) {
        let Some(peer) = self.peers.get_mut(&qp) else { return };
        match peer.texts.take(frame) {
            Ok(None) => {}
            Ok(Some(notification)) => self.add(notification),
            Err(error) => self.refuse(qp, error),
        }
    }

    fn add(&mut self, notification: Notification) {
        self.waiting_bytes += notification.0.len() + notification.1.len();
        self.waiting.push(notification);
    }

    fn refuse(&mut self, qp: QpId, error: FrameError) {
        let Some(peer) = self.peers.remove(&qp) else { return };
        let from = peer.qp.remote_addr();
        tracing::warn!(?from, "a peer that is no NIXL agent over Braid was disconnected: {error}");
    }
}
