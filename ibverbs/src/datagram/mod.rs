//! UD: datagrams between any two queue pairs.
//!
//! Each destination of a queue pair has a flow: one of the engine's queue pairs, connected with the first datagram, whose
//! far end takes its receives from the queue of the destination. The 40 bytes of GRH that a receiver finds before the payload
//! travel as part of the message. So datagrams between two queue pairs are neither lost nor reordered while both are there; they are
//! lost, as on a NIC, where the destination is not, is not ready, has another Q_Key, or has had no receive for a second.

mod flow;
mod receives;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use braid::{Completion, ConnectionRequest, QpOptions, SharedReceiveQueue, Status};
use braid_verbs::abi::ibv_send_wr;

use crate::ah::{self, Ah, GRH_LEN};
use crate::connect::{Hello, Message};
use crate::errno::Errno;
use crate::memory::Domain;
use crate::numbers;
use crate::peer::Peer;
use crate::post;
use crate::qp::QueuePair;
use crate::routes::Route;

pub(crate) use self::flow::{Datagram, Flow};
pub(crate) use self::receives::Receives;

/// Bytes of a datagram, without the GRH: the largest MTU of RoCE.
pub(crate) const MAX_DATAGRAM: usize = 4096;
/// Q_Keys that programs may not name in work requests have this bit.
const CONTROLLED_Q_KEY: u32 = 1 << 31;
/// How long a flow tries to reach its destination before what waits for it is lost.
const PATIENCE: Duration = Duration::from_secs(2);

/// How soon a datagram that found no receive tries again, and how often: a second in all.
const RECEIVE_DELAY: Duration = Duration::from_millis(5);
const RECEIVE_TRIES: u8 = 200;

/// What a queue pair of type UD has besides.
pub(crate) struct Datagrams {
    domain: Arc<Domain>,
    /// Its receives, or the program's shared queue.
    pub(crate) receives: SharedReceiveQueue,
    /// `None`: the program posts to the shared queue itself.
    pub(crate) posted: Option<Receives>,
    flows: Mutex<Flows>,
}

/// Invariant: a flow that has ended is in no map, but stays in `ended` until all its completions are polled.
#[derive(Default)]
struct Flows {
    /// By destination and Q_Key.
    outgoing: HashMap<(Peer, u32), Arc<Flow>>,
    /// Connections that others have made, by the engine's numbers.
    incoming: HashMap<u32, braid::QueuePair>,
    ended: Vec<Arc<Flow>>,
}

impl Flows {
    /// Drops what has ended and has no completions left to poll: a program may go on to ever new destinations, and never use
    /// the old ones again.
    fn sort_out(&mut self) {
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

    fn flows(&self) -> MutexGuard<'_, Flows> {
        self.flows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is on its way is flushed.
    pub(crate) fn flush(&self) {
        self.flows().outgoing.values().for_each(|flow| flow.flush());
    }

    /// Nothing is on its way any more.
    pub(crate) fn clear(&self) {
        *self.flows() = Flows::default();
    }
}

impl QueuePair {
    /// Posts a send of type UD.
    pub(crate) unsafe fn send_datagram(
        self: &Arc<Self>,
        datagrams: &Datagrams,
        wr: &ibv_send_wr,
    ) -> Result<(), Errno> {
        // SAFETY: by the caller's promise: the queue pair's type says which member of the union it is.
        let to = unsafe { wr.wr.ud };
        // SAFETY: as above.
        let handle = unsafe { to.ah.cast::<Ah>().as_ref() }.ok_or(Errno::INVALID)?;
        // SAFETY: as above: its domain outlives it.
        if !unsafe { handle.is_of(&datagrams.domain) } {
            return Err(Errno::INVALID);
        }
        // SAFETY: as above.
        let send = unsafe { post::send_wr(self, wr) }?;
        if !matches!(send.op, braid::SendOp::Send { .. }) || to.remote_qpn > numbers::MAX_NUMBER {
            return Err(Errno::INVALID);
        }
        // SAFETY: both members of the union are plain bytes.
        let source = unsafe { handle.source.raw };
        let peer = Peer::new(&handle.gid, to.remote_qpn);
        // SAFETY: as above.
        let bytes = unsafe { self.gather(datagrams, wr, (&source, &peer.gid)) }?;
        // A controlled Q_Key stands for the queue pair's own (IBTA vol. 1, 10.2.5).
        let is_controlled = to.remote_qkey & CONTROLLED_Q_KEY != 0;
        let key = if is_controlled { self.q_key() } else { to.remote_qkey };
        let flow = self.flow(datagrams, source, peer, key)?;
        let signalled = send.signalled;
        self.places.take(signalled).map_err(Errno::from)?;
        let sent = flow.send(Datagram { wr: send, bytes });
        sent.inspect_err(|_| self.places.give_back(signalled))
    }

    /// The GRH and the payload.
    unsafe fn gather(
        &self,
        datagrams: &Datagrams,
        wr: &ibv_send_wr,
        (from, to): (&[u8; 16], &[u8; 16]),
    ) -> Result<Vec<u8>, Errno> {
        // SAFETY: by the caller's promise.
        let pieces = unsafe { post::pieces(wr.sg_list, wr.num_sge, self.limits.sge) }?;
        let len = pieces.clone().map(|piece| piece.len as usize).sum::<usize>();
        if len > MAX_DATAGRAM {
            return Err(Errno::INVALID);
        }
        let mut bytes = Vec::with_capacity(GRH_LEN + len);
        bytes.extend_from_slice(&ah::grh(from, to, len));
        for piece in pieces {
            let mut at = piece.addr;
            if !post::is_inline(wr) {
                let piece = post::engine_sge(piece);
                let checked = datagrams.domain.engine.check(piece, braid::Access::NONE);
                at = checked.map_err(|_| Errno::INVALID)?;
            }
            let (start, len) = (bytes.len(), piece.len as usize);
            bytes.resize(start + len, 0);
            // SAFETY: it is registered, or else the program promises that it can be read.
            unsafe {
                std::ptr::copy_nonoverlapping(at as *const u8, bytes[start..].as_mut_ptr(), len);
            }
        }
        Ok(bytes)
    }

    /// The flow to a destination, which is set up if there is none, or has ended. There is one GID that leads to it, `source`.
    fn flow(
        self: &Arc<Self>,
        datagrams: &Datagrams,
        source: [u8; 16],
        peer: Peer,
        key: u32,
    ) -> Result<Arc<Flow>, Errno> {
        let mut flows = datagrams.flows();
        if let Some(flow) = flows.outgoing.get(&(peer, key)).filter(|flow| !flow.has_ended()) {
            return Ok(flow.clone());
        }
        flows.sort_out();
        let engine = self.engine_qp(datagrams)?;
        self.running.routes.set(engine.number(), Route::Outgoing { number: self.number });
        let flow = Arc::new(Flow::new(engine, self));
        self.running.flows.enter(&flow);
        flows.outgoing.insert((peer, key), flow.clone());
        drop(flows);
        let from = Peer { gid: source, number: self.number };
        self.connect_flow(&flow, &Hello { from, to: peer, key: Some(key) });
        Ok(flow)
    }

    fn connect_flow(&self, flow: &Arc<Flow>, hello: &Hello) {
        let Some(to) = numbers::address(&hello.to) else { return flow.end() };
        match flow.engine.begin_connect(to, &hello.encode(), PATIENCE) {
            Ok(attempt) => self.running.tell(Message::Flow(flow.id(), attempt)),
            Err(error) => {
                tracing::debug!(qp = self.number, %to, %error, "datagrams are lost");
                flow.end();
            }
        }
    }

    /// One of the engine's queue pairs for a flow, or for the far end of one.
    fn engine_qp(&self, datagrams: &Datagrams) -> Result<braid::QueuePair, Errno> {
        let mut options = QpOptions::new(&self.send_cq.engine, &self.recv_cq.engine);
        options = options.queues(self.limits.send_wr, 1);
        options.max_inline = GRH_LEN + MAX_DATAGRAM;
        options.max_sge = self.limits.sge as usize;
        options.srq = Some(datagrams.receives.clone());
        options.config.access = braid::Access::NONE;
        self.running.settings.apply(&mut options.config);
        // A destination that posts no receives for so long does not hold up what goes elsewhere.
        (options.config.rnr_delay, options.config.rnr_retry) = (RECEIVE_DELAY, Some(RECEIVE_TRIES));
        datagrams.domain.engine.create_qp(options).map_err(|_| Errno::NO_MEMORY)
    }

    /// A receive has ended: as the program shall see it; `None`: its sender is gone, and it takes another datagram.
    pub(crate) fn on_datagram(&self, completion: Completion) -> Option<Completion> {
        let datagrams = self.datagrams.as_ref()?;
        let Some(posted) = &datagrams.posted else { return Some(completion) };
        let wr = posted.take(completion.wr_id)?;
        if completion.status == Status::Flushed && self.takes_datagrams() {
            let again = posted.keep(wr);
            // There is room: it has just been given back.
            let _ = datagrams.receives.post_recv(again);
            return None;
        }
        Some(Completion { wr_id: wr.id, ..completion })
    }

    /// Somebody has datagrams for this queue pair.
    pub(crate) fn take_flow(
        &self,
        datagrams: &Datagrams,
        hello: &Hello,
        request: ConnectionRequest,
    ) {
        if hello.key != Some(self.q_key()) || !self.takes_datagrams() {
            return request.reject();
        }
        let Ok(engine) = self.engine_qp(datagrams) else { return request.reject() };
        let (number, source) = (self.number, hello.from.number);
        self.running.routes.set(engine.number(), Route::Incoming { number, source });
        match request.accept(&engine, &[]) {
            Ok(()) => {
                let mut flows = datagrams.flows();
                // Those of peers that are gone.
                flows.incoming.retain(|_, other| other.state() != braid::QpState::Error);
                flows.incoming.insert(engine.number().get(), engine);
            }
            Err(error) => tracing::debug!(qp = number, %error, "no datagrams from there"),
        }
    }
}
