//! A worker's part of a device: all its connections on this rail, and their traffic.

mod receive;
mod send;
#[cfg(test)]
mod tests;

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use braid_verbs::CompletionChannel;
use braid_wire::{
    FRAME_LEN, Frame, MAX_DATA_HEADER_LEN, NicAddress, NoteBody, PathId, QpId, RailId,
};
use rustc_hash::FxHashMap;

use super::batch::SendBatch;
use super::buffers::Buffers;
use super::completion_queues::CompletionQueues;
use super::connection::Connection;
use super::control::{self, ControlQp};
use super::device::Device;
use super::losses::Losses;
use super::nic_qp::{NIC_QP_SENDS, NicQp, credits, receives};
use super::pool::Pool;
use super::segments::Segments;
use super::setup_error::VerbsSetupError;
use crate::datapath::{JoinError, Owner, Partner};
use crate::parts::MAX_PARTS;
use crate::random;

/// The longest wait for the NIC to send its queued work before its queue pairs are closed.
const PATIENCE: Duration = Duration::from_millis(200);
/// The interval of checks whether the device is still there.
const LOOK_AFTER: Duration = Duration::from_millis(20);

/// The connections of a worker on one device. One thread at a time owns them.
pub(crate) struct Connections {
    device: Arc<Device>,
    /// The rail, which selects the keys of regions.
    rail: RailId,
    batch: SendBatch,
    connections: FxHashMap<QpId, Connection>,
    /// The owners of NIC queue pairs by number.
    nic_qps: FxHashMap<u32, (QpId, usize)>,
    control: ControlQp,
    /// Connections that take no segment now, as the core was told.
    full: Vec<QpId>,
    queues: CompletionQueues,
    channel: CompletionChannel,
    paths: usize,
    sizes: BufferSizes,
    look_at: Instant,
    gone: bool,
}

/// The sizes of the buffers of all connections.
struct BufferSizes {
    /// Bytes of a receive buffer.
    message_len: usize,
    /// Bytes of a send buffer, which also holds all parts of a packet that does not fit in a
    /// message.
    slot_len: usize,
    /// Parts of the longest packet that fits in a message.
    parts: usize,
}

impl Connections {
    pub(crate) fn new(
        device: Arc<Device>,
        rail: RailId,
        paths: usize,
        segments: Segments,
    ) -> Result<Self, VerbsSetupError> {
        let channel = device.context.create_channel()?;
        let mut queues = CompletionQueues::default();
        let datagrams = (control::SENDS as usize, control::RECEIVES as usize);
        let datagrams = queues.reserve(&device, &channel, datagrams)?;
        let qkey = random::number() as u32 & 0x7FFF_FFFF;
        let control = ControlQp::new(&device, queues.cqs(datagrams), qkey)?;
        let part_len = Frame::part_len(device.mtu as usize);
        let (parts, message_len) = room(segments.staged, part_len);
        let (most_parts, slot_len) = room(segments.longest(), part_len);
        if most_parts > MAX_PARTS {
            let most = MAX_PARTS * part_len - MAX_DATA_HEADER_LEN;
            return Err(VerbsSetupError::Mtu { mtu: segments.staged, most, path: device.mtu });
        }
        Ok(Connections {
            device,
            rail,
            batch: SendBatch::default(),
            connections: FxHashMap::default(),
            nic_qps: FxHashMap::default(),
            control,
            full: Vec::new(),
            queues,
            channel,
            paths,
            sizes: BufferSizes { message_len, slot_len, parts },
            look_at: Instant::now(),
            gone: false,
        })
    }

    /// The descriptors that become readable when something has arrived, after [`Connections::arm`].
    pub(crate) fn readiness(&self) -> [BorrowedFd<'_>; 2] {
        [self.channel.as_fd(), self.device.context.async_fd()]
    }

    /// Arms the completion queues. Poll once more before sleeping.
    pub(crate) fn arm(&mut self) {
        let armed = self.channel.drain().and_then(|_| self.queues.request_notify());
        if let Err(error) = armed {
            tracing::warn!(%error, "an RDMA device does not answer");
            self.gone = true;
        }
    }

    /// Returns `true` once, when the device is gone.
    pub(crate) fn has_lost_device(&mut self) -> bool {
        let now = Instant::now();
        if self.gone && self.connections.values().all(|connection| connection.nic_qps.is_empty()) {
            return false;
        }
        if !self.gone && now < self.look_at {
            return false;
        }
        self.look_at = now + LOOK_AFTER;
        self.gone |= self.device.is_gone();
        self.gone
    }

    /// Opens a connection that is not joined yet. An earlier one of the same queue pair ends.
    /// Returns the address of the connection.
    pub(crate) fn open(&mut self, owner: Owner) -> Result<Vec<u8>, JoinError> {
        self.close(owner.id);
        let pool = Pool::new(self.device.domain(owner.pd)?, self.sizes.slot_len)?;
        let psn = random::number() as u32 & 0xFF_FFFF;
        let (nic_qps, losses) = (Vec::new(), Losses::default());
        let connection = Connection { owner, psn, nic_qps, pool, far: None, losses };
        self.connections.insert(owner.id, connection);
        let made = self.make_nic_qps(owner);
        if made.is_err() {
            self.close(owner.id);
        }
        made
    }

    fn make_nic_qps(&mut self, owner: Owner) -> Result<Vec<u8>, JoinError> {
        let Some(connection) = self.connections.get_mut(&owner.id) else { return Ok(Vec::new()) };
        let nic_qps = self.paths + 1;
        let count = receives(nic_qps, self.sizes.message_len);
        let buffers =
            Arc::new(Buffers::new(&connection.pool.pd, nic_qps * count, self.sizes.message_len)?);
        for index in 0..nic_qps {
            let posted = (NIC_QP_SENDS, count);
            let room = self.queues.reserve(&self.device, &self.channel, posted)?;
            let cqs = (self.queues.cqs(room), room);
            let own = index * count..(index + 1) * count;
            let made = NicQp::new(&self.device, &connection.pool, cqs, &buffers, own);
            let nic_qp = made.inspect_err(|_| self.queues.release(room))?;
            nic_qp.number().map(|number| self.nic_qps.insert(number, (owner.id, index)));
            connection.nic_qps.push(nic_qp);
        }
        Ok(connection
            .address(&self.device, &self.control, credits(count, self.sizes.parts))
            .encode())
    }

    /// Joins a connection with its peer end. Returns the number of segments that may be in flight
    /// towards it.
    pub(crate) fn join(
        &mut self,
        id: QpId,
        partner: Partner,
        address: &[u8],
    ) -> Result<u32, JoinError> {
        if address.is_empty() {
            return Err(JoinError::PeerOverUdp);
        }
        let address = NicAddress::decode(address)?;
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.join(&self.device, &self.control, partner, &address)?;
        }
        Ok(address.credits.into())
    }

    /// Closes the NIC queue pairs of a queue pair that no longer receives, so that nothing is
    /// placed any more. Acknowledgements can still be sent.
    pub(crate) fn retire(&mut self, id: QpId) {
        if self.batch.nic_qp().is_some_and(|(own, _)| own == id) {
            self.flush();
        }
        let Some(Connection { nic_qps, pool, .. }) = self.connections.get_mut(&id) else { return };
        for mut nic_qp in nic_qps.drain(..) {
            let number = nic_qp.number();
            if let Err(error) = nic_qp.close(pool) {
                tracing::debug!(%error, "closing a NIC queue pair");
                nic_qp.end(pool);
            }
            if let Some(number) = number {
                self.nic_qps.remove(&number);
                self.queues.clear(nic_qp.room, number);
            }
            self.queues.release(nic_qp.room);
        }
    }

    /// Abandons all connections because the device is gone. The device may still work until it is
    /// released, but must not answer probes of the rail, because an answer would put the rail back
    /// in use.
    pub(crate) fn abandon(&mut self) {
        let all: Vec<QpId> = self.connections.keys().copied().collect();
        all.into_iter().for_each(|id| self.retire(id));
        self.connections.values_mut().for_each(|connection| connection.far = None);
    }

    /// Ends a connection.
    pub(crate) fn close(&mut self, id: QpId) {
        self.retire(id);
        self.connections.remove(&id);
        self.full.retain(|full| *full != id);
    }

    /// Closes a path's NIC queue pair, creates another, and tells the peer. Returns `false` if it
    /// could not be closed.
    fn renew(&mut self, id: QpId, index: usize) -> bool {
        let is_closed = self.close_nic_qp(id, index);
        if is_closed {
            self.reopen_nic_qp(id, index);
        }
        is_closed
    }

    /// Closes a NIC queue pair, so that nothing sent to it is placed any more. Returns `false` if
    /// the device has not closed it.
    fn close_nic_qp(&mut self, id: QpId, index: usize) -> bool {
        let Some(Connection { nic_qps, pool, .. }) = self.connections.get_mut(&id) else {
            return true;
        };
        let Some(nic_qp) = nic_qps.get_mut(index) else { return true };
        let number = nic_qp.number();
        if let Err(error) = nic_qp.close(pool) {
            tracing::warn!(qp = %id, path = index, %error, "a NIC queue pair cannot be closed");
            self.gone |= self.device.is_gone();
            return false;
        }
        if let Some(number) = number {
            self.nic_qps.remove(&number);
            self.queues.clear(nic_qp.room, number);
        }
        true
    }

    /// Creates another NIC queue pair for a path whose own was closed, and tells the peer.
    fn reopen_nic_qp(&mut self, id: QpId, index: usize) {
        let Some(Connection { nic_qps, pool, far, .. }) = self.connections.get_mut(&id) else {
            return;
        };
        let (Some(far), Some(nic_qp)) = (far, nic_qps.get_mut(index)) else { return };
        let cqs = self.queues.cqs(nic_qp.room);
        let opened = nic_qp.reopen(&self.device, pool, cqs);
        let remote = nic_qp.remote;
        match opened.and_then(|()| nic_qp.connect(&far.rtr(&self.device, index, remote))) {
            Ok(()) => {
                nic_qp.number().map(|number| self.nic_qps.insert(number, (id, index)));
                tracing::debug!(
                    qp = %id,
                    path = index,
                    epoch = nic_qp.epoch,
                    "a NIC queue pair is renewed"
                );
            }
            Err(error) => {
                tracing::warn!(qp = %id, path = index, %error, "a NIC queue pair is lost");
                nic_qp.end(pool);
            }
        }
        self.announce_renewal(id, index);
    }

    fn announce_renewal(&mut self, id: QpId, index: usize) {
        let Some(connection) = self.connections.get(&id) else { return };
        let (Some(far), Some(nic_qp)) = (&connection.far, connection.nic_qps.get(index)) else {
            return;
        };
        let Some(number) = nic_qp.number() else { return };
        let path = PathId::new(index as u16);
        let body = NoteBody::NewEpoch { path, epoch: nic_qp.epoch, nic_qp: number };
        self.control.answer(far.control(), Frame::note(), &far.note(body).encode());
    }

    /// Waits until the NIC reads for no work request any more, because memory is about to go.
    pub(crate) fn quiesce(&mut self) {
        self.flush();
        let until = Instant::now() + PATIENCE;
        while self.outstanding() > 0 && !self.gone {
            self.reap();
            if Instant::now() > until {
                return self.renew_busy();
            }
            std::thread::yield_now();
        }
    }

    /// The number of work requests whose memory the NIC may read.
    fn outstanding(&self) -> usize {
        let nic_qps = self.connections.values().flat_map(|connection| &connection.nic_qps);
        nic_qps.map(NicQp::outstanding).sum()
    }

    /// Closes the NIC queue pairs that do not complete their work requests.
    fn renew_busy(&mut self) {
        let busy = |connection: &Connection| {
            let id = connection.owner.id;
            let nic_qps = connection.nic_qps.iter().enumerate();
            let busy = nic_qps.filter(|(_, nic_qp)| nic_qp.outstanding() > 0);
            busy.map(move |(index, _)| (id, index)).collect::<Vec<_>>()
        };
        let busy: Vec<_> = self.connections.values().flat_map(busy).collect();
        for (id, index) in busy {
            self.renew(id, index);
        }
    }
}

/// The largest number of parts of a packet with `payload` bytes, and the buffer size for it. The
/// size includes the frames of all parts, or a frame of headers.
fn room(payload: u16, part_len: usize) -> (usize, usize) {
    let packet_len = MAX_DATA_HEADER_LEN + usize::from(payload);
    let parts = packet_len.div_ceil(part_len);
    (parts, (packet_len + parts * FRAME_LEN).max(2048).next_multiple_of(64))
}
