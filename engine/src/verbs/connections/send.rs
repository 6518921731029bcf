//! Leaving segments, acknowledgements and control packets.

use braid_transport::{NicEpoch, Placement};
use braid_wire::{FRAME_LEN, Frame, MAX_DATA_HEADER_LEN, NoteBody, PathId, QpId, RailId, Time};

use super::Connections;
use crate::datapath::{Readable, SegmentRun, Sent};
use crate::parts::MAX_PARTS;
use crate::verbs::batch::Entries;
use crate::verbs::connection::Connection;
use crate::verbs::nic_qp::MAX_PIECES;

/// Shorter payloads are staged, because one message costs less than two.
const DIRECT_FROM: u16 = 1024;

/// A segment's pieces of memory as the NIC addresses them. `None`: a piece is not registered with
/// the NIC.
fn entries(payload: &Readable<'_>, rail: RailId) -> Option<Entries> {
    let entry = |piece: braid_transport::Sge| {
        let lkey = payload.regions().get(piece.lkey)?.nic(rail)?.lkey;
        Some(braid_verbs::Sge { addr: piece.addr, len: piece.len, lkey })
    };
    payload.pieces().map(entry).collect()
}

impl Connections {
    /// Whether a connection takes another segment.
    pub(crate) fn has_room(&self, id: QpId) -> bool {
        let connection = self.connections.get(&id);
        connection.is_none_or(|connection| connection.has_room(self.batch.len()))
    }

    /// The next connection that takes segments again, of those that [`Connections::ship`] reported
    /// as full.
    pub(super) fn next_with_room(&mut self) -> Option<QpId> {
        let found = self.full.iter().position(|id| self.has_room(*id))?;
        Some(self.full.swap_remove(found))
    }

    /// Sends an acknowledgement or a control packet about a path.
    pub(crate) fn send_packet(&mut self, id: QpId, path: PathId, packet: &[u8]) {
        if let Some(far) = self.connections.get(&id).and_then(|connection| connection.far.as_ref())
        {
            self.control.send(far.control(), Frame::packet(path, None), packet);
        }
    }

    /// Sends a segment of a connection that has room.
    pub(crate) fn ship(&mut self, now: Time, segment: &SegmentRun<'_>) -> Sent {
        debug_assert_eq!(segment.followers.count, 0, "segments are handed out one by one");
        let is_direct = match segment.placement {
            Placement::Direct(epoch) => self.write(now, segment, epoch),
            Placement::Staged { .. } => false,
        };
        if !is_direct {
            self.stage(now, segment);
        }
        let is_full = !self.has_room(segment.id);
        if is_full && !self.full.contains(&segment.id) {
            self.full.push(segment.id);
        }
        Sent { is_direct, is_full }
    }

    /// Sends a segment whose payload the NIC places. Returns `false` if that is not possible, or
    /// not yet.
    fn write(&mut self, now: Time, segment: &SegmentRun<'_>, epoch: NicEpoch) -> bool {
        let SegmentRun { id, header, path, payload, .. } = segment;
        let (id, at) = (*id, (*id, usize::from(path.get())));
        if header.len < DIRECT_FROM || payload.pieces().count() > MAX_PIECES {
            return false;
        }
        let Some(entries) = entries(payload, self.rail) else { return false };
        let addr = header.address.wrapping_add(header.offset.into());
        let Some(nic_rkey) = self.nic_rkey(now, id, header.rkey, addr, header.len) else {
            return false;
        };
        if !self.batch.takes(at) {
            self.flush();
        }
        let Some(connection) = self.connections.get_mut(&id) else { return false };
        if !connection.path_has_room(at.1, self.batch.len()) {
            return false;
        }
        let Connection { nic_qps, pool, .. } = connection;
        let nic_qp = &mut nic_qps[at.1];
        if nic_qp.remote_epoch != epoch.number {
            return false;
        }
        let mut bytes = Vec::with_capacity(MAX_DATA_HEADER_LEN);
        header.encode(&mut bytes);
        self.batch.write(at, (nic_qp, pool), &bytes, (addr, nic_rkey), entries)
    }

    fn nic_rkey(&mut self, now: Time, id: QpId, rkey: u32, addr: u64, len: u16) -> Option<u32> {
        let far = self.connections.get_mut(&id)?.far.as_mut()?;
        let known = far.regions.nic_rkey(rkey, addr, len.into());
        if known.is_none() && far.regions.must_ask(now, rkey) {
            let note = far.note(NoteBody::Ask { rkey }).encode();
            self.control.send(far.control(), Frame::note(), &note);
        }
        known
    }

    /// Sends header and payload as one message.
    fn stage(&mut self, now: Time, segment: &SegmentRun<'_>) {
        let SegmentRun { id, header, payload, path, .. } = segment;
        let (id, path) = (*id, *path);
        let closes = match segment.placement {
            Placement::Staged { closes } => closes.map(|epoch| (epoch.path, epoch.number)),
            Placement::Direct(_) => None,
        };
        let Some(connection) = self.connections.get_mut(&id) else { return };
        // The other rail closes its own epoch as soon as it stages on the path, because the core
        // makes this rail close it too.
        if let Some((path, epoch)) = closes.filter(|(path, _)| path.rail() == self.rail) {
            let nic_qp = connection.nic_qps.get_mut(usize::from(path.get()));
            if let Some(nic_qp) = nic_qp.filter(|nic_qp| nic_qp.remote_epoch == epoch) {
                nic_qp.is_shut = true;
            }
        }
        let nic_qp = match header.retransmission {
            // A NIC queue pair may be unusable until it is closed, which this packet asks for.
            true => connection.safe(),
            false => connection.nic_qp_for(path, self.batch.len()),
        };
        let at = (id, nic_qp);
        let len = FRAME_LEN + header.encoded_len() + usize::from(header.len);
        let is_long = len > self.device.mtu as usize;
        if is_long && closes.is_none() {
            connection.losses.count(now, header.retransmission);
        }
        let is_risky = header.retransmission || connection.losses.are_frequent(now);
        if is_long && (is_risky || len > self.sizes.message_len) {
            return self.stage_in_parts(at, segment, closes);
        }
        if !self.batch.takes(at) {
            self.flush();
        }
        let entries = entries(payload, self.rail).filter(|entries| entries.len() <= MAX_PIECES);
        let Some(Connection { pool, .. }) = self.connections.get_mut(&id) else { return };
        let mut staged = Vec::with_capacity(FRAME_LEN + MAX_DATA_HEADER_LEN);
        staged.extend_from_slice(&Frame::packet(path, closes).encode());
        header.encode(&mut staged);
        if entries.is_none() {
            payload.copy_to(&mut staged);
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
        segment: &SegmentRun<'_>,
        closes: Option<(PathId, u32)>,
    ) {
        let part_len = Frame::part_len(self.device.mtu as usize);
        let mut staged = Vec::with_capacity(self.sizes.slot_len);
        segment.header.encode(&mut staged);
        segment.payload.copy_to(&mut staged);
        let count = staged.len().div_ceil(part_len);
        if count > MAX_PARTS || staged.len() + count * FRAME_LEN > self.sizes.slot_len {
            debug_assert!(false, "send buffers have room for all parts");
            return;
        }
        if !self.batch.takes(at) {
            self.flush();
        }
        let Some(Connection { nic_qps, pool, .. }) = self.connections.get_mut(&at.0) else {
            return;
        };
        let (Some(nic_qp), Some(slot)) = (nic_qps.get_mut(at.1), pool.take()) else { return };
        nic_qp.parts_serial = (nic_qp.parts_serial + 1) & 0xFF_FFFF;
        pool.write(slot, 0, &staged);
        for index in 0..count {
            let frame = Frame::packet(segment.path, closes);
            let frame = frame.part(nic_qp.parts_serial, index as u8, count as u8);
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

    /// Posts the waiting work requests.
    pub(crate) fn flush(&mut self) {
        let Some((id, index)) = self.batch.nic_qp() else { return };
        let Some(Connection { nic_qps, pool, .. }) = self.connections.get_mut(&id) else { return };
        let Some(nic_qp) = nic_qps.get_mut(index) else {
            return self.batch.forget(pool);
        };
        if !self.batch.post(nic_qp, pool) && !self.gone {
            self.renew(id, index);
        }
    }
}
