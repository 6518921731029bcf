//! Connecting queue pairs: the common part of both ends, and the initiator.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use braid_keys::Session;
use braid_lb::RailSet;
use braid_transport::{
    AddrPair, Attempt, Carrier, EndpointConfig, Initiator, OfferTerms, Remote, ResponderAddr,
    decline,
};
use braid_wire::{
    BASE_DATAGRAM, Connect, Crc, DATA_HEADER_LEN, Offer, RailId, Routing, Time, Token,
};

use super::Worker;
use super::attempt::AttemptState;
use super::exchange::KeyExchange;
use super::qps::QpLocation;
use super::rails::PeerAddrs;
use crate::connect::{ConnectError, Outcome};
use crate::datapath::{Caps, CarrierTrouble, JoinError, Owner, Partner};
use crate::random;

/// The part that all offers and endpoints of a worker share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SetUpPlan {
    /// The identity of this engine, see [`Offer::instance`].
    pub(crate) instance: u64,
    /// See [`crate::EngineConfig::mtu`].
    pub(crate) mtu: Option<u16>,
    /// See [`crate::EngineConfig::quantum`].
    pub(crate) quantum: Option<u32>,
    /// See [`crate::EngineConfig::crc`].
    pub(crate) crc: Option<Crc>,
    /// The protocol of the packets, by carrier.
    pub(crate) protocols: &'static [&'static str],
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
        let candidates = self.reachable(to, is_keyed)?;
        let (first, others) = (candidates[0], candidates[1..].iter().copied());
        let asked = first.to;
        let (ours, routing) = self.offer(index, asked, &first.terms)?;
        let (now, nonce) = (self.clock.now(), random::number());
        let initiator =
            Initiator::new(now, nonce, ours, private_data.to_vec(), timeout).with_routing(routing);
        let number = random::number();
        let exchange = self.security.clone().map(KeyExchange::new);
        let (reach, trouble) = (HashMap::new(), CarrierTrouble::default());
        let state = AttemptState { reach, trouble, number, outcome, exchange };
        let attempt = Attempt::new(now, ours, asked, initiator, random::number(), state);
        let attempt = attempt.by(first.carrier).with_others(others);
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
        if from.local.carrier != Carrier::default() {
            self.rails.fell_back(&addrs, &attempt.driver.trouble);
        }
        let remote = Remote { segments, ..Remote::agree(&attempt.ours, &accept.offer) };
        let session = attempt.driver.exchange.as_mut().and_then(KeyExchange::take_session);
        self.bind(now, index, remote, &accept.offer, (addrs, session));
        self.initiators.connected(attempt);
        Ok(accept.private_data)
    }

    /// Those of a host's addresses that a route leads to, at least one. Each carrier is tried with
    /// all addresses, first the one that leads to the host already, or else the first.
    fn reachable(
        &self,
        addrs: &[SocketAddr],
        is_keyed: bool,
    ) -> Result<Vec<ResponderAddr>, ConnectError> {
        let mut carriers: Vec<_> = (0..self.caps.len()).map(|n| Carrier(n as u8)).collect();
        let carrier_to = |to: &SocketAddr| self.rails.first().carrier_to(*to);
        let used = addrs.iter().map(carrier_to).max().unwrap_or_default();
        carriers.sort_by_key(|carrier| *carrier != used);
        let all =
            carriers.into_iter().flat_map(|carrier| addrs.iter().map(move |to| (*to, carrier)));
        let candidate = |(to, carrier)| {
            let terms = self.terms(self.rails.routed(to, carrier), is_keyed)?;
            Ok(ResponderAddr { to, carrier, nonce: random::number(), terms })
        };
        let (reachable, failed): (Vec<_>, Vec<_>) = all.map(candidate).partition(Result::is_ok);
        match failed.into_iter().find_map(Result::err) {
            Some(why) if reachable.is_empty() => Err(why),
            _ => Ok(reachable.into_iter().flatten().collect()),
        }
    }

    /// The terms of an offer to a peer at `to`.
    pub(super) fn terms(&self, to: AddrPair, is_keyed: bool) -> Result<OfferTerms, ConnectError> {
        let caps = self.caps_of(to.local.carrier);
        let wanted = self.plan.crc.unwrap_or(caps.crc);
        Ok(OfferTerms {
            instance: self.plan.instance,
            mtu: self.mtu_towards(to, is_keyed)?,
            receive_buffer: caps.receive_buffer,
            // The authentication tag replaces the CRC.
            crc: if caps.checks_payloads && !is_keyed { wanted } else { Crc::Off },
        })
    }

    fn caps_of(&self, carrier: Carrier) -> &Caps {
        &self.caps[carrier.index()]
    }

    /// The offer of this end, with the routing information.
    pub(super) fn offer(
        &mut self,
        index: usize,
        with: SocketAddr,
        terms: &OfferTerms,
    ) -> Result<(Offer, Routing), ConnectError> {
        let entry = self.qps.at(index).expect("a queue pair with a handle exists");
        let (id, state) = (entry.shared.id, entry.shared.state());
        if self.initiators.is_connecting(id) {
            return Err(ConnectError::AlreadyConnecting { qp: id });
        }
        let not_now = ConnectError::State { qp: id, state };
        let QpLocation::Unbound(qp) = &mut entry.place else { return Err(not_now) };
        let (token, psn) = (Token(random::number() as u32), random::number() as u32);
        let offer = qp.offer(token, psn, terms).map_err(|_| not_now)?;
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
        if let QpLocation::Unbound(qp) = &entry.place {
            let cc = &qp.config().cc;
            if cc.needs_credit() && !theirs.offer.grants_credit {
                return Err(JoinError::NoCredit(cc.to_string()));
            }
        }
        let traffic_class = entry.shared.traffic_class();
        let addrs = addrs.with_traffic_class(traffic_class);
        let Offer { qp: id, token, .. } = theirs.offer;
        let partner = Partner { id, token, ip: from.remote.ip(), traffic_class };
        let segments = self.rails.join(entry.shared.id, partner, &theirs.routing, &addrs)?;
        Ok((segments, addrs))
    }

    fn mtu_towards(&self, to: AddrPair, is_keyed: bool) -> Result<u16, ConnectError> {
        let unreachable = |source| ConnectError::Unreachable { addr: to.remote, source };
        let packet = self.rails.first().max_packet(to).map_err(unreachable)?;
        if packet < BASE_DATAGRAM {
            return Err(ConnectError::PathMtu { addr: to.remote, route: packet });
        }
        let envelope = if is_keyed { Session::OVERHEAD } else { 0 };
        let most = self.plan.mtu.unwrap_or(self.caps_of(to.local.carrier).segment);
        let payload = (packet - DATA_HEADER_LEN - envelope).min(most.into());
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
        let caps = self.caps_of(addrs.carrier());
        let config = EndpointConfig {
            batch_segments: caps.batch_segments,
            batch_bytes: caps.batch_bytes,
            quantum: self.plan.quantum.or(session.as_ref().and(caps.keyed_quantum)),
            transmit_segments: caps.transmit_segments,
            joint_batches: caps.joint_batches,
            peer_receive_buffer: theirs.receive_buffer.into(),
            ping_interval: self.plan.ping_interval,
            peer_timeout: self.plan.peer_timeout,
            search_path_mtu: caps.search_path_mtu,
            envelope: if session.is_some() { Session::OVERHEAD as u16 } else { 0 },
            direct: caps.direct,
            skip_key: Some(self.plan.skip_key),
            validate_ecn: caps.congestion_marks,
        };
        let oversubscription = self.peers.oversubscription(&addrs);
        let remote = Remote { oversubscription, min_rto: caps.min_rto, ..remote };
        let peer = self.peers.find_or_make(now, theirs.instance, &addrs, config);
        self.rails.watch(&addrs);
        for (rail, to) in addrs.by_rail() {
            let ecn = self.peers.endpoint(peer).sends_ecn(rail);
            self.rails.of(rail).use_ecn(to.remote, ecn);
        }
        let Some(entry) = self.qps.at(index) else { return };
        let Some((endpoint, rails, _)) = self.peers.parts(peer) else { return };
        let place = std::mem::replace(&mut entry.place, QpLocation::vacant());
        let QpLocation::Unbound(qp) = place else {
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
