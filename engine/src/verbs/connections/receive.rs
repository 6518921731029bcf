//! Arrivals: messages, placed payloads, notes and send completions.

use std::cmp::Ordering;
use std::net::SocketAddr;
use std::time::Duration;

use braid_transport::{Access, LocalAddr, NicEpoch, Regions};
use braid_verbs::{Completion, WcOpcode, WcStatus};
use braid_wire::{FRAME_LEN, Frame, FrameKind, Note, NoteBody, PathId, QpId, RailId, Time};

use super::Connections;
use crate::datapath::{Arrived, Closing, Owner, Received, Via};
use crate::verbs::completion_queues::LOOK;
use crate::verbs::connection::Connection;
use crate::verbs::nic_qp::NicQp;

/// The largest number of polls of each queue in one turn of the worker.
const LOOKS: usize = 8;
/// Time after a renewal, by either end, during which a NIC queue pair is not renewed again for the
/// peer, because creating NIC queue pairs is expensive. A peer that follows the rules of
/// `braid_transport::Placement` leaves 200 ms between two losses.
const SETTLE: Duration = Duration::from_millis(100);

impl Connections {
    /// Takes arrivals within a budget. Returns the number of messages.
    pub(crate) fn poll(
        &mut self,
        now: Time,
        regions: &Regions,
        sink: &mut dyn FnMut(Arrived<'_>),
    ) -> usize {
        self.reap();
        while let Some(id) = self.next_with_room() {
            sink(Arrived::Room(id));
        }
        let mut count = 0;
        for queue in 0..self.queues.receives.count() {
            for _ in 0..LOOKS {
                let found = match self.queues.receives.take(queue) {
                    Ok(found) => found,
                    Err(error) => {
                        tracing::warn!(%error, "an RDMA device does not answer");
                        self.gone = true;
                        return count;
                    }
                };
                found.iter().for_each(|completion| self.take(now, completion, regions, sink));
                count += found.len();
                if found.len() < LOOK {
                    break;
                }
            }
        }
        count
    }

    /// Releases the buffers of completed sends.
    pub(super) fn reap(&mut self) {
        for queue in 0..self.queues.sends.count() {
            while let Ok(found) = self.queues.sends.take(queue) {
                found.iter().for_each(|completion| self.sent(completion));
                if found.len() < LOOK {
                    break;
                }
            }
        }
    }

    fn sent(&mut self, completion: &Completion) {
        if completion.qp_num() == self.control.number() {
            return self.control.on_sent(completion.id());
        }
        let Some((id, index)) = self.nic_qps.get(&completion.qp_num()).copied() else { return };
        let Some(Connection { nic_qps, pool, .. }) = self.connections.get_mut(&id) else { return };
        let Some(nic_qp) = nic_qps.get_mut(index) else { return };
        nic_qp.on_sent(completion.id(), pool);
        if let Err(status) = completion.status() {
            tracing::debug!(qp = %id, path = index, %status, "a NIC queue pair has failed");
            self.renew(id, index);
        }
    }

    fn take(
        &mut self,
        now: Time,
        completion: &Completion,
        regions: &Regions,
        sink: &mut dyn FnMut(Arrived<'_>),
    ) {
        let buffer = completion.id() as u32;
        if completion.qp_num() == self.control.number() {
            if completion.status().is_ok() {
                self.take_datagram(now, (buffer, completion.byte_len() as usize), regions, sink);
            }
            return self.control.recycle(buffer);
        }
        // Completions from before a renewal are ignored.
        let Some((id, index)) = self.nic_qps.get(&completion.qp_num()).copied() else { return };
        let Some(nic_qp) = self.nic_qp(id, index) else { return };
        let Some(buffer) = nic_qp.received(completion.id()) else { return };
        if completion.status().is_ok() {
            match completion.opcode() {
                WcOpcode::Recv => self.take_message(now, completion, (id, index), sink),
                WcOpcode::RecvWriteWithImm => self.take_write(completion, (id, index), sink),
                _ => {}
            }
        } else if completion.status() == Err(WcStatus::Flushed) {
            // Every other work request would fail too, and be handled again, until the NIC queue
            // pair is renewed.
            return;
        }
        // The message may have caused this NIC queue pair to be closed.
        let nic_qp = self.nic_qp(id, index);
        if let Some(nic_qp) = nic_qp.filter(|nic_qp| nic_qp.received(completion.id()).is_some()) {
            nic_qp.recycle(buffer);
        }
    }

    fn nic_qp(&mut self, id: QpId, index: usize) -> Option<&mut NicQp> {
        self.connections.get_mut(&id)?.nic_qps.get_mut(index)
    }

    /// Takes a message of a NIC queue pair.
    fn take_message(
        &mut self,
        now: Time,
        completion: &Completion,
        (id, index): (QpId, usize),
        sink: &mut dyn FnMut(Arrived<'_>),
    ) {
        let (buffer, len) = (completion.id() as u32, completion.byte_len() as usize);
        let frame = |nic_qp: &mut NicQp| {
            // SAFETY: `received` has named the buffer, and it is recycled after this.
            let bytes = unsafe { nic_qp.message(buffer, len) }?;
            Frame::decode(bytes).ok().map(|(frame, _)| frame)
        };
        let Some(frame) = self.nic_qp(id, index).and_then(frame) else { return };
        let closes = frame.closes.map(|(path, number)| NicEpoch { path, number });
        let (ours, elsewhere) = match closes {
            Some(epoch) if epoch.path.rail() != self.rail => (None, Some((id, epoch))),
            ours => (ours, None),
        };
        match ours.map(|epoch| self.close_epoch(now, id, epoch)) {
            None | Some(Closing::Done) => {}
            Some(Closing::NotYet) => return,
            Some(Closing::Refused) => return sink(Arrived::Refused),
        }
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let Some(nic_qp) = connection.nic_qps.get_mut(index) else { return };
        // A peer that has its own NIC queue pair closed by a message on it gains nothing.
        if nic_qp.received(completion.id()).is_none() {
            return;
        }
        let bytes = match frame.kind {
            FrameKind::Headers => return nic_qp.take_heads(buffer, frame.serial, len),
            FrameKind::Part => nic_qp.take_part(buffer, &frame, len, self.device.mtu as usize),
            FrameKind::Packet => {
                // SAFETY: as above.
                let bytes = unsafe { nic_qp.message(buffer, len) };
                bytes.and_then(|bytes| bytes.get(FRAME_LEN..))
            }
            FrameKind::Note => None,
        };
        if let (Some(bytes), Some(far)) = (bytes, &connection.far) {
            sink(packet(Some(far.from(frame.path)), frame.path, elsewhere, bytes));
        }
    }

    /// Takes a payload that the NIC has placed, if an earlier header announced it.
    fn take_write(
        &mut self,
        completion: &Completion,
        (id, index): (QpId, usize),
        sink: &mut dyn FnMut(Arrived<'_>),
    ) {
        let Some(nic_qp) =
            self.connections.get(&id).and_then(|connection| connection.nic_qps.get(index))
        else {
            return;
        };
        let head = completion.imm().and_then(|imm| nic_qp.head_of(imm));
        let head = head.filter(|head| u32::from(head.len) == completion.byte_len());
        if let Some(header) = head {
            sink(Arrived::Placed(PathId::new(index as u16), &header));
        }
    }

    /// Closes an epoch of a path, so that nothing sent to it is placed any more. The peer learns
    /// the next epoch, in which only later packets count. A NIC queue pair that is closed again too
    /// soon stays closed for a while.
    pub(crate) fn close_epoch(&mut self, now: Time, id: QpId, epoch: NicEpoch) -> Closing {
        let index = usize::from(epoch.path.get());
        let Some(connection) = self.connections.get(&id) else { return Closing::Refused };
        if connection.nic_qps.is_empty() {
            // The device is gone, or nothing is received any more.
            return Closing::Done;
        }
        let is_path = index < connection.safe();
        let Some(nic_qp) = connection.nic_qps.get(index).filter(|_| is_path) else {
            return Closing::Refused;
        };
        match epoch.number.cmp(&nic_qp.epoch) {
            Ordering::Greater => return Closing::Refused,
            Ordering::Less => self.announce_renewal(id, index),
            Ordering::Equal => {
                let is_settled = has_settled(now, nic_qp.renewed);
                if self.batch.nic_qp() == Some((id, index)) {
                    self.flush();
                }
                if !self.close_nic_qp(id, index) {
                    return Closing::NotYet;
                }
                if is_settled {
                    self.nic_qp(id, index).map(|nic_qp| nic_qp.renewed.replace(now));
                    self.reopen_nic_qp(id, index);
                }
            }
        }
        Closing::Done
    }

    fn take_datagram(
        &mut self,
        now: Time,
        (buffer, len): (u32, usize),
        regions: &Regions,
        sink: &mut dyn FnMut(Arrived<'_>),
    ) {
        let Some(bytes) = self.control.received(buffer, len) else { return };
        let Ok((frame, rest)) = Frame::decode(bytes) else { return };
        match frame.kind {
            FrameKind::Packet => {
                // The packet's own token tells its connection.
                sink(packet(None, frame.path, None, rest));
            }
            FrameKind::Note => {
                if let Ok(note) = Note::decode(rest) {
                    self.take_note(now, &note, regions, sink);
                }
            }
            FrameKind::Headers | FrameKind::Part => {}
        }
    }

    fn take_note(
        &mut self,
        now: Time,
        note: &Note,
        regions: &Regions,
        sink: &mut dyn FnMut(Arrived<'_>),
    ) {
        let Some(connection) = self.connections.get_mut(&note.qp) else { return };
        let owner = connection.owner;
        let Some(far) = connection.far.as_mut().filter(|_| owner.token == note.token) else {
            return;
        };
        match note.body {
            NoteBody::Tell { rkey, nic_rkey, addr, len } => {
                far.regions.learn(rkey, nic_rkey, addr, len);
            }
            NoteBody::Ask { rkey } => {
                let body = region_answer(owner, rkey, regions, self.rail);
                self.control.answer(far.control(), Frame::note(), &far.note(body).encode());
            }
            NoteBody::NewEpoch { path, epoch, nic_qp } => {
                if self.reconnect(now, note.qp, (path, epoch), nic_qp) {
                    sink(Arrived::Epoch(note.qp, NicEpoch { path, number: epoch }));
                }
            }
        }
    }

    /// Joins a path with the peer's new NIC queue pair. Returns whether it was new.
    fn reconnect(
        &mut self,
        now: Time,
        id: QpId,
        (path, epoch): (PathId, u32),
        remote: u32,
    ) -> bool {
        let index = usize::from(path.get());
        if self.batch.nic_qp() == Some((id, index)) {
            self.flush();
        }
        let Some(Connection { nic_qps, pool, far, .. }) = self.connections.get_mut(&id) else {
            return false;
        };
        let (Some(far), Some(nic_qp)) = (far, nic_qps.get_mut(index)) else { return false };
        if epoch <= nic_qp.remote_epoch || !has_settled(now, nic_qp.rejoined) {
            return false;
        }
        nic_qp.rejoined = Some(now);
        let reset = nic_qp.reset(pool);
        if let Some(number) = nic_qp.number() {
            self.queues.clear(nic_qp.room, number);
        }
        let rtr = far.rtr(&self.device, index, remote);
        if let Err(error) = reset.and_then(|()| nic_qp.rejoin(&self.device, &rtr)) {
            tracing::warn!(
                qp = %id,
                path = index,
                %error,
                "a NIC queue pair cannot be joined again"
            );
            return false;
        }
        (nic_qp.remote, nic_qp.remote_epoch, nic_qp.is_shut) = (remote, epoch, false);
        true
    }
}

/// Whether a NIC queue pair that changed at `last` may change again.
fn has_settled(now: Time, last: Option<Time>) -> bool {
    last.is_none_or(|last| now >= last + SETTLE)
}

/// The answer to [`NoteBody::Ask`].
fn region_answer(owner: Owner, rkey: u32, regions: &Regions, rail: RailId) -> NoteBody {
    let region = regions.get(rkey).filter(|region| {
        let allowed = region.access.allows(Access::REMOTE_WRITE);
        allowed && owner.access.allows(Access::REMOTE_WRITE) && region.pd == owner.pd
    });
    match region.and_then(|region| region.nic(rail).map(|nic| (region, nic))) {
        Some((region, nic)) => {
            NoteBody::Tell { rkey, nic_rkey: nic.rkey, addr: region.addr, len: region.len }
        }
        None => NoteBody::Tell { rkey, nic_rkey: 0, addr: 0, len: 0 },
    }
}

/// A packet that has come by a path. `closes`: the epoch of another rail that it asks to close.
fn packet(
    from: Option<SocketAddr>,
    path: PathId,
    closes: Option<(QpId, NicEpoch)>,
    bytes: &[u8],
) -> Arrived<'_> {
    let (called, via, segment_len) = (LocalAddr::default(), Via::Path(path), bytes.len());
    let congestion = false;
    Arrived::Packets(Received { from, called, via, congestion, closes, segment_len, bytes })
}

#[cfg(test)]
mod tests {
    use braid_transport::{NicKeys, PdId, Region};
    use braid_wire::Token;

    use super::*;

    #[test]
    fn each_rail_tells_the_key_of_its_own_nic() {
        let (pd, access) = (PdId(1), Access::ALL);
        let nics = [3, 4].map(|rkey| NicKeys { lkey: 0, rkey });
        let region =
            Region { pd, addr: 4096, iova: 4096, len: 64, access, nics: Some(nics.into()) };
        let mut regions = Regions::new([0; 16]);
        let rkey = regions.insert(region).expect("there is room");
        let owner = Owner { id: QpId::new(5), token: Token(7), pd, access };
        let told = |rail, owner| match region_answer(owner, rkey, &regions, RailId::new(rail)) {
            NoteBody::Tell { nic_rkey, len, .. } => (nic_rkey, len),
            other => panic!("{other:?}"),
        };
        assert_eq!((told(0, owner), told(1, owner)), ((3, 64), (4, 64)));
        assert_eq!(told(2, owner), (0, 0), "no such NIC");
        assert_eq!(told(1, Owner { pd: PdId(2), ..owner }), (0, 0), "another domain");
    }
}
