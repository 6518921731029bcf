//! What comes in: messages, payloads in their places, notes, and word of what the NIC is done with.

use std::cmp::Ordering;
use std::time::Duration;

use braid_transport::{Access, Regions};
use braid_verbs::{Completion, WcOpcode, WcStatus};
use braid_wire::{FRAME_LEN, Frame, FrameKind, Note, NoteBody, PathId, QpId, Time};

use super::{Trunks, counting};
use crate::datapath::{Arrived, Owner, Received};
use crate::verbs::lane::Lane;
use crate::verbs::recv_cqs::LOOK;

/// Looks at each queue in one turn of the worker.
const LOOKS: usize = 8;
/// How long a lane stays as it is when the peer wants it renewed or has renewed its own end: making NIC queue pairs is dear. One that keeps
/// to the rules of `braid_transport::Placement` rests for 200 ms between two losses.
const SETTLE: Duration = Duration::from_millis(100);

/// What a fence has come to.
enum Shut {
    /// Nothing lands any more that was sent to its generation.
    Yes,
    /// It might: the device does not close it.
    NotYet,
    /// Nobody was told of such a generation.
    Never,
}

impl Trunks {
    /// Takes what has come, within a budget. Returns how many messages that were.
    pub(crate) fn poll(
        &mut self,
        now: Time,
        regions: &Regions,
        sink: &mut dyn FnMut(Arrived<'_>),
    ) -> usize {
        self.reap();
        let mut count = 0;
        for queue in 0..self.recv_cqs.count() {
            for _ in 0..LOOKS {
                let found = match self.recv_cqs.take(queue) {
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

    /// Frees what the NIC is done with.
    pub(super) fn reap(&mut self) {
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
        counting(&mut self.outstanding, lane, |lane| lane.on_sent(completion.id(), pool));
        if let Err(status) = completion.status() {
            tracing::debug!(qp = %id, path = index, %status, "a lane has failed");
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
        // A lane that has begun anew has no say of what it got before.
        let Some((id, index)) = self.lanes.get(&completion.qp_num()).copied() else { return };
        let Some(lane) = self.lane(id, index) else { return };
        let Some(buffer) = lane.received(completion.id()) else { return };
        if completion.status().is_ok() {
            match completion.opcode() {
                WcOpcode::Recv => self.take_message(now, completion, (id, index), sink),
                WcOpcode::RecvWriteWithImm => self.take_write(completion, (id, index), sink),
                _ => {}
            }
        } else if completion.status() == Err(WcStatus::Flushed) {
            // So would be whatever is posted, and looked at again, until the lane is renewed.
            return;
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
        now: Time,
        completion: &Completion,
        (id, index): (QpId, usize),
        sink: &mut dyn FnMut(Arrived<'_>),
    ) {
        let (buffer, len) = (completion.id() as u32, completion.byte_len() as usize);
        let frame = |lane: &mut Lane| {
            // SAFETY: `received` has named the buffer, and it is recycled after this.
            let bytes = unsafe { lane.message(buffer, len) }?;
            Frame::decode(bytes).ok().map(|(frame, _)| frame)
        };
        let Some(frame) = self.lane(id, index).and_then(frame) else { return };
        match frame.fence.map(|fence| self.shut(now, id, fence)) {
            None | Some(Shut::Yes) => {}
            Some(Shut::NotYet) => return,
            Some(Shut::Never) => return sink(Arrived::Refused),
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
            FrameKind::Packet => {
                // SAFETY: as above.
                let bytes = unsafe { lane.message(buffer, len) };
                bytes.and_then(|bytes| bytes.get(FRAME_LEN..))
            }
            FrameKind::Note => None,
        };
        if let (Some(bytes), Some(far)) = (bytes, &trunk.far) {
            let (from, path) = (Some(far.from(frame.path)), frame.path);
            sink(Arrived::Packet(Received { from, path, congestion: false, bytes }));
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
            sink(Arrived::Placed(PathId::new(index as u16), &header));
        }
    }

    /// Makes sure that nothing lands any more that was sent to this generation of a path. The peer is told of the next one, in
    /// which only those are: a lane that is fenced again too soon stays closed for a while.
    fn shut(&mut self, now: Time, id: QpId, (path, generation): (PathId, u32)) -> Shut {
        let index = usize::from(path.get());
        let Some(trunk) = self.trunks.get(&id) else { return Shut::Never };
        let is_path = index < trunk.safe();
        let Some(lane) = trunk.lanes.get(index).filter(|_| is_path) else {
            return Shut::Never;
        };
        match generation.cmp(&lane.generation) {
            Ordering::Greater => return Shut::Never,
            Ordering::Less => self.tell_renewed(id, index),
            Ordering::Equal => {
                let is_settled = has_settled(now, lane.renewed);
                if self.batch.lane() == Some((id, index)) {
                    self.flush();
                }
                if !self.close_lane(id, index) {
                    return Shut::NotYet;
                }
                if is_settled {
                    self.lane(id, index).map(|lane| lane.renewed.replace(now));
                    self.reopen_lane(id, index);
                }
            }
        }
        Shut::Yes
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
                // Whose it is its own token tells.
                let (from, path) = (None, frame.path);
                sink(Arrived::Packet(Received { from, path, congestion: false, bytes: rest }));
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
        let Some(trunk) = self.trunks.get_mut(&note.qp) else { return };
        let owner = trunk.owner;
        let Some(far) = trunk.far.as_mut().filter(|_| owner.token == note.token) else { return };
        match note.body {
            NoteBody::Tell { rkey, nic_rkey, addr, len } => {
                far.regions.learn(rkey, nic_rkey, addr, len);
            }
            NoteBody::Ask { rkey } => {
                let body = tell(owner, rkey, regions);
                self.control.answer(far.control(), Frame::note(), &far.note(body).encode());
            }
            NoteBody::Renewed { path, generation, lane } => {
                if self.reconnect(now, note.qp, (path, generation), lane) {
                    sink(Arrived::Renewed(note.qp, path, generation));
                }
            }
        }
    }

    /// The peer has another NIC queue pair for a lane. Whether that is news.
    fn reconnect(
        &mut self,
        now: Time,
        id: QpId,
        (path, generation): (PathId, u32),
        remote: u32,
    ) -> bool {
        let index = usize::from(path.get());
        if self.batch.lane() == Some((id, index)) {
            self.flush();
        }
        let Some(trunk) = self.trunks.get_mut(&id) else { return false };
        let Some(pool) = self.pools.get_mut(&trunk.owner.pd) else { return false };
        let (Some(far), Some(lane)) = (&trunk.far, trunk.lanes.get_mut(index)) else {
            return false;
        };
        if generation <= lane.remote_generation || !has_settled(now, lane.rejoined) {
            return false;
        }
        lane.rejoined = Some(now);
        let reset = counting(&mut self.outstanding, lane, |lane| lane.reset(pool));
        if let Some(number) = lane.number() {
            self.recv_cqs.clear(lane.room, number);
        }
        let rtr = far.rtr(&self.device, index, remote);
        if let Err(error) = reset.and_then(|()| lane.rejoin(&self.device, &rtr)) {
            tracing::warn!(qp = %id, path = index, %error, "a lane cannot be joined again");
            return false;
        }
        (lane.remote, lane.remote_generation, lane.is_shut) = (remote, generation, false);
        true
    }
}

/// Whether a lane may change again that has changed `last`.
fn has_settled(now: Time, last: Option<Time>) -> bool {
    last.is_none_or(|last| now >= last + SETTLE)
}

/// The answer to [`NoteBody::Ask`].
fn tell(owner: Owner, rkey: u32, regions: &Regions) -> NoteBody {
    let region = regions.get(rkey).filter(|region| {
        let allowed = region.access.allows(Access::REMOTE_WRITE);
        allowed && owner.access.allows(Access::REMOTE_WRITE) && region.pd == owner.pd
    });
    match region.and_then(|region| region.nic.map(|nic| (region, nic))) {
        Some((region, nic)) => {
            NoteBody::Tell { rkey, nic_rkey: nic.rkey, addr: region.addr, len: region.len }
        }
        None => NoteBody::Tell { rkey, nic_rkey: 0, addr: 0, len: 0 },
    }
}
