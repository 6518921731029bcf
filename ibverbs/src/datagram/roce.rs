//! Datagrams to and from peers that are not Braid: the UD service of plain RoCEv2.
//!
//! A queue pair receives at UDP port 4791 from RTR on, unless another process has the port. On the
//! loopback it does so once it sends to a peer that is not Braid: nobody else can reach it there.
//! The flow to a destination finds out whether that is Braid (see [`crate::numbers`]): if nobody
//! answers, the datagrams that have waited leave over RoCEv2.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use braid::{
    DEFAULT_PORT, PostError, QpId, RoceDatagram, RoceError, RoceUd, RoceUdAddress, RoceUdOptions,
    SendOp, Status, Work,
};
use braid_verbs::abi::ibv_gid;

use super::datagrams::Datagrams;
use super::flow::{Flow, OutgoingDatagram};
use crate::errno::Errno;
use crate::gid;
use crate::grh::GRH_LEN;
use crate::numbers;
use crate::peer::Peer;
use crate::qp::queue_pair::QueuePair;
use crate::qp::queues::Queues;

/// Destinations that are remembered, at most. Then all are forgotten.
const MAX_KNOWN: usize = 1 << 14;

/// The destinations of a queue pair that are not Braid, and its end.
#[derive(Default)]
pub(super) struct RoceDestinations {
    /// `None`: the queue pair does not receive over RoCEv2.
    own: Option<Arc<RoceUd>>,
    q_key: u32,
    known: HashMap<Peer, RoceRoute>,
    /// Whether the program was told that datagrams are lost.
    has_warned: bool,
}

impl RoceDestinations {
    /// The route to a destination that was found not to be Braid.
    pub(super) fn known(&self, to: &Peer) -> Option<RoceRoute> {
        self.known.get(to).cloned()
    }

    fn remember(&mut self, to: Peer, route: &RoceRoute) {
        if self.known.len() >= MAX_KNOWN {
            self.known.clear();
        }
        self.known.insert(to, route.clone());
    }

    /// Stops receiving and sending. Flushes the sends that have not left.
    pub(super) fn flush(&self, queues: &Queues) {
        let left = self.own.iter().flat_map(|own| own.close());
        left.for_each(|id| queues.complete(id, Work::Send, Status::Flushed));
    }
}

/// The way of datagrams to a destination that is not Braid.
#[derive(Clone)]
pub(super) enum RoceRoute {
    Open {
        own: Arc<RoceUd>,
        to: RoceUdAddress,
        has_warned: Arc<AtomicBool>,
    },
    /// There is none, as the log says. Datagrams are lost.
    Closed,
}

impl RoceRoute {
    /// Sends a datagram. A lost one is sent successfully.
    ///
    /// # Errors
    /// `ENOMEM`: the send queue is full.
    pub(super) fn send(
        &self,
        queues: &Queues,
        (peer, q_key): (Peer, u32),
        datagram: &OutgoingDatagram,
    ) -> Result<(), Errno> {
        let OutgoingDatagram { wr, bytes, traffic_class } = datagram;
        let lost = || {
            if wr.signalled {
                queues.complete(wr.id, Work::Send, Status::Success);
            }
            Ok(())
        };
        let RoceRoute::Open { own, to, has_warned } = self else { return lost() };
        let mut to = *to;
        to.set_traffic_class(*traffic_class);
        let mut send = RoceDatagram::new(wr.id, QpId::new(peer.number), q_key);
        (send.solicited, send.signalled) = (wr.solicited, wr.signalled);
        send.imm = if let SendOp::Send { imm } = wr.op { imm } else { None };
        match own.send(&send, &to, &bytes[GRH_LEN..]) {
            Err(PostError::TooLong { len }) => {
                // Neither sent nor refused (IBTA vol. 1, C10-93.1.1).
                if !has_warned.swap(true, Ordering::Relaxed) {
                    tracing::warn!(len, mtu = %to.mtu(),
                        "datagrams exceed the path MTU and are not sent: take smaller ones, or raise the interface's MTU");
                }
                lost()
            }
            sent => sent.map_err(Errno::from),
        }
    }
}

impl Datagrams {
    /// Takes over the Q_Key.
    pub(crate) fn set_q_key(&self, q_key: u32) {
        let destinations = &mut self.flows().roce;
        destinations.q_key = q_key;
        destinations.own.iter().for_each(|own| own.set_q_key(q_key));
    }
}

impl QueuePair {
    /// Begins to receive from peers that are not Braid, in the transition to RTR.
    ///
    /// # Errors
    /// The program wants RoCEv2 alone, and there is none. The log names the reason and the remedy.
    pub(crate) fn open_roce_datagrams(&self, q_key: u32) -> Result<(), Errno> {
        let Some(datagrams) = &self.datagrams else { return Ok(()) };
        let (settings, is_needed) = (&self.running.settings, self.needs_roce());
        let is_loopback = self.running.engine.local_addr().ip().is_loopback();
        if !is_needed && (is_loopback || !settings.speaks_roce()) {
            return Ok(());
        }
        let opened = self.open_roce(datagrams, q_key);
        match opened {
            Ok(own) => datagrams.flows().roce.own = Some(Arc::new(own)),
            Err(error) if is_needed => {
                tracing::error!(qp = self.number, %error, "no datagrams over RoCEv2");
                return Err(Errno::from(&error));
            }
            Err(error) => {
                tracing::info!(qp = self.number, %error, "no datagrams from peers that are not Braid");
            }
        }
        Ok(())
    }

    fn open_roce(&self, datagrams: &Datagrams, q_key: u32) -> Result<RoceUd, RoceError> {
        let (number, queues) = (QpId::new(self.number), &self.queues);
        let mut options =
            RoceUdOptions::new(number, q_key, &queues.recv_cq.engine, &datagrams.receives);
        options.send_cq = queues.send_cq.engine.clone();
        options.completes_as = queues.number();
        options.max_sends = queues.limits.send_wr;
        self.running.engine.roce_ud(DEFAULT_PORT, &options)
    }

    /// Whether a destination needs no question whether it is Braid: it certainly is not, or the
    /// program does not care.
    pub(super) fn is_surely_roce(&self, to: &Peer) -> bool {
        if self.needs_roce() {
            return true;
        }
        self.running.settings.speaks_roce()
            && numbers::address(to).is_none_or(|at| self.running.is_braid_at(at) == Some(false))
    }

    /// The route to a destination that is not Braid, which is remembered.
    pub(super) fn roce_route(
        &self,
        datagrams: &Datagrams,
        destinations: &mut RoceDestinations,
        to: &Peer,
    ) -> RoceRoute {
        let route = self.find_roce_route(datagrams, destinations, to).unwrap_or_else(|error| {
            if !std::mem::replace(&mut destinations.has_warned, true) {
                tracing::warn!(qp = self.number, remote = to.number, %error,
                    "datagrams to peers that are not Braid are lost");
            }
            RoceRoute::Closed
        });
        destinations.remember(*to, &route);
        route
    }

    fn find_roce_route(
        &self,
        datagrams: &Datagrams,
        destinations: &mut RoceDestinations,
        to: &Peer,
    ) -> Result<RoceRoute, RoceError> {
        // Address handles of groups have no address.
        let Some(host) = gid::address(&ibv_gid { raw: to.gid }) else {
            return Ok(RoceRoute::Closed);
        };
        let own = match &destinations.own {
            Some(own) => own.clone(),
            None => {
                let opened = Arc::new(self.open_roce(datagrams, destinations.q_key)?);
                destinations.own.insert(opened).clone()
            }
        };
        let address = own.address(SocketAddr::new(IpAddr::to_canonical(&host), DEFAULT_PORT))?;
        Ok(RoceRoute::Open { own, to: address, has_warned: Arc::default() })
    }

    /// Sends the datagrams of a flow over RoCEv2, because its destination does not answer as Braid.
    pub(crate) fn send_over_roce(&self, flow: &Flow) {
        let Some(datagrams) = &self.datagrams else { return flow.end() };
        if !self.running.settings.speaks_roce() || !self.takes_datagrams() {
            return flow.end();
        }
        let mut flows = datagrams.flows();
        // The queue pair may have gone to ERR or to RESET since.
        if !flows.outgoing.get(&flow.to).is_some_and(|known| std::ptr::eq(&**known, flow)) {
            return flow.end();
        }
        let (to, _) = &flow.to;
        let route = self.roce_route(datagrams, &mut flows.roce, to);
        tracing::debug!(qp = self.number, remote = to.number, "nobody answers as Braid: RoCEv2");
        flow.reroute(route);
        flows.sort_out();
    }
}
