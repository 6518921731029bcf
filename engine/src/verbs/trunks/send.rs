//! Segments, acknowledgements and control packets that leave.

use braid_transport::{Fence, Placement, Regions, SgList};
use braid_wire::{DataHeader, FRAME_LEN, Frame, MAX_DATA_HEADER_LEN, NoteBody, PathId, QpId, Time};

use super::{Trunks, counting};
use crate::memory::append;
use crate::parts::MAX_PARTS;
use crate::verbs::batch::Entries;
use crate::verbs::lane::{LANE_SENDS, MAX_PIECES};

/// Work requests that the NIC may have at a time: fewer than a lane holds, and enough to keep it busy.
const BUSY: usize = LANE_SENDS - MAX_PARTS - 32;
/// Payloads shorter than this are staged: one message costs less than two.
const BLIND_FROM: u16 = 1024;

/// A segment to send.
pub(crate) struct Shipment<'a> {
    pub(crate) header: &'a DataHeader,
    pub(crate) gather: &'a SgList,
    pub(crate) path: PathId,
    pub(crate) placement: Placement,
    /// The snapshot that the memory has been checked against.
    pub(crate) regions: &'a Regions,
}

impl Shipment<'_> {
    /// The NIC's view of its pieces of memory; `None`: some of it is not registered with the NIC.
    fn entries(&self) -> Option<Entries> {
        let entry = |piece: &braid_transport::Sge| {
            let lkey = self.regions.get(piece.lkey)?.nic?.lkey;
            Some(braid_verbs::Sge { addr: piece.addr, len: piece.len, lkey })
        };
        self.gather.iter().map(entry).collect()
    }
}

impl Trunks {
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
        if header.len < BLIND_FROM || shipment.gather.len() > MAX_PIECES {
            return false;
        }
        let Some(entries) = shipment.entries() else { return false };
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
        let known = far.regions.nic_rkey(rkey, addr, len.into());
        if known.is_none() && far.regions.must_ask(now, rkey) {
            let note = far.note(NoteBody::Ask { rkey }).encode();
            self.control.send(far.control(), Frame::note(), &note);
        }
        known
    }

    /// Sends header and payload as one message.
    fn stage(&mut self, now: Time, id: QpId, shipment: &Shipment<'_>) {
        let Shipment { header, gather, path, placement, .. } = *shipment;
        let fence = match placement {
            Placement::Staged { fence } => fence.map(|fence| (fence.path, fence.generation)),
            Placement::Blind(_) => None,
        };
        let Some(trunk) = self.trunks.get_mut(&id) else { return };
        if let Some((path, generation)) = fence {
            let lane = trunk.lanes.get_mut(usize::from(path.get()));
            if let Some(lane) = lane.filter(|lane| lane.remote_generation == generation) {
                lane.is_shut = true;
            }
        }
        let lane = match header.retransmission {
            // A lane may take nothing any more until its fence has arrived, which is on its way with this.
            true => trunk.safe(),
            false => trunk.lane_for(path),
        };
        let at = (id, lane);
        let pd = trunk.owner.pd;
        let len = FRAME_LEN + header.encoded_len() + usize::from(header.len);
        let is_long = len > self.device.mtu as usize;
        if is_long && fence.is_none() {
            trunk.losses.count(now, header.retransmission);
        }
        let is_risky = header.retransmission || trunk.losses.are_frequent(now);
        if is_long && (is_risky || len > self.message_len) {
            return self.stage_in_parts(at, shipment, fence);
        }
        if !self.batch.takes(at) {
            self.flush();
        }
        let entries = shipment.entries().filter(|entries| entries.len() <= MAX_PIECES);
        let Some(pool) = self.pools.get_mut(&pd) else { return };
        let mut staged = Vec::with_capacity(FRAME_LEN + MAX_DATA_HEADER_LEN);
        staged.extend_from_slice(&Frame::packet(path, fence).encode());
        header.encode(&mut staged);
        if entries.is_none() {
            copy(&mut staged, gather);
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
        let mut staged = Vec::with_capacity(self.slot_len);
        shipment.header.encode(&mut staged);
        copy(&mut staged, shipment.gather);
        let count = staged.len().div_ceil(part_len);
        if count > MAX_PARTS || staged.len() + count * FRAME_LEN > self.slot_len {
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
        let is_posted = counting(&mut self.outstanding, lane, |lane| self.batch.post(lane, pool));
        if !is_posted && !self.gone {
            self.renew(id, index);
        }
    }
}

/// Appends the bytes of a segment's pieces.
fn copy(out: &mut Vec<u8>, gather: &SgList) {
    for piece in gather {
        // SAFETY: who ships a segment has checked its pieces for reading, against a snapshot that it holds.
        unsafe { append(out, *piece) };
    }
}
