//! Packets that leave: what the core wants to send, gathered into trains.

use std::net::SocketAddr;

use braid_transport::{
    Access, Endpoint, PdId, Placement, QpSlot, Regions, SgList, Transmit, TransmitBody,
};
use braid_wire::{
    Crc, DataHeader, MAX_ACK_LEN, PART_HEADER_LEN, PART_LEN, Part, PathId, QpId, Time,
};

use super::Worker;
use super::outbox::Outbox;
use super::qps::QpEntry;
use super::train::{MAX_PIECES, PendingTrain, Shipping};
use crate::link::Via;
use crate::memory::{append, append_checked};
use crate::verbs::{Shipment, Trunks};

/// Trains sent before the worker looks at what has arrived: about 1 MiB, or 100 us.
const TRAINS: usize = 16;
/// DISCONNECTs sent in one turn.
const DISCONNECTS: usize = 64;
/// Payloads up to this are copied: cheaper than another slice.
const STAGED: usize = 256;

/// A data packet of one endpoint.
struct Segment<'a> {
    slot: QpSlot,
    header: DataHeader,
    gather: &'a SgList,
    pd: PdId,
    access: Access,
    path: PathId,
    crc: Crc,
    placement: Placement,
}

impl Worker {
    /// Sends what there is to send, within a budget. Returns whether there was anything, or still is.
    pub(super) fn transmit(&mut self, now: Time) -> bool {
        if !self.outbox.flush(&mut *self.link) {
            return true;
        }
        let mut now = now;
        let (mut worked, mut trains) = (false, 0);
        let count = self.peers.bound();
        // Another peer is first each time, so that none starves when the budget is short.
        self.turn = self.turn.wrapping_add(1);
        for step in 0..count {
            let index = (self.turn + step) % count;
            while trains < TRAINS && self.nic_has_room() && self.transmit_one(now, index) {
                worked = true;
                if self.outbox.has_waiting() {
                    trains += 1;
                    if !self.outbox.flush(&mut *self.link) {
                        return true;
                    }
                    now = self.clock.now();
                }
            }
        }
        worked |= self.transmit_disconnects(now);
        self.outbox.seal();
        self.trunks.iter_mut().for_each(Trunks::flush);
        worked | !self.outbox.flush(&mut *self.link)
    }

    /// Over verbs the RNIC's queue pairs of one that has ended may be gone: then the socket tells the peer.
    fn transmit_disconnects(&mut self, now: Time) -> bool {
        let has_paths = self.trunks.is_none();
        for count in 0..DISCONNECTS {
            let Some(due) = self.disconnects.poll_transmit(now) else { return count > 0 };
            self.scratch.clear();
            due.control.encode(&mut self.scratch);
            let via = due.path.filter(|_| has_paths).map_or(Via::Port, Via::Path);
            self.outbox.note(due.to, via, &self.scratch);
        }
        true
    }

    fn nic_has_room(&self) -> bool {
        self.trunks.as_ref().is_none_or(Trunks::has_room)
    }

    /// Packs the next packet of one peer.
    fn transmit_one(&mut self, now: Time, index: usize) -> bool {
        let Some((endpoint, paths, to)) = self.peers.parts(index) else { return false };
        let Some(Transmit { slot, body }) = endpoint.poll_transmit(now, paths) else {
            return false;
        };
        let outbox = &mut self.outbox;
        match body {
            TransmitBody::Segment {
                header,
                gather,
                pd,
                access,
                path,
                crc,
                oversize,
                placement,
                train_start: _,
            } => {
                let gather = &gather;
                let segment = Segment { slot, header, gather, pd, access, path, crc, placement };
                if !segment.is_readable(self.regions.load()) {
                    endpoint.unreadable(now, slot, &header);
                } else if let Some(trunks) = &mut self.trunks {
                    ship(now, trunks, endpoint, &segment, self.regions.load());
                } else {
                    let (id, via) = (endpoint.qp(slot).id(), via(endpoint, Some(path)));
                    match self.qps.get(id).filter(|_| oversize) {
                        Some(entry) => pack_in_parts(outbox, to, via, &segment, entry),
                        None => pack(outbox, to, via, segment),
                    }
                }
            }
            TransmitBody::Ack(ack) => {
                self.scratch.clear();
                self.scratch.reserve(MAX_ACK_LEN);
                ack.encode(&mut self.scratch);
                let (id, via) = (endpoint.qp(slot).id(), via(endpoint, Some(ack.path)));
                self.send_note(id, to, via);
            }
            TransmitBody::Control(control, path) => {
                self.scratch.clear();
                control.encode(&mut self.scratch);
                let (id, via) = (endpoint.qp(slot).id(), via(endpoint, path));
                self.send_note(id, to, via);
            }
            TransmitBody::Probe(probe, path) => {
                // What the host knows of the path changes with every ICMP message.
                if let Ok(datagram) = self.link.max_datagram(to) {
                    endpoint.route_takes(datagram.try_into().unwrap_or(u16::MAX));
                }
                self.scratch.clear();
                probe.encode(&mut self.scratch);
                outbox.alone(to, path.map_or(Via::Port, Via::Path), &self.scratch);
            }
        }
        true
    }

    /// Sends what is in `scratch`.
    fn send_note(&mut self, id: QpId, to: SocketAddr, via: Via) {
        match (&mut self.trunks, via) {
            (Some(trunks), Via::Path(path)) => trunks.note(id, path, &self.scratch),
            (_, via) => self.outbox.note(to, via, &self.scratch),
        }
    }
}

/// By which port a packet leaves that is to take a path; `None`: the receiving port.
fn via(endpoint: &Endpoint, path: Option<PathId>) -> Via {
    path.filter(|_| !endpoint.paths_are_blocked()).map_or(Via::Port, Via::Path)
}

impl Segment<'_> {
    /// Its memory is checked once more: regions may have gone since the work request was posted.
    fn is_readable(&self, regions: &Regions) -> bool {
        let Segment { pd, access, .. } = *self;
        let mut pieces = self.gather.iter();
        pieces.all(|piece| {
            regions.check(pd, piece.lkey, piece.addr, piece.len.into(), access).is_ok()
        })
    }
}

/// Hands a data packet to the RNIC; its memory has been checked.
fn ship(
    now: Time,
    trunks: &mut Trunks,
    endpoint: &mut Endpoint,
    segment: &Segment<'_>,
    regions: &Regions,
) {
    let Segment { slot, header, gather, path, placement, .. } = segment;
    let shipment = Shipment { header, gather, path: *path, placement: *placement, regions };
    let is_staged = trunks.ship(now, endpoint.qp(*slot).id(), &shipment);
    if is_staged && matches!(placement, Placement::Blind(_)) {
        endpoint.staged(*slot, header);
    }
}

/// Adds a data packet to a train; its memory has been checked.
fn pack(outbox: &mut Outbox, to: SocketAddr, via: Via, segment: Segment<'_>) {
    let Segment { header, gather, crc, .. } = segment;
    let len = header.encoded_len() + usize::from(header.len);
    let train = outbox.data(Shipping { to, via, len });
    if crc == Crc::On {
        return stage_checked(train, header, gather);
    }
    train.stage(|out| header.encode(out));
    if usize::from(header.len) <= STAGED || gather.len() > MAX_PIECES {
        return train.stage(|out| copy(out, gather));
    }
    for piece in gather {
        // SAFETY: the piece is registered, and `Outbox::forget` clears the train before a region goes.
        unsafe { train.refer(piece.addr, piece.len as usize) };
    }
}

/// Stages a packet whose payload carries a check. Its owner may change the memory at any time, so the bytes that
/// are checked have to be those that are sent: a copy, made in the pass that checks them.
fn stage_checked(train: &mut PendingTrain, mut header: DataHeader, gather: &SgList) {
    train.stage(|out| encode_checked(out, &mut header, gather));
}

fn encode_checked(out: &mut Vec<u8>, header: &mut DataHeader, gather: &SgList) {
    let start = out.len();
    let head = header.encoded_len();
    out.resize(start + head, 0);
    header.payload_crc = 0;
    for piece in gather {
        // SAFETY: as for `copy`.
        header.payload_crc = unsafe { append_checked(header.payload_crc, out, *piece) };
    }
    header.encode_at(&mut out[start..start + head]);
}

/// Adds a data packet that is longer than what the path carries, in parts; its memory has been checked. Rare enough for a
/// buffer of its own.
fn pack_in_parts(
    outbox: &mut Outbox,
    to: SocketAddr,
    via: Via,
    segment: &Segment<'_>,
    entry: &mut QpEntry,
) {
    let Segment { mut header, gather, crc, .. } = *segment;
    let mut whole = Vec::new();
    if crc == Crc::On {
        encode_checked(&mut whole, &mut header, gather);
    } else {
        header.encode(&mut whole);
        copy(&mut whole, gather);
    }
    entry.parted = entry.parted.wrapping_add(1);
    let (qp, token, serial) = (header.qp, header.token, entry.parted);
    let count = whole.len().div_ceil(PART_LEN) as u8;
    for (index, bytes) in (0..).zip(whole.chunks(PART_LEN)) {
        let train = outbox.data(Shipping { to, via, len: PART_HEADER_LEN + bytes.len() });
        train.stage(|out| {
            Part { qp, token, serial, index, count }.encode(out);
            out.extend_from_slice(bytes);
        });
    }
}

/// Appends the bytes of a segment's pieces, which have been checked.
fn copy(out: &mut Vec<u8>, gather: &SgList) {
    for piece in gather {
        // SAFETY: `Segment::is_readable` has checked the piece against the worker's snapshot, which stays while
        // the worker is locked; a train's buffer is no registered memory.
        unsafe { append(out, *piece) };
    }
}
