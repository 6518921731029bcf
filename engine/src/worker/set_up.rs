//! Connecting queue pairs: the common part of both ends, and the initiator.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use braid_keys::Session;
use braid_lb::RailSet;
use braid_transport::{
    AddrPair, Attempt, EndpointConfig, Initiator, OfferTerms, QueuePair, Remote, decline,
};
use braid_wire::{
    BASE_DATAGRAM, Connect, Crc, DATA_HEADER_LEN, Offer, QpId, RailId, Routing, Time, Token,
};

use super::Worker;
use super::attempt::AttemptState;
use super::exchange::KeyExchange;
use super::qps::QpLocation;
use super::rails::PeerAddrs;
use crate::connect::{ConnectError, Outcome};
use crate::datapath::{JoinError, Owner, Partner};
use crate::random;

/// The part that all offers and endpoints of a worker share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SetUpPlan {
    /// The identity of this engine, see [`Offer::instance`].
    pub(crate) instance: u64,
    /// The largest payload of a packet in bytes.
    pub(crate) mtu: u16,
    /// See [`crate::EngineConfig::quantum`].
    pub(crate) quantum: Option<u32>,
    pub(crate) crc: Crc,
    pub(crate) ping_interval: Duration,
    pub(crate) peer_timeout: Duration,
    /// See [`EndpointConfig::skip_key`].
    pub(crate) skip_key: [u8; 16],
}

impl Worker {
    /// Begins to connect queue pair `index` to a host with at least one address. The end is put
    /// into `outcome`. Returns the number of the attempt.
    pub(crate) fn begin_connect(
        &mut self,
        index: usize,
        to: &[SocketAddr],
        private_data: &[u8],
        timeout: Duration,
        outcome: Arc<Outcome>,
    ) -> Result<u64, ConnectError> {
        let is_keyed = self.security.is_some();
        let (addrs, mtu) = self.reachable(to, is_keyed)?;
        let (asked, others) = (addrs[0], addrs[1..].iter());
        let (ours, routing) = self.offer(index, asked, (mtu, is_keyed))?;
        let (now, nonce) = (self.clock.now(), random::number());
        let initiator =
            Initiator::new(now, nonce, ours, private_data.to_vec(), timeout).with_routing(routing);
        let number = random::number();
        let exchange = self.security.clone().map(KeyExchange::new);
        let state = AttemptState { reach: HashMap::new(), number, outcome, exchange };
        let attempt = Attempt::new(now, ours, asked, initiator, random::number(), state);
        let attempt = attempt.with_others(others.map(|other| (*other, random::number())));
        self.initiators.begin(attempt);
        self.progress();
        Ok(number)
    }

    /// Completes a connection that the peer has accepted. Returns the private data of its
    /// application.
    pub(super) fn complete(
        &mut self,
        now: Time,
        attempt: &mut Attempt<AttemptState>,
        accept: Connect,
    ) -> Result<Vec<u8>, ConnectError> {
        let (index, from) = (self.qps.index_of(attempt.ours.qp), attempt.accepted_from);
        let joined = self.join(index, &accept, from);
        let (segments, addrs) = joined.map_err(|source| {
            self.outbox.control(RailId::FIRST, from, &decline(&accept.offer), None);
            ConnectError::Join { addr: attempt.to, source }
        })?;
        let remote = Remote { segments, ..Remote::agree(&attempt.ours, &accept.offer) };
        let session = attempt.driver.exchange.as_mut().and_then(KeyExchange::take_session);
        self.bind(now, index, remote, &accept.offer, (addrs, session));
        self.initiators.connected(attempt);
        Ok(accept.private_data)
    }

    /// Those of a host's addresses that a route leads to, at least one, and the payload bytes that
    /// fit in a packet to each of them.
    fn reachable(
        &self,
        addrs: &[SocketAddr],
        is_keyed: bool,
    ) -> Result<(Vec<SocketAddr>, u16), ConnectError> {
        let (mut reachable, mut mtu, mut failed) = (Vec::new(), u16::MAX, None);
        for addr in addrs {
            match self.mtu_towards(self.rails.first().pair(*addr), is_keyed) {
                Ok(bytes) => {
                    reachable.push(*addr);
                    mtu = mtu.min(bytes);
                }
                Err(why) => failed = failed.or(Some(why)),
            }
        }
        match failed {
            Some(why) if reachable.is_empty() => Err(why),
            _ => Ok((reachable, mtu)),
        }
    }

    /// The offer of this end, with the routing information, for a connection whose packets carry
    /// this many payload bytes.
    pub(super) fn offer(
        &mut self,
        index: usize,
        with: SocketAddr,
        (mtu, is_keyed): (u16, bool),
    ) -> Result<(Offer, Routing), ConnectError> {
        let terms = OfferTerms {
            instance: self.plan.instance,
            mtu,
            receive_buffer: self.caps.receive_buffer,
            // The authentication tag replaces the CRC.
            crc: if self.caps.checks_payloads && !is_keyed { self.plan.crc } else { Crc::Off },
        };
        let entry = self.qps.at(index).expect("a queue pair with a handle exists");
        let (id, state) = (entry.shared.id, entry.shared.state());
        if self.initiators.is_connecting(id) {
            return Err(ConnectError::AlreadyConnecting { qp: id });
        }
        let not_now = ConnectError::State { qp: id, state };
        let QpLocation::Unbound(qp) = &mut entry.place else { return Err(not_now) };
        let (token, psn) = (Token(random::number() as u32), random::number() as u32);
        let offer = qp.offer(token, psn, &terms).map_err(|_| not_now)?;
        entry.shared.set_state(qp.state(), None);
        entry.token = token;
        let config = qp.config();
        let (pd, access) = (config.pd, config.access);
        let owner = Owner { id: offer.qp, token: offer.token, pd, access };
        let opened = self.rails.open(owner);
        let routing = opened.map_err(|source| ConnectError::Join { addr: with, source })?;
        Ok((offer, routing))
    }

    /// Joins this end's rails with the peer's. Returns the number of segments that may be in
    /// flight, and the peer's addresses.
    pub(super) fn join(
        &mut self,
        index: usize,
        theirs: &Connect,
        from: AddrPair,
    ) -> Result<(u32, PeerAddrs), JoinError> {
        let addrs = self.rails.agree(from, &theirs.routing.rails);
        let Some(entry) = self.qps.at(index) else { return Ok((u32::MAX, addrs)) };
        let traffic_class = entry.shared.traffic_class();
        let addrs = addrs.with_traffic_class(traffic_class);
        let Offer { qp: id, token, .. } = theirs.offer;
        let partner = Partner { id, token, ip: from.remote.ip(), traffic_class };
        let segments = self.rails.join(entry.shared.id, partner, &theirs.routing, &addrs)?;
        Ok((segments, addrs))
    }

    pub(super) fn mtu_towards(&self, to: AddrPair, is_keyed: bool) -> Result<u16, ConnectError> {
        let unreachable = |source| ConnectError::Unreachable { addr: to.remote, source };
        let packet = self.rails.first().max_packet(to).map_err(unreachable)?;
        if packet < BASE_DATAGRAM {
            return Err(ConnectError::PathMtu { addr: to.remote, route: packet });
        }
        let envelope = if is_keyed { Session::OVERHEAD } else { 0 };
        let payload = (packet - DATA_HEADER_LEN - envelope).min(self.plan.mtu.into());
        // A segment never splits an 8-byte word, because readers may watch words while they are
        // placed.
        let whole_words = if payload < 8 { payload } else { payload - payload % 8 };
        Ok(whole_words as u16)
    }

    /// Moves a queue pair into the endpoint of its peer: RTS. The peer's set-up packets came from
    /// the first of `addrs`, so it has proved that it receives there. Everything goes there until
    /// the peer has proved that it receives at the others. With a session the connection is keyed.
    pub(super) fn bind(
        &mut self,
        now: Time,
        index: usize,
        remote: Remote,
        theirs: &Offer,
        (addrs, session): (PeerAddrs, Option<Session>),
    ) {
        let config = EndpointConfig {
            batch_segments: self.caps.batch_segments,
            batch_bytes: self.caps.batch_bytes,
            quantum: self.plan.quantum,
            transmit_segments: self.caps.transmit_segments,
            joint_batches: self.caps.joint_batches,
            peer_receive_buffer: theirs.receive_buffer.into(),
            ping_interval: self.plan.ping_interval,
            peer_timeout: self.plan.peer_timeout,
            search_path_mtu: self.caps.search_path_mtu,
            envelope: if session.is_some() { Session::OVERHEAD as u16 } else { 0 },
            direct: self.caps.direct,
            skip_key: Some(self.plan.skip_key),
            validate_ecn: self.caps.congestion_marks,
        };
        let peer = self.peers.find_or_make(now, theirs.instance, &addrs, config);
        self.rails.watch(&addrs);
        for (rail, to) in addrs.by_rail() {
            let ecn = self.peers.endpoint(peer).sends_ecn(rail);
            self.rails.of(rail).use_ecn(to.remote, ecn);
        }
        let Some(entry) = self.qps.at(index) else { return };
        let Some((endpoint, rails, _)) = self.peers.parts(peer) else { return };
        let vacant = QueuePair::new(QpId::default(), Token::default(), Default::default());
        let unbound = QpLocation::Unbound(Box::new(vacant));
        let QpLocation::Unbound(qp) = std::mem::replace(&mut entry.place, unbound) else {
            unreachable!("only an unconnected queue pair makes or takes an offer");
        };
        let slot = endpoint.adopt(now, *qp, remote, rails);
        entry.place = QpLocation::Bound { peer, slot };
        entry.crc = remote.crc;
        entry.is_keyed = session.is_some();
        let agreed = session.as_ref().map(Session::agreed);
        let peer = session.as_ref().and_then(Session::peer).cloned();
        if let (Some(end), Some(session)) = (entry.keyed(), session) {
            self.sessions.insert(end, session);
        }
        let (addr, rails) = (addrs.first(), addrs.len());
        entry.remote_addrs = Some(addrs);
        entry.full_rails = RailSet::default();
        entry.mirror_state(&self.peers);
        tracing::info!(
            qp = %entry.shared.id,
            %addr,
            remote = %theirs.qp,
            mtu = remote.mtu,
            rails,
            keyed = ?agreed,
            peer = peer.as_deref(),
            "connected"
        );
        let id = entry.shared.id;
        self.qps.forget_parts(id);
    }
}
