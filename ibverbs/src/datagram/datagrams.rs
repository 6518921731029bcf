//! The datagrams of a queue pair of type UD: its flows and its receives.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use braid::{QpOptions, SharedReceiveQueue};

use super::flow::Flow;
use super::receives::Receives;
use super::roce::RoceDestinations;
use crate::domain::Domain;
use crate::errno::Errno;
use crate::grh::GRH_LEN;
use crate::peer::Peer;
use crate::qp::queues::Queues;

/// Bytes of a datagram, without the GRH: the largest MTU of RoCE.
pub(super) const MAX_DATAGRAM: usize = 4096;
/// Pause before a datagram that found no receive is sent again, and the number of repetitions: a
/// second in all.
const RECEIVE_DELAY: Duration = Duration::from_millis(5);
const RECEIVE_TRIES: u8 = 200;

/// The datagrams of a queue pair of type UD.
pub(crate) struct Datagrams {
    pub(super) domain: Arc<Domain>,
    /// The receives of the queue pair, or the program's shared queue.
    pub(crate) receives: SharedReceiveQueue,
    /// `None`: the program posts to its shared queue.
    pub(crate) posted: Option<Receives>,
    flows: Mutex<Flows>,
}

/// The flows of a queue pair.
///
/// Invariant: a flow that has ended is in no map. It stays in `ended` until all its completions are
/// polled.
#[derive(Default)]
pub(super) struct Flows {
    /// Flows of this queue pair, by destination and Q_Key.
    pub(super) outgoing: HashMap<(Peer, u32), Arc<Flow>>,
    /// Connections that other queue pairs have made, by the engine's numbers.
    pub(super) incoming: HashMap<u32, braid::QueuePair>,
    /// The destinations that are not Braid.
    pub(super) roce: RoceDestinations,
    ended: Vec<Arc<Flow>>,
}

impl Flows {
    /// Drops flows that have ended and have no completions left to poll. Otherwise a program that
    /// sends to ever new destinations would keep all of them.
    pub(super) fn sort_out(&mut self) {
        let ended = self.outgoing.extract_if(|_, flow| flow.has_ended());
        self.ended.extend(ended.map(|(_, flow)| flow));
        self.ended.retain(|flow| flow.has_outstanding());
    }
}

impl Datagrams {
    pub(crate) fn new(domain: Arc<Domain>, receives: SharedReceiveQueue, own: bool) -> Self {
        let posted = own.then(Receives::default);
        Datagrams { domain, receives, posted, flows: Mutex::default() }
    }

    pub(super) fn flows(&self) -> MutexGuard<'_, Flows> {
        self.flows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes one of the engine's queue pairs for an end of a flow.
    pub(super) fn engine_qp(&self, queues: &Queues) -> Result<braid::QueuePair, Errno> {
        let mut options = QpOptions::new(&queues.send_cq.engine, &queues.recv_cq.engine);
        options = options.queues(queues.limits.send_wr, 1);
        options.max_inline = GRH_LEN + MAX_DATAGRAM;
        options.max_sge = queues.limits.sge as usize;
        options.srq = Some(self.receives.clone());
        options.config.access = braid::Access::NONE;
        self.domain.running.settings.apply(&mut options.config);
        // A destination without receives delays the datagrams to other destinations no longer than
        // this.
        (options.config.rnr_delay, options.config.rnr_retry) = (RECEIVE_DELAY, Some(RECEIVE_TRIES));
        self.domain.engine.create_qp(options).map_err(|_| Errno::NO_MEMORY)
    }

    /// Flushes the datagrams that are under way.
    pub(crate) fn flush(&self, queues: &Queues) {
        let flows = self.flows();
        flows.outgoing.values().for_each(|flow| flow.flush());
        flows.roce.flush(queues);
    }

    /// Forgets all flows.
    pub(crate) fn clear(&self) {
        *self.flows() = Flows::default();
    }
}
