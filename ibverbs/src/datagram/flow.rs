//! Flows: the connection of a queue pair of type UD with one destination.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use braid::{Completion, SendWr, Status, Work};

use super::roce::RoceRoute;
use crate::errno::Errno;
use crate::peer::Peer;
use crate::qp::queues::Queues;

/// A datagram on its way.
pub(crate) struct OutgoingDatagram {
    pub(crate) wr: SendWr,
    /// The GRH and the payload.
    pub(crate) bytes: Vec<u8>,
    pub(crate) traffic_class: u8,
}

pub(crate) struct Flow {
    pub(crate) engine: braid::QueuePair,
    /// The destination, and its Q_Key.
    pub(crate) to: (Peer, u32),
    of: Weak<Queues>,
    state: Mutex<State>,
}

/// The state of a flow.
///
/// Invariant: `outstanding` holds the sends that the engine has, in posting order. The engine knows
/// each send by the number of sends before it, and `first` is the number of the first one.
struct State {
    stage: Stage,
    outstanding: VecDeque<Sent>,
    first: u64,
}

enum Stage {
    /// Not connected yet, with the datagrams that wait.
    Connecting(Vec<OutgoingDatagram>),
    Connected,
    /// The destination is not Braid.
    Roce(RoceRoute),
    Ended,
}

/// A send, as the program knows it.
#[derive(Clone, Copy)]
struct Sent {
    wr_id: u64,
    signalled: bool,
}

impl Flow {
    pub(crate) fn new(engine: braid::QueuePair, to: (Peer, u32), of: &Arc<Queues>) -> Self {
        let stage = Stage::Connecting(Vec::new());
        let state = State { stage, outstanding: VecDeque::new(), first: 0 };
        Flow { engine, to, of: Arc::downgrade(of), state: Mutex::new(state) }
    }

    /// The engine's number of the flow.
    pub(crate) fn id(&self) -> u32 {
        self.engine.number().get()
    }

    /// Sends a datagram, at once or when the flow is connected.
    ///
    /// # Errors
    /// `ENOMEM`: the send queue is full.
    pub(crate) fn send(&self, datagram: OutgoingDatagram) -> Result<(), Errno> {
        let mut state = self.state();
        match &mut state.stage {
            Stage::Connected => self.post(&mut state, &datagram),
            Stage::Connecting(waiting) => {
                let room = self.of.upgrade().map_or(0, |queues| queues.limits.send_wr as usize);
                if waiting.len() >= room {
                    return Err(Errno::NO_MEMORY);
                }
                waiting.push(datagram);
                Ok(())
            }
            Stage::Roce(route) => {
                let queues = self.of.upgrade().ok_or(Errno::INVALID)?;
                route.send(&queues, self.to, &datagram)
            }
            Stage::Ended => {
                self.complete(&[Sent::of(&datagram)]);
                Ok(())
            }
        }
    }

    fn post(&self, state: &mut State, datagram: &OutgoingDatagram) -> Result<(), Errno> {
        let number = state.first + state.outstanding.len() as u64;
        let wr = SendWr { id: number, ..datagram.wr.clone() };
        self.engine.post_send_inline(wr, &datagram.bytes).map_err(Errno::from)?;
        state.outstanding.push_back(Sent::of(datagram));
        Ok(())
    }

    /// Sends the datagrams that have waited for the connection.
    pub(crate) fn connected(&self) {
        let mut state = self.state();
        let Stage::Connecting(waiting) = &mut state.stage else { return };
        let waiting = std::mem::take(waiting);
        state.stage = Stage::Connected;
        for datagram in waiting {
            if self.post(&mut state, &datagram).is_err() {
                self.complete(&[Sent::of(&datagram)]);
            }
        }
    }

    /// Sends the datagrams that have waited, and later ones, over RoCEv2.
    pub(super) fn reroute(&self, route: RoceRoute) {
        let mut state = self.state();
        let (Stage::Connecting(waiting), Some(queues)) = (&mut state.stage, self.of.upgrade())
        else {
            return;
        };
        for datagram in std::mem::take(waiting) {
            if route.send(&queues, self.to, &datagram).is_err() {
                self.complete(&[Sent::of(&datagram)]);
            }
        }
        state.stage = Stage::Roce(route);
    }

    /// Ends the flow, because the destination is not reachable. The waiting datagrams are lost, and
    /// their sends succeed, as on a NIC.
    pub(crate) fn end(&self) {
        let mut state = self.state();
        if let Stage::Connecting(waiting) = &state.stage {
            let lost: Vec<Sent> = waiting.iter().map(Sent::of).collect();
            self.complete(&lost);
        }
        state.stage = Stage::Ended;
    }

    /// Flushes the outstanding sends, because the queue pair goes to ERR.
    pub(crate) fn flush(&self) {
        let mut state = self.state();
        let mut flushed: Vec<Sent> = state.outstanding.drain(..).collect();
        if let Stage::Connecting(waiting) = &state.stage {
            flushed.extend(waiting.iter().map(Sent::of));
        }
        state.stage = Stage::Ended;
        drop(state);
        let Some(queues) = self.of.upgrade() else { return };
        flushed.iter().for_each(|sent| queues.complete(sent.wr_id, Work::Send, Status::Flushed));
    }

    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.state().stage, Stage::Ended | Stage::Roce(_))
    }

    pub(crate) fn has_outstanding(&self) -> bool {
        !self.state().outstanding.is_empty()
    }

    /// A completion of the engine, as the program sees it. `None`: the send was not signalled. A
    /// lost datagram was sent successfully.
    pub(crate) fn translate(&self, completion: Completion) -> Option<Completion> {
        let mut state = self.state();
        // The sends before this one were not signalled, and have ended.
        let before = completion.wr_id.checked_sub(state.first)? as usize;
        let known = before.min(state.outstanding.len());
        state.outstanding.drain(..known);
        let sent = state.outstanding.pop_front()?;
        state.first = completion.wr_id + 1;
        let (wr_id, status) = (sent.wr_id, Status::Success);
        sent.signalled.then_some(Completion { wr_id, status, ..completion })
    }

    fn complete(&self, lost: &[Sent]) {
        let Some(queues) = self.of.upgrade() else { return };
        for sent in lost.iter().filter(|sent| sent.signalled) {
            queues.complete(sent.wr_id, Work::Send, Status::Success);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sent {
    fn of(datagram: &OutgoingDatagram) -> Self {
        Sent { wr_id: datagram.wr.id, signalled: datagram.wr.signalled }
    }
}
