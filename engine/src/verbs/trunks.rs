//! A worker's side of the device: all its trunks, and what moves on them.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use braid_transport::{Access, Fence, PdId, Placement, Regions, SgList};
use braid_verbs::{Completion, CompletionChannel, Cq, WcOpcode};
use braid_wire::{
    DataHeader, FRAME_LEN, Frame, FrameKind, MAX_DATA_HEADER_LEN, MAX_LANES, Note, NoteBody,
    Opcode, PathId, QpId, Time, TrunkAddress,
};
use smallvec::SmallVec;

use super::batch::{Batch, Entries};
use super::buffers::Buffers;
use super::control::Control;
use super::device::{Device, KeyCache};
use super::error::TrunkError;
use super::lane::{LANE_SENDS, Lane, MAX_PIECES, credits, receives};
use super::options::VerbsSetupError;
use super::parts::MAX_PARTS;
use super::pool::Pool;
use super::trunk::{Owner, Partner, Trunk};
use crate::link::Received;
use crate::random;

/// Work requests that the NIC may have at a time: fewer than a lane holds, and enough to keep it busy.
const BUSY: usize = LANE_SENDS - MAX_PARTS - 32;
/// Entries of each completion queue: receives of all pools, sends of all lanes.
const COMPLETIONS: u32 = 1 << 14;
/// Completions that are looked at together.
const LOOK: usize = 32;
/// Looks in one turn of the worker.
const LOOKS: usize = 8;
/// Payloads shorter than this are staged: one message costs less than two.
const BLIND_FROM: u16 = 1024;
/// How long after a loss packets go in parts.
const ROUGH: Duration = Duration::from_millis(500);
/// How long the NIC may take to send what it has, until its queue pairs are closed.
const PATIENCE: Duration = Duration::from_millis(200);
/// How often the device is asked whether it is still there.
const LOOK_AFTER: Duration = Duration::from_millis(20);

/// A segment to send.
pub(crate) struct Shipment<'a> {
    pub(crate) header: &'a DataHeader,
    pub(crate) gather: &'a SgList,
    pub(crate) path: PathId,
    pub(crate) placement: Placement,
}

/// What has come in.
pub(crate) enum Arrived<'a> {
    /// A packet in a message buffer.
    Packet(Received<'a>),
    /// The header of a segment whose payload is in its place already.
    Placed(PathId, &'a DataHeader),
    /// The peer has closed what came before this generation of a path.
    Renewed(QpId, PathId, u32),
}

/// See the module. One thread at a time owns it.
pub(crate) struct Trunks {
    device: Arc<Device>,
    keys: KeyCache,
    batch: Batch,
    trunks: HashMap<QpId, Trunk>,
    /// By NIC queue pair number.
    lanes: HashMap<u32, (QpId, usize)>,
    control: Control,
    pools: HashMap<PdId, Pool>,
    send_cq: Cq,
    recv_cq: Cq,
    channel: CompletionChannel,
    paths: usize,
    /// Bytes of a message buffer.
    message_len: usize,
    /// Parts of the longest packet.
    parts: usize,
    /// Work requests on lanes that the NIC may read for.
    outstanding: usize,
    look_at: Instant,
    gone: bool,
}

impl Trunks {
    /// `mtu`: the longest payload of a segment.
    pub(crate) fn new(
        device: Arc<Device>,
        paths: usize,
        mtu: u16,
    ) -> Result<Self, VerbsSetupError> {
        if paths >= MAX_LANES {
            return Err(VerbsSetupError::Paths { paths, max: MAX_LANES - 1 });
        }
        let entries = COMPLETIONS.min(device.attributes.max_cqe);
        let channel = device.context.create_channel()?;
        let send_cq = device.context.create_cq(entries, Some(&channel))?;
        let recv_cq = device.context.create_cq(entries, Some(&channel))?;
        let qkey = random::number() as u32 & 0x7FFF_FFFF;
        let control = Control::new(&device, &send_cq, &recv_cq, qkey)?;
        let packet_len = MAX_DATA_HEADER_LEN + usize::from(mtu);
        let parts = packet_len.div_ceil(Frame::part_len(device.mtu as usize));
        if parts > MAX_PARTS {
            let most = MAX_PARTS * Frame::part_len(device.mtu as usize) - MAX_DATA_HEADER_LEN;
            return Err(VerbsSetupError::Mtu { mtu, most, path: device.mtu });
        }
        Ok(Trunks {
            keys: device.keys(),
            device,
            batch: Batch::default(),
            trunks: HashMap::new(),
            lanes: HashMap::new(),
            control,
            pools: HashMap::new(),
            send_cq,
            recv_cq,
            channel,
            paths,
            parts,
            // So that there is room for the frames of all parts, and for one of headers.
            message_len: (packet_len + parts * FRAME_LEN).max(2048).next_multiple_of(64),
            outstanding: 0,
            look_at: Instant::now(),
            gone: false,
        })
    }

    /// What becomes readable when something has come, after [`Trunks::arm`].
    pub(crate) fn readiness(&self) -> [BorrowedFd<'_>; 2] {
        [self.channel.as_fd(), self.device.context.async_fd()]
    }

    /// Asks to be told of the next completions; look once more before sleeping.
    pub(crate) fn arm(&mut self) {
        let armed = self
            .channel
            .drain()
            .and_then(|_| self.send_cq.request_notify())
            .and_then(|()| self.recv_cq.request_notify());
        if let Err(error) = armed {
            tracing::warn!(%error, "an RDMA device does not answer");
            self.gone = true;
        }
    }

    /// True once, when the device is gone.
    pub(crate) fn has_lost_device(&mut self) -> bool {
        let now = Instant::now();
        if self.gone && self.trunks.values().all(|trunk| trunk.lanes.is_empty()) {
            return false;
        }
        if !self.gone && now < self.look_at {
            return false;
        }
        self.look_at = now + LOOK_AFTER;
        self.gone |= self.device.is_gone();
        self.gone
    }

    /// Makes a trunk, not joined yet; a former one of the same queue pair ends. Returns its address.
    pub(crate) fn open(&mut self, owner: Owner) -> Result<Vec<u8>, TrunkError> {
        self.close(owner.id);
        self.pool(owner.pd)?;
        let psn = random::number() as u32 & 0xFF_FFFF;
        let trunk = Trunk { owner, psn, lanes: Vec::new(), far: None, rough_until: Time::ZERO };
        self.trunks.insert(owner.id, trunk);
        let made = self.make_lanes(owner);
        if made.is_err() {
            self.close(owner.id);
        }
        made
    }

    fn make_lanes(&mut self, owner: Owner) -> Result<Vec<u8>, TrunkError> {
        let Some(trunk) = self.trunks.get_mut(&owner.id) else { return Ok(Vec::new()) };
        let (pool, cqs) = (&self.pools[&owner.pd], (&self.send_cq, &self.recv_cq));
        let count = (self.paths + 1) * receives(self.message_len);
        let buffers = Arc::new(Buffers::new(&pool.pd, count, self.message_len)?);
        for index in 0..=self.paths {
            let lane = Lane::new(&self.device, pool, cqs, &buffers, index)?;
            lane.number().map(|number| self.lanes.insert(number, (owner.id, index)));
            trunk.lanes.push(lane);
        }
        Ok(trunk
            .address(&self.device, &self.control, credits(self.message_len, self.parts))
            .encode())
    }

    fn pool(&mut self, pd: PdId) -> Result<&mut Pool, TrunkError> {
        if !self.pools.contains_key(&pd) {
            let domain = self.device.domain(pd)?;
            let pool = Pool::new(domain, self.message_len)?;
            self.pools.insert(pd, pool);
        }
        Ok(self.pools.get_mut(&pd).expect("it was just made"))
    }

    /// Joins a trunk with its other end. Returns how many segments may be in flight towards it.
    pub(crate) fn join(
        &mut self,
        id: QpId,
        partner: Partner,
        address: &[u8],
    ) -> Result<u32, TrunkError> {
        if address.is_empty() {
            return Err(TrunkError::PeerOverUdp);
        }
        let address = TrunkAddress::decode(address)?;
        if let Some(trunk) = self.trunks.get_mut(&id) {
            trunk.join(&self.device, &self.control, partner, &address)?;
        }
        Ok(address.credits.into())
    }

    /// Closes the lanes of a queue pair that receives no more: nothing lands from now on. Acknowledgements
    /// can still be sent.
    pub(crate) fn retire(&mut self, id: QpId) {
        if self.batch.lane().is_some_and(|(own, _)| own == id) {
            self.flush();
        }
        let Some(trunk) = self.trunks.get_mut(&id) else { return };
        let Some(pool) = self.pools.get_mut(&trunk.owner.pd) else { return };
        for mut lane in trunk.lanes.drain(..) {
            lane.number().map(|number| self.lanes.remove(&number));
            self.outstanding -= lane.outstanding();
            if let Err(error) = lane.close(pool) {
                tracing::debug!(%error, "closing a lane");
            }
        }
    }

    /// Ends a trunk.
    pub(crate) fn close(&mut self, id: QpId) {
        self.retire(id);
        self.trunks.remove(&id);
    }

    /// Whether another segment can be shipped now.
    pub(crate) fn has_room(&self) -> bool {
        let buffers = self.pools.values().all(|pool| pool.room() >= 2);
        buffers && self.outstanding + self.batch.len() < BUSY
    }

    /// Sends an acknowledgement or a control packet about a path.
    pub(crate) fn note(&mut self, id: QpId, path: PathId, packet: &[u8]) {
        if let Some(far) = self.trunks.get(&id).and_then(|trunk| trunk.far.as_ref()) {
            self.control.send(far.control(), Frame::packet(path, None), packet);
        }
    }

    /// Ships a segment, whose memory has been checked for reading, when there is room. Returns whether its
    /// payload was staged.
    pub(crate) fn ship(&mut self, now: Time, id: QpId, shipment: &Shipment<'_>) -> bool {
        if let Placement::Blind(fence) = shipment.placement
            && self.write(now, id, shipment, fence)
        {
            return false;
        }
        self.stage(now, id, shipment);
        true
    }

    /// Has the payload written where it belongs; false: that cannot be, or not yet.
    fn write(&mut self, now: Time, id: QpId, shipment: &Shipment<'_>, fence: Fence) -> bool {
        let Shipment { header, path, .. } = *shipment;
        let at = (id, usize::from(path.get()));
        let Some(entries) = self.entries(shipment.gather) else { return false };
        if header.len < BLIND_FROM || entries.len() > MAX_PIECES {
            return false;
        }
        let addr = header.address.wrapping_add(header.offset.into());
        let Some(nic_rkey) = self.nic_rkey(now, id, header.rkey, addr, header.len) else {
            return false;
        };
        if !self.batch.takes(at) {
            self.flush();
        }
        let Some(trunk) = self.trunks.get_mut(&id) else { return false };
        let Some(pool) = self.pools.get_mut(&trunk.owner.pd) else { return false };
        let safe = trunk.safe();
        let Some(lane) = trunk.lanes.get_mut(at.1).filter(|_| at.1 < safe) else { return false };
        if !lane.is_open() || lane.remote_generation != fence.generation {
            return false;
        }
        let mut bytes = Vec::with_capacity(MAX_DATA_HEADER_LEN);
        header.encode(&mut bytes);
        self.batch.write(at, (lane, pool), &bytes, (addr, nic_rkey), entries)
    }

    fn nic_rkey(&mut self, now: Time, id: QpId, rkey: u32, addr: u64, len: u16) -> Option<u32> {
        let far = self.trunks.get_mut(&id)?.far.as_mut()?;
        let known = far.nic_rkey(rkey, addr, len.into());
        if known.is_none() && far.must_ask(now, rkey) {
            let note = far.note(NoteBody::Ask { rkey }).encode();
            self.control.send(far.control(), Frame::note(), &note);
        }
        known
    }

    /// The NIC's view of pieces of registered memory; `None`: some of it is not registered with the NIC (any more).
    fn entries(&mut self, gather: &SgList) -> Option<Entries> {
        let keys = self.keys.load();
        let entry = |piece: &braid_transport::Sge| {
            let lkey = keys.get(&piece.lkey)?.lkey;
            Some(braid_verbs::Sge { addr: piece.addr, len: piece.len, lkey })
        };
        gather.iter().map(entry).collect()
    }

    /// Sends header and payload as one message.
    fn stage(&mut self, now: Time, id: QpId, shipment: &Shipment<'_>) {
        let Shipment { header, gather, path, placement } = *shipment;
        let fence = match placement {
            Placement::Staged { fence } => fence.map(|fence| (fence.path, fence.generation)),
            Placement::Blind(_) => None,
        };
        let entries = self.entries(gather).filter(|entries| entries.len() <= MAX_PIECES);
        let Some(trunk) = self.trunks.get_mut(&id) else { return };
        if let Some((path, generation)) = fence {
            let lane = trunk.lanes.get_mut(usize::from(path.get()));
            if let Some(lane) = lane.filter(|lane| lane.remote_generation == generation) {
                lane.is_shut = true;
            }
        }
        let lane = match header.retransmission {
            // A lane may take nothing any more until its fence has arrived, which is on its way with this.
            true => {
                trunk.rough_until = now + ROUGH;
                trunk.safe()
            }
            false => trunk.lane_for(path),
        };
        let at = (id, lane);
        let pd = trunk.owner.pd;
        let len = FRAME_LEN + header.encoded_len() + usize::from(header.len);
        if now < trunk.rough_until && len > self.device.mtu as usize {
            return self.stage_in_parts(at, shipment, fence);
        }
        if !self.batch.takes(at) {
            self.flush();
        }
        let Some(pool) = self.pools.get_mut(&pd) else { return };
        let mut staged = Vec::with_capacity(FRAME_LEN + MAX_DATA_HEADER_LEN);
        staged.extend_from_slice(&Frame::packet(path, fence).encode());
        header.encode(&mut staged);
        let copy = entries.is_none();
        if copy {
            for piece in gather {
                // SAFETY: the pieces have been checked for reading against the snapshot that the caller holds.
                unsafe { crate::memory::append(&mut staged, *piece) };
            }
        }
        let Some(slot) = pool.take() else { return };
        pool.write(slot, 0, &staged);
        let mut all = Entries::new();
        all.push(pool.entry(slot, staged.len()));
        all.extend(entries.into_iter().flatten().filter(|entry| entry.len > 0));
        self.batch.send(at, slot, all);
    }

    /// Sends header and payload as messages of one NIC packet each.
    fn stage_in_parts(
        &mut self,
        at: (QpId, usize),
        shipment: &Shipment<'_>,
        fence: Option<(PathId, u32)>,
    ) {
        let part_len = Frame::part_len(self.device.mtu as usize);
        let mut staged = Vec::with_capacity(self.message_len);
        shipment.header.encode(&mut staged);
        for piece in shipment.gather {
            // SAFETY: the pieces have been checked for reading against the snapshot that the caller holds.
            unsafe { crate::memory::append(&mut staged, *piece) };
        }
        let count = staged.len().div_ceil(part_len);
        if count > MAX_PARTS || staged.len() + count * FRAME_LEN > self.message_len {
            debug_assert!(false, "send buffers have room for all parts");
            return;
        }
        if !self.batch.takes(at) || self.batch.len() + count > LANE_SENDS / 2 {
            self.flush();
        }
        let Some(trunk) = self.trunks.get_mut(&at.0) else { return };
        let Some(pool) = self.pools.get_mut(&trunk.owner.pd) else { return };
        let (Some(lane), Some(slot)) = (trunk.lanes.get_mut(at.1), pool.take()) else { return };
        lane.parts_serial = (lane.parts_serial + 1) & 0xFF_FFFF;
        pool.write(slot, 0, &staged);
        for index in 0..count {
            let frame = Frame::packet(shipment.path, fence);
            let frame = frame.part(lane.parts_serial, index as u8, count as u8);
            let head = staged.len() + index * FRAME_LEN;
            pool.write(slot, head, &frame.encode());
            let start = index * part_len;
            let end = staged.len().min(start + part_len);
            let entries = [pool.part(slot, head, FRAME_LEN), pool.part(slot, start, end - start)];
            let entries = Entries::from_slice(&entries);
            match index + 1 == count {
                false => self.batch.send_part(at, entries),
                true => self.batch.send(at, slot, entries),
            }
        }
    }

    /// Posts what waits.
    pub(crate) fn flush(&mut self) {
        let Some((id, index)) = self.batch.lane() else { return };
        let Some(trunk) = self.trunks.get_mut(&id) else { return };
        let Some(pool) = self.pools.get_mut(&trunk.owner.pd) else { return };
        let Some(lane) = trunk.lanes.get_mut(index) else { return self.batch.forget(pool) };
        let before = lane.outstanding();
        self.batch.post(lane, pool);
        let broken = lane.qp.is_none();
        self.outstanding = self.outstanding + lane.outstanding() - before;
        if broken && !self.gone {
            self.renew(id, index);
        }
    }

    /// Closes a lane's NIC queue pair, makes another, and tells the peer. False: it could not be closed.
    fn renew(&mut self, id: QpId, index: usize) -> bool {
        let Some(trunk) = self.trunks.get_mut(&id) else { return true };
        let Some(pool) = self.pools.get_mut(&trunk.owner.pd) else { return true };
        let Some(lane) = trunk.lanes.get_mut(index) else { return true };
        lane.number().map(|number| self.lanes.remove(&number));
        self.outstanding -= lane.outstanding();
        if let Err(error) = lane.close(pool) {
            tracing::warn!(qp = %id, path = index, %error, "a lane cannot be closed");
            self.gone |= self.device.is_gone();
            return false;
        }
        let Some(far) = &trunk.far else { return true };
        let cqs = (&self.send_cq, &self.recv_cq);
        let opened = lane.reopen(&self.device, pool, cqs);
        let remote = lane.remote;
        match opened.and_then(|()| lane.connect(&far.rtr(&self.device, index, remote))) {
            Ok(()) => {
                lane.number().map(|number| self.lanes.insert(number, (id, index)));
                tracing::debug!(qp = %id, path = index, generation = lane.generation, "a lane is renewed");
            }
            Err(error) => {
                tracing::warn!(qp = %id, path = index, %error, "a lane is lost");
                lane.qp = None;
            }
        }
        self.tell_renewed(id, index);
        true
    }

    fn tell_renewed(&mut self, id: QpId, index: usize) {
        let Some(trunk) = self.trunks.get(&id) else { return };
        let (Some(far), Some(lane)) = (&trunk.far, trunk.lanes.get(index)) else { return };
        let Some(number) = lane.number() else { return };
        let path = PathId::new(index as u16);
        let body = NoteBody::Renewed { path, generation: lane.generation, lane: number };
        self.control.send(far.control(), Frame::note(), &far.note(body).encode());
    }

    /// Takes what has come, within a budget. Returns how many messages that were.
    pub(crate) fn poll(&mut self, regions: &Regions, sink: &mut dyn FnMut(Arrived<'_>)) -> usize {
        self.reap();
        let mut count = 0;
        let mut room = [Completion::default(); LOOK];
        for _ in 0..LOOKS {
            let found = match self.recv_cq.poll(&mut room) {
                Ok(found) => found,
                Err(error) => {
                    tracing::warn!(%error, "an RDMA device does not answer");
                    self.gone = true;
                    return count;
                }
            };
            let found: SmallVec<[Completion; LOOK]> = found.iter().copied().collect();
            found.iter().for_each(|completion| self.take(completion, regions, sink));
            count += found.len();
            if found.len() < LOOK {
                break;
            }
        }
        count
    }

    /// Frees what the NIC is done with.
    fn reap(&mut self) {
        let mut room = [Completion::default(); LOOK];
        while let Ok(found) = self.send_cq.poll(&mut room) {
            for completion in found {
                self.sent(completion);
            }
            if found.len() < LOOK {
                break;
            }
        }
    }

    fn sent(&mut self, completion: &Completion) {
        if completion.qp_num() == self.control.number() {
            return self.control.on_sent(completion.id());
        }
        let Some((id, index)) = self.lanes.get(&completion.qp_num()).copied() else { return };
        let Some(trunk) = self.trunks.get_mut(&id) else { return };
        let Some(pool) = self.pools.get_mut(&trunk.owner.pd) else { return };
        let Some(lane) = trunk.lanes.get_mut(index) else { return };
        self.outstanding -= lane.on_sent(completion.id(), pool);
        if let Err(status) = completion.status() {
            tracing::debug!(qp = %id, path = index, %status, "a lane has failed");
            self.renew(id, index);
        }
    }

    fn take(
        &mut self,
        completion: &Completion,
        regions: &Regions,
        sink: &mut dyn FnMut(Arrived<'_>),
    ) {
        let buffer = completion.id() as u32;
        if completion.qp_num() == self.control.number() {
            if completion.status().is_ok() {
                self.take_datagram(buffer, completion.byte_len() as usize, regions, sink);
            }
            return self.control.recycle(buffer);
        }
        // A lane that has begun anew has no say of what it got before.
        let Some((id, index)) = self.lanes.get(&completion.qp_num()).copied() else { return };
        let Some(lane) = self.lane(id, index) else { return };
        let Some(buffer) = lane.received(completion.id()) else { return };
        if completion.status().is_ok() {
            match completion.opcode() {
                WcOpcode::Recv => self.take_message(completion, (id, index), sink),
                WcOpcode::RecvWriteWithImm => self.take_write(completion, (id, index), sink),
                _ => {}
            }
        }
        // A fence in the message may have renewed this very lane.
        let lane = self.lane(id, index);
        if let Some(lane) = lane.filter(|lane| lane.received(completion.id()).is_some()) {
            lane.recycle(buffer);
        }
    }

    fn lane(&mut self, id: QpId, index: usize) -> Option<&mut Lane> {
        self.trunks.get_mut(&id)?.lanes.get_mut(index)
    }

    /// A message of a lane.
    fn take_message(
        &mut self,
        completion: &Completion,
        (id, index): (QpId, usize),
        sink: &mut dyn FnMut(Arrived<'_>),
    ) {
        let (buffer, len) = (completion.id() as u32, completion.byte_len() as usize);
        // SAFETY: `received` has named the buffer, and it is recycled after this.
        let frame = |lane: &mut Lane| {
            Frame::decode(unsafe { lane.message(buffer, len) }?).ok().map(|f| f.0)
        };
        let Some(frame) = self.lane(id, index).and_then(frame) else { return };
        if let Some(fence) = frame.fence
            && !self.shut(id, fence)
        {
            return;
        }
        let Some(trunk) = self.trunks.get_mut(&id) else { return };
        let Some(lane) = trunk.lanes.get_mut(index) else { return };
        // A peer that has its own lane closed by what it sends on it gets nothing from that.
        if lane.received(completion.id()).is_none() {
            return;
        }
        let bytes = match frame.kind {
            FrameKind::Headers => return lane.take_heads(buffer, frame.serial, len),
            FrameKind::Part => lane.take_part(buffer, &frame, len, self.device.mtu as usize),
            // SAFETY: as above.
            FrameKind::Packet => {
                unsafe { lane.message(buffer, len) }.and_then(|b| b.get(FRAME_LEN..))
            }
            FrameKind::Note => None,
        };
        if let (Some(bytes), Some(far)) = (bytes, &trunk.far) {
            let from = far.from(frame.path);
            sink(Arrived::Packet(Received { from, congestion: false, bytes }));
        }
    }

    /// A payload is in its place, if the header that came before it says so.
    fn take_write(
        &mut self,
        completion: &Completion,
        (id, index): (QpId, usize),
        sink: &mut dyn FnMut(Arrived<'_>),
    ) {
        let Some(lane) = self.trunks.get(&id).and_then(|trunk| trunk.lanes.get(index)) else {
            return;
        };
        let head = completion.imm().and_then(|imm| lane.head_of(imm));
        let head = head.filter(|head| u32::from(head.len) == completion.byte_len());
        if let Some(header) = head {
            debug_assert!(matches!(header.opcode, Opcode::Write | Opcode::WriteImm));
            sink(Arrived::Placed(PathId::new(index as u16), &header));
        }
    }

    /// Makes sure that nothing lands any more that was sent to this generation of a path. False: it might.
    fn shut(&mut self, id: QpId, (path, generation): (PathId, u32)) -> bool {
        let index = usize::from(path.get());
        let Some(trunk) = self.trunks.get(&id) else { return false };
        let is_path = index < trunk.safe();
        let Some(lane) = trunk.lanes.get(index).filter(|_| is_path) else { return false };
        if lane.generation <= generation && !self.renew(id, index) {
            return false;
        }
        self.tell_renewed(id, index);
        true
    }

    fn take_datagram(
        &mut self,
        buffer: u32,
        len: usize,
        regions: &Regions,
        sink: &mut dyn FnMut(Arrived<'_>),
    ) {
        let Some(bytes) = self.control.received(buffer, len) else { return };
        let Ok((frame, rest)) = Frame::decode(bytes) else { return };
        match frame.kind {
            FrameKind::Packet => {
                // Whose it is its own token tells.
                let from = std::net::SocketAddr::from(([0, 0, 0, 0], frame.path.source_port()));
                sink(Arrived::Packet(Received { from, congestion: false, bytes: rest }));
            }
            FrameKind::Note => {
                if let Ok(note) = Note::decode(rest) {
                    self.take_note(&note, regions, sink);
                }
            }
            FrameKind::Headers | FrameKind::Part => {}
        }
    }

    fn take_note(&mut self, note: &Note, regions: &Regions, sink: &mut dyn FnMut(Arrived<'_>)) {
        let Some(trunk) = self.trunks.get_mut(&note.qp) else { return };
        let owner = trunk.owner;
        let Some(far) = trunk.far.as_mut().filter(|_| owner.token == note.token) else { return };
        match note.body {
            NoteBody::Tell { rkey, nic_rkey, addr, len } => far.learn(rkey, nic_rkey, addr, len),
            NoteBody::Ask { rkey } => {
                let body = tell(owner, rkey, regions, &mut self.keys);
                self.control.send(far.control(), Frame::note(), &far.note(body).encode());
            }
            NoteBody::Renewed { path, generation, lane } => {
                if self.reconnect(note.qp, path, generation, lane) {
                    sink(Arrived::Renewed(note.qp, path, generation));
                }
            }
        }
    }

    /// The peer has another NIC queue pair for a lane. Whether that is news.
    fn reconnect(&mut self, id: QpId, path: PathId, generation: u32, remote: u32) -> bool {
        let index = usize::from(path.get());
        if self.batch.lane() == Some((id, index)) {
            self.flush();
        }
        let Some(trunk) = self.trunks.get_mut(&id) else { return false };
        let Some(pool) = self.pools.get_mut(&trunk.owner.pd) else { return false };
        let (Some(far), Some(lane)) = (&trunk.far, trunk.lanes.get_mut(index)) else {
            return false;
        };
        if generation <= lane.remote_generation {
            return false;
        }
        let before = lane.outstanding();
        let done = lane.reconnect(&self.device, pool, &far.rtr(&self.device, index, remote));
        self.outstanding = self.outstanding + lane.outstanding() - before;
        if let Err(error) = done {
            tracing::warn!(qp = %id, path = index, %error, "a lane cannot be joined again");
            return false;
        }
        (lane.remote, lane.remote_generation, lane.is_shut) = (remote, generation, false);
        true
    }

    /// Waits until the NIC reads for no work request any more: memory is about to go.
    pub(crate) fn quiesce(&mut self) {
        self.flush();
        let until = Instant::now() + PATIENCE;
        while self.outstanding > 0 && !self.gone {
            self.reap();
            if Instant::now() > until {
                return self.renew_busy();
            }
            std::thread::yield_now();
        }
    }

    /// Closes the lanes that do not get rid of what they have.
    fn renew_busy(&mut self) {
        let busy = |trunk: &Trunk| {
            let id = trunk.owner.id;
            let lanes = trunk.lanes.iter().enumerate();
            let busy = lanes.filter(|(_, lane)| lane.outstanding() > 0);
            busy.map(move |(index, _)| (id, index)).collect::<Vec<_>>()
        };
        let busy: Vec<_> = self.trunks.values().flat_map(busy).collect();
        for (id, index) in busy {
            self.renew(id, index);
        }
    }
}

/// The answer to [`NoteBody::Ask`].
fn tell(owner: Owner, rkey: u32, regions: &Regions, keys: &mut KeyCache) -> NoteBody {
    let region = regions.get(rkey).filter(|region| {
        let allowed = region.access.allows(Access::REMOTE_WRITE);
        allowed && owner.access.allows(Access::REMOTE_WRITE) && region.pd == owner.pd
    });
    let nic = keys.load().get(&rkey).copied();
    match (region, nic) {
        (Some(region), Some(nic)) => {
            NoteBody::Tell { rkey, nic_rkey: nic.rkey, addr: region.addr, len: region.len }
        }
        _ => NoteBody::Tell { rkey, nic_rkey: 0, addr: 0, len: 0 },
    }
}
