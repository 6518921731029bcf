//! Connecting queue pairs: what both sides do, and the side that asks.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use braid_transport::{
    ConnectError as SetupError, EndpointConfig, Initiator, QpState, QueuePair, Remote,
};
use braid_wire::{BASE_DATAGRAM, Connect, Crc, DATA_HEADER_LEN, Offer, QpId, Time, Token};

use super::Worker;
use super::initiators::{Attempting, Ended, decline};
use super::qps::Place;
use super::reachability::Reachability;
use crate::connect::{ConnectError, Outcome};
use crate::datapath::{JoinError, Owner, Partner};
use crate::random;

/// What every offer and every endpoint of a worker has in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SetUpPlan {
    /// Names this engine, as [`Offer::instance`] says.
    pub(crate) instance: u64,
    /// Most payload bytes of a packet.
    pub(crate) mtu: u16,
    pub(crate) crc: Crc,
    pub(crate) ping_interval: Duration,
    pub(crate) peer_timeout: Duration,
}

impl Worker {
    /// Starts to connect queue pair `index`. How it ends goes to `outcome`.
    pub(crate) fn begin_connect(
        &mut self,
        index: usize,
        to: SocketAddr,
        private_data: &[u8],
        timeout: Duration,
        outcome: Arc<Outcome>,
    ) -> Result<(), ConnectError> {
        let (ours, routing) = self.offer(index, to)?;
        let (now, nonce) = (self.clock.now(), random::number());
        let initiator =
            Initiator::new(now, nonce, ours, private_data.to_vec(), timeout).with_routing(routing);
        let entry = self.qps.at(index).expect("it has just made an offer");
        entry.attempt = Some(nonce);
        let qp = entry.shared.clone();
        let attempt = Attempting {
            initiator,
            qp,
            ours,
            to,
            moved: false,
            accepted_from: to,
            reach: Reachability::default(),
            outcome,
        };
        self.initiators.insert(nonce, attempt);
        self.progress();
        Ok(())
    }

    /// Gives up an attempt under way.
    pub(super) fn cancel_connect(&mut self, nonce: u64) {
        if let Some(attempt) = self.initiators.remove(nonce) {
            attempt.outcome.set(Err(ConnectError::Cancelled { addr: attempt.to }));
        }
    }

    pub(super) fn run_initiators(&mut self, now: Time) -> bool {
        if self.initiators.is_empty() {
            return false;
        }
        let mut worked = false;
        while let Some((attempt, ended)) =
            self.initiators.poll(now, &*self.datapath, &mut self.outbox)
        {
            worked = true;
            self.end_attempt(now, attempt, ended);
        }
        worked
    }

    fn end_attempt(&mut self, now: Time, attempt: Attempting, ended: Ended) {
        let addr = attempt.to;
        if let Some(entry) = self.qps.at(attempt.qp.index()) {
            entry.attempt = None;
        }
        let ended_with = match ended {
            Ended::Answered(Ok(accept)) => self.complete(now, &attempt, accept),
            Ended::Answered(Err(SetupError::TimedOut)) => Err(ConnectError::TimedOut { addr }),
            Ended::Answered(Err(SetupError::Rejected(reason))) => {
                Err(ConnectError::Rejected { addr, reason })
            }
            Ended::Answered(Err(SetupError::PathMtu)) => {
                let route = self.datapath.max_datagram(addr).unwrap_or(0);
                Err(ConnectError::PathMtu { addr, route })
            }
            Ended::Unreachable(source) => Err(ConnectError::Unreachable { addr, source }),
            Ended::Abandoned => Err(ConnectError::Cancelled { addr }),
        };
        attempt.outcome.set(ended_with);
    }

    /// The peer has accepted. Returns its application's data.
    fn complete(
        &mut self,
        now: Time,
        attempt: &Attempting,
        accept: Connect,
    ) -> Result<Vec<u8>, ConnectError> {
        let (index, from) = (attempt.qp.index(), attempt.accepted_from);
        let joined = self.join(index, &accept, from);
        let segments = joined.map_err(|source| {
            decline(from, &accept.offer, &mut self.outbox);
            ConnectError::Join { addr: attempt.to, source }
        })?;
        let remote = Remote { segments, ..Remote::agree(&attempt.ours, &accept.offer) };
        self.bind(now, index, remote, &accept.offer, from);
        let nonce = attempt.initiator.nonce();
        if let Some(entry) = self.qps.at(index) {
            entry.attempt = Some(nonce);
            self.initiators.connected(nonce);
        }
        Ok(accept.private_data)
    }

    /// Our offer for a connection with `with`, and what its datapath has to know of ours. Every attempt has a token of
    /// its own: what the peer makes of an earlier one, however late, is not taken for a part of this.
    pub(super) fn offer(
        &mut self,
        index: usize,
        with: SocketAddr,
    ) -> Result<(Offer, Vec<u8>), ConnectError> {
        let mtu = self.mtu_towards(with)?;
        let entry = self.qps.at(index).expect("a queue pair with a handle exists");
        if entry.is_connecting() {
            return Err(ConnectError::AlreadyConnecting { qp: entry.shared.id });
        }
        let state = entry.shared.state();
        let qp = match &mut entry.place {
            Place::Unbound(qp) if matches!(state, QpState::Reset | QpState::Init) => qp,
            _ => return Err(ConnectError::State { qp: entry.shared.id, state }),
        };
        if state == QpState::Reset {
            qp.modify(QpState::Init).expect("RESET goes to INIT");
            entry.shared.set_state(QpState::Init);
        }
        qp.set_token(Token(random::number() as u32));
        entry.token = qp.token();
        let config = qp.config();
        let offer = Offer {
            qp: qp.id(),
            token: qp.token(),
            psn: random::number() as u32 & 0xFF_FFFF,
            instance: self.plan.instance,
            mtu,
            receive_buffer: self.caps.receive_buffer,
            window: config.window.clamp(1, 4096),
            max_rd_atomic: config.max_rd_atomic.max(1),
            crc: if self.caps.checks_payloads { self.plan.crc } else { Crc::Off },
        };
        let (pd, access) = (config.pd, config.access);
        let owner = Owner { id: offer.qp, token: offer.token, pd, access };
        let opened = self.datapath.open(owner);
        let routing = opened.map_err(|source| ConnectError::Join { addr: with, source })?;
        Ok((offer, routing))
    }

    /// Joins our datapath with the peer's. Returns how many segments may be in flight.
    pub(super) fn join(
        &mut self,
        index: usize,
        theirs: &Connect,
        from: SocketAddr,
    ) -> Result<u32, JoinError> {
        let Some(entry) = self.qps.at(index) else { return Ok(u32::MAX) };
        let Offer { qp: id, token, .. } = theirs.offer;
        let partner = Partner { id, token, ip: from.ip() };
        self.datapath.join(entry.shared.id, partner, &theirs.routing)
    }

    fn mtu_towards(&self, to: SocketAddr) -> Result<u16, ConnectError> {
        let unreachable = |source| ConnectError::Unreachable { addr: to, source };
        let packet = self.datapath.max_packet(to).map_err(unreachable)?;
        if packet < BASE_DATAGRAM {
            return Err(ConnectError::PathMtu { addr: to, route: packet });
        }
        let payload = (packet - DATA_HEADER_LEN).min(self.plan.mtu.into());
        // Whole words stay whole in one segment: readers may watch 8-byte words while they land.
        let whole_words = if payload < 8 { payload } else { payload - payload % 8 };
        Ok(whole_words as u16)
    }

    /// Puts a queue pair into the endpoint of its peer: RTS. Everything goes to `addr`, where the peer's set-up packets
    /// came from, and where it has proved to receive.
    pub(super) fn bind(
        &mut self,
        now: Time,
        index: usize,
        remote: Remote,
        theirs: &Offer,
        addr: SocketAddr,
    ) {
        let config = EndpointConfig {
            train_segments: self.caps.batch_segments,
            train_bytes: self.caps.batch_bytes,
            joint_trains: self.caps.joint_batches,
            peer_receive_buffer: theirs.receive_buffer.into(),
            ping_interval: self.plan.ping_interval,
            peer_timeout: self.plan.peer_timeout,
            search_path_mtu: self.caps.search_path_mtu,
            blind: self.caps.blind,
        };
        let peer = self.peers.find_or_make(now, theirs.instance, addr, config);
        self.datapath.watch(addr);
        let Some(entry) = self.qps.at(index) else { return };
        let Some((endpoint, paths, _)) = self.peers.parts(peer) else { return };
        let vacant = QueuePair::new(QpId::default(), Token::default(), Default::default());
        let unbound = Place::Unbound(Box::new(vacant));
        let Place::Unbound(qp) = std::mem::replace(&mut entry.place, unbound) else {
            unreachable!("only an unconnected queue pair makes or takes an offer");
        };
        let slot = endpoint.adopt(now, *qp, remote, paths);
        entry.place = Place::Bound { peer, slot };
        entry.crc = remote.crc;
        entry.forget_parts();
        entry.remote_addr = Some(addr);
        entry.mirror_state(&self.peers);
        tracing::info!(qp = %entry.shared.id, %addr, remote = %theirs.qp, mtu = remote.mtu, "connected");
    }
}
