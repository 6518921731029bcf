//! Control operations on queue pairs and memory. The caller holds the worker's lock.

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use braid_keys::Session;
use braid_transport::{
    AttemptId, OooDegrees, QpAttributes, QpConfig, QpCounters, QpState, QueuePair, Remote,
    StateError,
};
use braid_wire::{DEFAULT_PORT, QpId, Token, UdHeader};

use super::Worker;
use super::announce::log_end;
use super::attempt::abandon;
use super::qps::{QpEntry, QpLocation};
use super::rails::PeerAddrs;
use super::roce::roce_port;
use super::roce_qp::RoceQp;
use crate::cuda::{Context, CudaError, Lane};
use crate::datapath::Datapath;
use crate::mad_queue::MadQueue;
use crate::paths_to::{PathRoute, PathsTo};
use crate::qp::QpShared;
use crate::random;
use crate::roce::{RoceError, RocePort, RoceRemote, RoceUdAddress};
use crate::ud_queues::{OutgoingDatagram, UdGids, UdQueues};

impl Worker {
    /// Adds a new queue pair in RESET.
    pub(crate) fn create(&mut self, shared: Arc<QpShared>, config: QpConfig) {
        self.signals.doorbells().admit(shared.index());
        let qp = fresh(shared.id, config);
        self.qps.insert(QpEntry::new(shared, qp));
    }

    /// Removes a queue pair, tells the peer and drops outstanding work requests. Returns the
    /// attempt that the queue pair was accepted for, if any.
    pub(crate) fn destroy(&mut self, index: usize) -> Option<AttemptId> {
        self.leave_peer(index);
        let mut entry = self.qps.remove(index)?;
        self.rails.close(entry.shared.id);
        entry.forget_posts();
        if let Some(lane) = &mut self.lane {
            entry.release_copies(lane);
        }
        entry.accepted.map(|accepted| accepted.attempt())
    }

    /// Disconnects: tells the peer and flushes. The queue pair is then in ERR, or in its earlier
    /// state if it was never connected.
    pub(crate) fn disconnect(&mut self, index: usize) {
        let Some(entry) = self.qps.at(index) else { return };
        abandon(&mut self.initiators, entry.shared.id);
        if matches!(entry.place, QpLocation::Roce(_)) {
            return self.disconnect_roce(index);
        }
        let now = self.clock.now();
        let Some((peer, slot)) = self.qps.at(index).and_then(|entry| entry.bound()) else { return };
        let endpoint = self.peers.endpoint_mut(peer);
        if endpoint.qp(slot).state().receives() {
            let changed = endpoint.modify(now, slot, QpState::Error);
            changed.expect("a queue pair that receives can go to ERR");
            self.mirror_state(index);
            self.log_own_end(index);
        }
        self.retire(index);
        // The packet to the peer does not need the queue pair.
        self.settle();
        self.transmit(now);
        self.settle();
    }

    /// Sends the waiting acknowledgements and the skipped segments.
    pub(crate) fn acknowledge(&mut self) {
        for (peer, slot) in self.qps.iter().filter_map(QpEntry::bound) {
            let endpoint = self.peers.endpoint_mut(peer);
            endpoint.expedite_acks(slot);
            endpoint.release_skipped(slot);
        }
        self.transmit(self.clock.now());
    }

    /// Returns this worker's end of RoCEv2 connections to `to`. Opens the port that the peer sends
    /// to if it is not one of the worker's yet.
    pub(crate) fn roce_port(&mut self, to: SocketAddr) -> Result<RocePort, RoceError> {
        if self.security.is_some() {
            return Err(RoceError::Keyed);
        }
        let rail = self.rails.first();
        let protocol = self.plan.protocols[0];
        rail.roce_batch(to).ok_or(RoceError::Datapath { protocol })?;
        if to.port() == DEFAULT_PORT {
            let local = rail.local_addr();
            match local.port() {
                DEFAULT_PORT => self.roce.addrs.ports.start(),
                _ => self.roce.open(local)?,
            }
        }
        roce_port(self.roce_datapath(to), self.roce.addrs.second, to)
    }

    /// The datapath of RoCEv2 connections to `to`, which is open.
    pub(super) fn roce_datapath(&self, to: SocketAddr) -> &dyn Datapath {
        let port = self.roce.port().filter(|_| to.port() == DEFAULT_PORT);
        port.unwrap_or_else(|| self.rails.first())
    }

    /// The descriptors of the port of RoCEv2, if it is open beside the rails.
    pub(super) fn roce_readiness(&self) -> Option<Vec<BorrowedFd<'_>>> {
        self.roce.port()?.readiness()
    }

    /// Opens queue pair 1 of RoCEv2 at UDP port 4791. Returns its queue, and the tag of its
    /// connections.
    pub(crate) fn open_gsi(&mut self) -> Result<(Arc<MadQueue>, u8), RoceError> {
        let port = self.gsi_port()?;
        let tag = self.roce.tag(&port)?;
        Ok((self.qps.mads.get_or_insert_default().clone(), tag))
    }

    /// Takes the requests for connections to a service at queue pair 1.
    pub(crate) fn serve_gsi(&mut self, service: u64) -> Result<(), RoceError> {
        let port = self.gsi_port()?;
        self.roce.serve(&port, service)
    }

    fn gsi_port(&mut self) -> Result<RocePort, RoceError> {
        let local = self.rails.first().local_addr();
        // Any address of the engine's IP version shows whether the datapath is fit for it.
        self.roce_port(SocketAddr::new(local.ip(), DEFAULT_PORT))
    }

    /// Sends a management datagram to UDP port 4791 of a host.
    pub(crate) fn send_management(
        &mut self,
        to: SocketAddr,
        header: &UdHeader,
        payload: &[u8],
    ) -> Result<(), RoceError> {
        let port = self.roce_port(to)?;
        let pair = self.roce_datapath(to).pair(to);
        let Worker { roce, rails, .. } = self;
        roce.send_management(rails, (pair, &port), (header, payload));
        Ok(())
    }

    /// Opens a queue pair of the UD service, which `open` makes.
    pub(crate) fn open_ud(
        &mut self,
        port: u16,
        open: impl FnOnce(UdGids) -> UdQueues,
    ) -> Result<Arc<UdQueues>, RoceError> {
        let local = self.rails.first().local_addr();
        if local.ip().is_unspecified() {
            return Err(RoceError::Wildcard { local });
        }
        // Any address of the engine's IP version shows whether the datapath is fit for it.
        let port = self.roce_port(SocketAddr::new(local.ip(), port))?;
        let (first, second) = (local.ip().to_canonical(), self.roce.addrs.second);
        let queues = Arc::new(open(UdGids { first, second, port: port.port }));
        let number = queues.number;
        if self.qps.datagrams.contains_key(&number) {
            return Err(RoceError::Number { number });
        }
        let mut gids = [Some(first), second].into_iter().flatten();
        gids.try_for_each(|gid| self.roce.claim(&RocePort { gid, ..port }, number))
            .inspect_err(|_| self.roce.release(number))?;
        self.qps.datagrams.insert(number, queues.clone());
        Ok(queues)
    }

    /// Closes a queue pair of the UD service. Returns the ids of the sends that have not left.
    pub(crate) fn close_ud(&mut self, queues: &Arc<UdQueues>) -> Vec<u64> {
        let is_it = |other: &Arc<UdQueues>| Arc::ptr_eq(other, queues);
        if self.qps.datagrams.get(&queues.number).is_some_and(is_it) {
            self.qps.datagrams.remove(&queues.number);
            self.roce.release(queues.number);
        }
        let mut left = Vec::new();
        self.roce.outgoing.retain(|datagram| {
            let stays = !is_it(&datagram.of);
            left.extend((!stays).then_some(datagram.wr_id));
            stays
        });
        left
    }

    /// The address of a peer of the UD service.
    pub(crate) fn ud_address(&mut self, to: SocketAddr) -> Result<RoceUdAddress, RoceError> {
        let port = self.roce_port(to)?;
        let mut pair = self.roce_datapath(to).pair(to);
        pair.local.ip = Some(port.gid);
        Ok(RoceUdAddress { pair, from: SocketAddr::new(port.gid, port.port), mtu: port.mtu })
    }

    /// Queues a datagram. It leaves in the next round.
    pub(crate) fn send_ud(&mut self, datagram: OutgoingDatagram) {
        self.roce.outgoing.push_back(datagram);
    }

    /// Connects queue pair `index` to a RoCEv2 peer: RTS.
    pub(crate) fn connect_roce(
        &mut self,
        index: usize,
        remote: &RoceRemote,
    ) -> Result<(), RoceError> {
        let to = remote.addr();
        let port = self.roce_port(to)?;
        let mtu = remote.mtu.unwrap_or(port.mtu);
        let mut pair = self.roce_datapath(to).pair(to);
        if mtu > port.mtu {
            let route = self.roce_datapath(to).max_datagram(pair).unwrap_or(0);
            return Err(RoceError::PathMtu { gid: to.ip(), mtu, route });
        }
        if let Some(number) = remote.own_qp.filter(|number| self.qps.has_roce_number(*number)) {
            return Err(RoceError::Number { number });
        }
        let entry = self.qps.at(index).expect("a queue pair with a handle exists");
        let (id, state) = (entry.shared.id, entry.shared.state());
        let not_now = RoceError::State { qp: id, state };
        let QpLocation::Unbound(qp) = &mut entry.place else { return Err(not_now) };
        let is_taken = self.initiators.is_connecting(id) || entry.accepted.is_some();
        if is_taken || (state != QpState::Init && qp.modify(QpState::Init).is_err()) {
            return Err(not_now);
        }
        pair.local.traffic_class = entry.shared.traffic_class();
        pair.local.ip = Some(port.gid);
        self.roce.claim(&port, remote.own_qp.unwrap_or(id))?;
        let place = std::mem::replace(&mut entry.place, QpLocation::vacant());
        let QpLocation::Unbound(qp) = place else { return Err(not_now) };
        match RoceQp::connect(*qp, remote, (&port, mtu), pair) {
            Ok(roce) => entry.place = QpLocation::Roce(Box::new(roce)),
            Err(qp) => {
                entry.place = QpLocation::Unbound(qp);
                self.roce.release(remote.own_qp.unwrap_or(id));
                return Err(not_now);
            }
        }
        entry.remote_addrs = Some(PeerAddrs::from(pair));
        entry.mirror_state(&self.peers);
        self.roce.insert(index);
        self.qps.set_roce_number(id, remote.own_qp);
        tracing::info!(qp = %id, peer = %to, remote = %remote.qp, %mtu, "connected over RoCEv2");
        Ok(())
    }

    /// Replaces the parameters of sending of a RoCEv2 connection.
    pub(crate) fn set_roce_sending(
        &mut self,
        index: usize,
        remote: &RoceRemote,
    ) -> Result<(), RoceError> {
        let entry = self.qps.at(index).expect("a queue pair with a handle exists");
        let qp = entry.shared.id;
        let QpLocation::Roce(roce) = &mut entry.place else {
            return Err(RoceError::Sending { qp });
        };
        if roce.set_sending(remote) { Ok(()) } else { Err(RoceError::Sending { qp }) }
    }

    /// Moves a RoCEv2 queue pair to ERR, after the packets that can leave now. RoCEv2 has no
    /// message at its end.
    fn disconnect_roce(&mut self, index: usize) {
        self.transmit(self.clock.now());
        let Some(roce) = self.qps.roce_mut(index) else { return };
        if roce.qp.state().receives() {
            let changed = roce.qp.modify(QpState::Error);
            changed.expect("a queue pair that receives can go to ERR");
            self.mirror_state(index);
            self.log_own_end(index);
        }
        self.settle();
    }

    /// Takes the queue pair out of its RoCEv2 connection, which has ended.
    fn leave_roce_peer(&mut self, index: usize) {
        let Some(entry) = self.qps.at(index) else { return };
        let place = std::mem::replace(&mut entry.place, QpLocation::vacant());
        let (id, mut number) = (entry.shared.id, None);
        if let QpLocation::Roce(roce) = place {
            number = roce.number();
            entry.place = QpLocation::Unbound(Box::new(roce.qp.into_unconnected()));
        }
        entry.remote_addrs = None;
        self.roce.remove(index);
        self.roce.release(number.unwrap_or(id));
        self.qps.forget_roce_number(number);
    }

    /// Changes the state of a queue pair, except to RESET; see [`Worker::reset`].
    pub(crate) fn modify(&mut self, index: usize, to: QpState) -> Result<(), StateError> {
        let now = self.clock.now();
        let Some(entry) = self.qps.at(index) else { return Ok(()) };
        let was_ended = entry.shared.state() == QpState::Error;
        // Work requests posted earlier take part in the change.
        match self.lane.as_deref_mut() {
            None => entry.take_posts(now, &mut self.peers),
            Some(lane) => {
                let regions = self.regions.load();
                let copied = entry.take_posts_copying(now, &mut self.peers, lane, regions);
                entry.end_if_failed(&mut self.peers, &self.events, copied);
            }
        }
        let changed = match &mut entry.place {
            QpLocation::Unbound(qp) => qp.modify(to),
            QpLocation::Bound { peer, slot } => {
                self.peers.endpoint_mut(*peer).modify(now, *slot, to)
            }
            QpLocation::Roce(roce) => roce.qp.modify(to),
        };
        entry.mirror_state(&self.peers);
        entry.check_attempt(&mut self.initiators);
        entry.deliver_unbound();
        if to == QpState::Error && !was_ended {
            self.log_own_end(index);
        }
        self.retire(index);
        self.progress();
        changed
    }

    /// Changes the options that may change during the life of a queue pair.
    pub(crate) fn set_attributes(&mut self, index: usize, attributes: QpAttributes) {
        let Some(entry) = self.qps.at(index) else { return };
        match &mut entry.place {
            QpLocation::Unbound(qp) => qp.set_attributes(attributes),
            QpLocation::Bound { peer, slot } => {
                self.peers.endpoint_mut(*peer).set_attributes(*slot, attributes);
            }
            QpLocation::Roce(roce) => roce.qp.set_attributes(attributes),
        }
    }

    /// Resets a queue pair and gives it a new token, so that packets of the earlier connection do
    /// not match. Returns the attempt that the queue pair was accepted for, if any.
    pub(crate) fn reset(&mut self, index: usize) -> Option<AttemptId> {
        self.leave_peer(index);
        let entry = self.qps.at(index)?;
        self.rails.close(entry.shared.id);
        entry.shared.set_state(QpState::Reset, None);
        entry.forget_posts();
        if let Some(lane) = &mut self.lane {
            entry.release_copies(lane);
        }
        if let QpLocation::Unbound(qp) = &mut entry.place {
            let next = fresh(qp.id(), qp.config().clone());
            entry.token = next.token();
            **qp = next;
        }
        entry.accepted.take().map(|accepted| accepted.attempt())
    }

    /// Disconnects from the peer and takes the queue pair out of its endpoint. Outstanding work
    /// requests end without completions.
    fn leave_peer(&mut self, index: usize) {
        if let Some(entry) = self.qps.at(index) {
            entry.muted = true;
        }
        self.disconnect(index);
        let Some(entry) = self.qps.at(index) else { return };
        entry.muted = false;
        if matches!(entry.place, QpLocation::Roce(_)) {
            return self.leave_roce_peer(index);
        }
        let Some((peer, slot)) = entry.bound() else { return };
        let now = self.clock.now();
        // A last survey, because a short connection may have had none.
        self.survey(now, peer);
        let Some(entry) = self.qps.at(index) else { return };
        let Some((endpoint, rails, _)) = self.peers.parts(peer) else { return };
        self.initiators.forget(entry.shared.id);
        let qp = endpoint.release(now, slot, rails);
        if let Some(end) = entry.keyed() {
            let keep = self.plan.peer_timeout.max(qp.config().retry_timeout);
            self.sessions.end(now, end, keep);
            entry.is_keyed = false;
        }
        entry.place = QpLocation::Unbound(Box::new(qp));
        entry.remote_addrs = None;
        for (rail, addr) in self.peers.remove_if_empty(peer) {
            self.rails.unwatch(rail, addr);
        }
    }

    /// Logs an end that the application caused, which needs no event.
    fn log_own_end(&mut self, index: usize) {
        let shared = self.qps.at(index).map(|entry| &entry.shared);
        if let Some((shared, error)) = shared.and_then(|shared| Some((shared, shared.error()?))) {
            log_end(shared.id, error);
        }
    }

    /// Prepares copies from and to device memory of another context.
    pub(crate) fn add_context(&mut self, context: &Arc<Context>) -> Result<(), CudaError> {
        let lane = match &mut self.lane {
            Some(lane) => lane,
            None => {
                let lane = Lane::new().map_err(|error| CudaError::NoMemory(error.to_string()))?;
                self.lane.insert(Box::new(lane))
            }
        };
        lane.add(context)?;
        self.contexts.truncate(context.index());
        self.contexts.push(context.clone());
        Ok(())
    }

    /// Ends the copies for a queue pair that has ended, before its completions are delivered.
    fn stop_copies(&mut self, index: usize) {
        let Some(lane) = &mut self.lane else { return };
        let Some(entry) = self.qps.at(index) else { return };
        if lane.stop(entry.shared.id) {
            // Segments that have not left must not be read from memory of others.
            self.rails.forget_memory();
        }
        if let Some((peer, slot)) = entry.bound() {
            entry.flush_held(self.clock.now(), self.peers.endpoint_mut(peer), slot);
        }
    }

    /// Stops placement for a queue pair that does not receive.
    fn retire(&mut self, index: usize) {
        let Some(entry) = self.qps.at(index).filter(|entry| entry.bound().is_some()) else {
            return;
        };
        if !entry.shared.state().receives() {
            self.rails.retire(entry.shared.id);
            self.stop_copies(index);
        }
    }

    fn mirror_state(&mut self, index: usize) {
        if let Some(entry) = self.qps.at(index) {
            entry.mirror_state(&self.peers);
        }
    }

    /// Drops every reference to regions that are no longer in the table.
    pub(crate) fn forget_memory(&mut self, is_device: bool) {
        self.rails.forget_memory();
        if is_device && let Some(lane) = &mut self.lane {
            lane.wait();
        }
    }

    pub(crate) fn remote_addr(&mut self, index: usize) -> Option<SocketAddr> {
        self.qps.at(index)?.remote_addrs.as_ref().map(PeerAddrs::first)
    }

    /// The protocol that carries a queue pair's packets.
    pub(crate) fn protocol(&mut self, index: usize) -> Option<&'static str> {
        let protocols = self.plan.protocols;
        self.qps.at(index)?.protocol(protocols)
    }

    pub(crate) fn qp_counters(&mut self, index: usize) -> QpCounters {
        let peers = &self.peers;
        self.qps.at(index).map(|entry| entry.counters(peers)).unwrap_or_default()
    }

    pub(crate) fn ooo_degrees(&mut self, index: usize) -> Option<OooDegrees> {
        let (peer, slot) = self.qps.at(index)?.bound()?;
        self.peers.endpoint(peer).qp(slot).ooo_degrees().cloned()
    }

    /// The paths in use, by destination and rail.
    pub(crate) fn path_sets(&self) -> impl Iterator<Item = PathsTo> {
        self.peers.path_sets()
    }

    /// The connections of the paths, where paths are connections.
    pub(crate) fn routes(&self) -> Vec<PathRoute> {
        self.rails.routes()
    }

    pub(crate) fn packet_payload(&mut self, index: usize) -> Option<u16> {
        let peers = &self.peers;
        self.qps.at(index)?.packet_payload(peers)
    }

    pub(crate) fn uses_path_ports(&mut self, index: usize) -> Option<bool> {
        let (peer, _) = self.qps.at(index)?.bound()?;
        let endpoint = self.peers.endpoint(peer);
        Some(!self.rails.ids().any(|rail| endpoint.paths_are_blocked(rail)))
    }

    /// The keys of a queue pair's connection.
    pub(crate) fn session(&mut self, index: usize) -> Option<&Session> {
        let end = self.qps.at(index)?.keyed()?;
        self.sessions.get_mut(end).map(|session| &*session)
    }

    pub(crate) fn remote(&mut self, index: usize) -> Option<Remote> {
        let peers = &self.peers;
        self.qps.at(index)?.remote(peers)
    }
}

fn fresh(id: QpId, config: QpConfig) -> QueuePair {
    QueuePair::new(id, Token(random::number() as u32), config)
}
