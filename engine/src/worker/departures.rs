//! Leaving packets: the core's packets are handed to the datapaths of their rails.

use braid_keys::Session;
use braid_transport::{Placement, Transmit, TransmitBody};
use braid_wire::{ProbeKind, RailId, Time};

use super::Worker;
use super::rails::via;
use super::roce::RoceTurn;
use crate::datapath::{Readable, Room, SegmentRun};

/// Batches sent before the worker receives again: about 1 MiB, or 100 us.
const BATCHES: usize = 16;
/// The largest number of DISCONNECTs in one turn.
const DISCONNECTS: usize = 64;

/// The result of asking a peer for a packet.
enum Turn {
    Sent,
    Nothing,
    /// None of the peer's rails has room.
    Held,
}

impl Worker {
    /// Sends packets within a budget. Returns whether there was anything to send.
    ///
    /// A forked child sends nothing: it has the keys of its parent's connections and their next
    /// packet numbers, and no number may protect two packets.
    pub(super) fn transmit(&mut self, now: Time) -> bool {
        if !self.origin.is_here() {
            return false;
        }
        let (mut worked, mut now, mut batches) = (false, now, 0);
        let count = self.peers.active().len();
        // The first peer rotates, so that none starves if the budget is short.
        self.turn = self.turn.wrapping_add(1);
        for step in 0..count {
            let index = self.peers.active()[(self.turn + step) % count];
            while batches < BATCHES {
                match self.rails.make_room() {
                    Room::Open => {}
                    Room::Emptied => {
                        batches += 1;
                        now = self.clock.now();
                    }
                    Room::Full | Room::DeviceFull => {
                        self.report_device_full(index);
                        self.is_full = true;
                        self.rails.flush();
                        return worked;
                    }
                }
                self.report_device_full(index);
                match self.transmit_one(now, index) {
                    Turn::Sent => worked = true,
                    Turn::Nothing => {
                        self.peers.set_quiet(index);
                        break;
                    }
                    Turn::Held => break,
                }
            }
        }
        worked |= self.transmit_roce(now);
        worked |= self.transmit_disconnects(now);
        if !self.outbox.is_empty() {
            self.outbox.empty_into(&mut self.rails);
            worked = true;
        }
        self.is_full = !self.rails.flush();
        worked
    }

    /// Reports full queues of devices to a peer that may have something to send.
    #[inline]
    fn report_device_full(&mut self, index: usize) {
        let full = self.rails.device_full();
        if !full.is_empty()
            && let Some((_, rails, _)) = self.peers.parts(index)
        {
            rails.devices_mut().on_refusal(full);
        }
    }

    /// Sends packets of RoCEv2 queue pairs within a budget. Returns whether there were any.
    #[inline]
    fn transmit_roce(&mut self, now: Time) -> bool {
        if self.roce.is_empty() {
            return false;
        }
        let (caps, regions) = (&self.caps[0], self.regions.load());
        let most = (caps.batch_bytes as usize, caps.batch_segments);
        let Worker { roce, qps, rails, .. } = self;
        let RoceTurn { worked, is_full } = roce.transmit(now, qps, rails, most, regions);
        self.is_full |= is_full;
        worked
    }

    fn transmit_disconnects(&mut self, now: Time) -> bool {
        let mut is_repeated = false;
        for count in 0..DISCONNECTS {
            let Some(due) = self.disconnects.poll_transmit(now) else {
                if is_repeated {
                    self.read_refusals(now);
                }
                return count > 0;
            };
            is_repeated |= due.is_repeated;
            self.scratch.clear();
            let session = due.to.keyed.map(|end| self.sessions.get_mut(end));
            // The keys are gone, and a peer of a keyed connection ignores unencrypted packets.
            let Some(session) = session.map_or(Some(None), |session| session.map(Some)) else {
                continue;
            };
            let rail = due.egress.rail();
            encode(&mut self.scratch, rail, session, |out| due.control.encode(out));
            self.rails.send_datagram(&due.to.addrs, due.egress, &self.scratch);
        }
        true
    }

    /// Takes and sends the next packet of one peer.
    fn transmit_one(&mut self, now: Time, index: usize) -> Turn {
        let Some((endpoint, rails, to)) = self.peers.parts(index) else { return Turn::Nothing };
        let full = self.rails.full();
        if rails.count() > 1 {
            rails.devices_mut().hold(full);
        }
        if !full.is_empty() && full.contains_all(rails.live()) {
            return Turn::Held;
        }
        // The value is large, so it is used in place.
        let mut transmit = endpoint.poll_transmit(now, rails);
        let Some(Transmit { slot, egress, body }) = &mut transmit else { return Turn::Nothing };
        let (slot, rail, via) = (*slot, egress.rail(), via(*egress));
        let Some(to) = to.on(rail) else { return Turn::Sent };
        let (id, packet) = (endpoint.qp(slot).id(), &mut self.scratch);
        let mut session = None;
        if !self.sessions.is_empty() {
            session = self.sessions.get_mut((id, endpoint.qp(slot).token()));
        }
        let datapath = self.rails.of(rail);
        packet.clear();
        match body {
            TransmitBody::Segment {
                header,
                followers,
                gather,
                pd,
                access,
                path,
                crc,
                oversize,
                placement,
                batch_start: _,
            } => {
                let (path, placement) = (*path, *placement);
                let payload = Readable::check(gather, (*pd, *access), self.regions.load());
                let Some(payload) = payload else {
                    endpoint.unreadable(now, slot, header);
                    return Turn::Sent;
                };
                let mut segments = SegmentRun {
                    id,
                    header,
                    followers: *followers,
                    payload,
                    to,
                    rail,
                    path,
                    via,
                    crc: *crc,
                    oversize: *oversize,
                    placement,
                    session,
                };
                let sent = datapath.send_segments(now, &mut segments);
                if !sent.is_direct && matches!(placement, Placement::Direct(_)) {
                    endpoint.staged(slot, header);
                }
                if sent.is_full {
                    endpoint.pause(slot);
                    let entry = self.qps.get(id);
                    entry.into_iter().for_each(|entry| entry.full_rails.insert(rail));
                }
            }
            TransmitBody::Ack(ack) => {
                encode(packet, rail, session, |out| ack.encode(out));
                datapath.send_packet(id, to, via, packet);
            }
            TransmitBody::Credit(credit) => {
                encode(packet, rail, session, |out| credit.encode(out));
                datapath.send_packet(id, to, via, packet);
            }
            TransmitBody::Control(control) => {
                encode(packet, rail, session, |out| control.encode(out));
                // A PING and its answer measure their path. They share no batch, because a batch
                // takes the path of its first packet.
                datapath.flush();
                datapath.send_packet(id, to, via, packet);
                datapath.flush();
            }
            TransmitBody::Probe(probe) => {
                // Every ICMP message may change the host's knowledge of the path. Asking takes
                // three system calls, so only probes ask, not the answers to them.
                if probe.kind == ProbeKind::Probe
                    && let Ok(datagram) = datapath.max_datagram(to)
                {
                    endpoint.route_takes(rail, datagram.try_into().unwrap_or(u16::MAX));
                }
                encode(packet, rail, session, |out| probe.encode(out));
                let len = packet.len();
                datapath.send_alone(to, via, packet, len);
            }
        }
        Turn::Sent
    }
}

/// Appends a packet, encrypted if its connection is keyed.
#[inline]
fn encode(
    out: &mut Vec<u8>,
    rail: RailId,
    session: Option<&mut Session>,
    write: impl FnOnce(&mut Vec<u8>),
) {
    match session {
        Some(session) => session.seal(rail, out, write),
        None => write(out),
    }
}
