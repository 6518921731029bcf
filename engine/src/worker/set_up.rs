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
use crate::random;
use crate::verbs::{Owner, Partner, TrunkError, Trunks};

/// Segments that share a lane's work requests, and a message for their headers.
const NIC_TRAIN: u32 = 8;

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
        let (ours, trunk) = self.offer(index, to)?;
        let (now, nonce) = (self.clock.now(), random::number());
        let initiator =
            Initiator::new(now, nonce, ours, private_data.to_vec(), timeout).with_trunk(trunk);
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
        while let Some((attempt, ended)) = self.initiators.poll(now, &*self.link, &mut self.outbox)
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
                let route = self.link.max_datagram(addr).unwrap_or(0);
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
            ConnectError::Trunk { addr: attempt.to, source }
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

    /// Our offer for a connection with `with`, and how our RNIC is reached, if there is one. Every attempt has a token of
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
            receive_buffer: u32::try_from(self.caps.receive_buffer).unwrap_or(u32::MAX),
            window: config.window.clamp(1, 4096),
            max_rd_atomic: config.max_rd_atomic.max(1),
            crc: self.plan.crc,
        };
        let Some(trunks) = &mut self.trunks else { return Ok((offer, Vec::new())) };
        let (pd, access) = (config.pd, config.access);
        let owner = Owner { id: offer.qp, token: offer.token, pd, access };
        let opened = trunks.open(owner);
        let address = opened.map_err(|source| ConnectError::Trunk { addr: with, source })?;
        // The trunk's own receive credits take the place of a socket's buffer, and the NIC's ICRC that of our check.
        Ok((Offer { receive_buffer: u32::MAX, crc: Crc::Off, ..offer }, address))
    }

    /// Over verbs: joins our trunk with the peer's. Returns how many segments may be in flight.
    pub(super) fn join(
        &mut self,
        index: usize,
        theirs: &Connect,
        from: SocketAddr,
    ) -> Result<u32, TrunkError> {
        let Some(trunks) = &mut self.trunks else {
            let fits = theirs.trunk.is_empty();
            return if fits { Ok(u32::MAX) } else { Err(TrunkError::PeerOverVerbs) };
        };
        let Some(entry) = self.qps.at(index) else { return Ok(u32::MAX) };
        let Offer { qp: id, token, .. } = theirs.offer;
        let partner = Partner { id, token, ip: from.ip() };
        let joined = trunks.join(entry.shared.id, partner, &theirs.trunk);
        if joined.is_err() {
            trunks.close(entry.shared.id);
        }
        joined
    }

    fn mtu_towards(&self, to: SocketAddr) -> Result<u16, ConnectError> {
        let unreachable = |source| ConnectError::Unreachable { addr: to, source };
        let datagram = match self.trunks {
            Some(_) => usize::from(u16::MAX),
            None => self.link.max_datagram(to).map_err(unreachable)?,
        };
        if datagram < BASE_DATAGRAM {
            return Err(ConnectError::PathMtu { addr: to, route: datagram });
        }
        let payload = (datagram - DATA_HEADER_LEN).min(self.plan.mtu.into());
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
            train_segments: if self.trunks.is_some() {
                NIC_TRAIN
            } else {
                self.caps.train_segments as u32
            },
            train_bytes: self.caps.train_bytes as u64,
            // Over verbs each queue pair has NIC queue pairs of its own.
            joint_trains: self.trunks.is_none(),
            peer_receive_buffer: theirs.receive_buffer.into(),
            ping_interval: self.plan.ping_interval,
            peer_timeout: self.plan.peer_timeout,
            search_path_mtu: self.trunks.is_none() && self.caps.has_hops,
            blind: self.trunks.as_ref().map(Trunks::blind),
        };
        let peer = self.peers.find_or_make(now, theirs.instance, addr, config);
        if let Some(ways) = &self.ways {
            ways.watch(addr);
        }
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
