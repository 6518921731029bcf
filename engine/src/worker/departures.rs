//! Packets that leave: what the core wants to send, handed to the datapath.

use braid_transport::{Endpoint, Placement, Transmit, TransmitBody};
use braid_wire::{PathId, Time};

use super::Worker;
use crate::datapath::{Readable, Room, Segment, Via};

/// Batches sent before the worker looks at what has arrived: about 1 MiB, or 100 us.
const BATCHES: usize = 16;
/// DISCONNECTs sent in one turn.
const DISCONNECTS: usize = 64;

impl Worker {
    /// Sends what there is to send, within a budget. Returns whether there was anything that could be sent.
    pub(super) fn transmit(&mut self, now: Time) -> bool {
        let (mut worked, mut now, mut batches) = (false, now, 0);
        let count = self.peers.active().len();
        // Another peer is first each time, so that none starves when the budget is short.
        self.turn = self.turn.wrapping_add(1);
        for step in 0..count {
            let index = self.peers.active()[(self.turn + step) % count];
            while batches < BATCHES {
                match self.datapath.make_room() {
                    Room::Open => {}
                    Room::Emptied => {
                        batches += 1;
                        now = self.clock.now();
                    }
                    Room::Full => {
                        self.is_full = true;
                        self.datapath.flush();
                        return worked;
                    }
                }
                if !self.transmit_one(now, index) {
                    self.peers.set_quiet(index);
                    break;
                }
                worked = true;
            }
        }
        worked |= self.transmit_disconnects(now);
        if !self.outbox.is_empty() {
            self.outbox.empty_into(&mut *self.datapath);
            worked = true;
        }
        self.is_full = !self.datapath.flush();
        worked
    }

    fn transmit_disconnects(&mut self, now: Time) -> bool {
        for count in 0..DISCONNECTS {
            let Some(due) = self.disconnects.poll_transmit(now) else { return count > 0 };
            self.scratch.clear();
            due.control.encode(&mut self.scratch);
            let via = due.path.map_or(Via::Port, Via::Path);
            self.datapath.send_datagram(due.to, via, &self.scratch);
        }
        true
    }

    /// Takes the next packet of one peer.
    fn transmit_one(&mut self, now: Time, index: usize) -> bool {
        let Some((endpoint, paths, to)) = self.peers.parts(index) else { return false };
        let Some(Transmit { slot, body }) = endpoint.poll_transmit(now, paths) else {
            return false;
        };
        let (id, packet) = (endpoint.qp(slot).id(), &mut self.scratch);
        packet.clear();
        let path = match body {
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
                let payload = Readable::check(&gather, (pd, access), self.regions.load());
                let Some(payload) = payload else {
                    endpoint.unreadable(now, slot, &header);
                    return true;
                };
                let via = via(endpoint, Some(path));
                let header = &header;
                let segment =
                    Segment { id, header, payload, to, path, via, crc, oversize, placement };
                let sent = self.datapath.send_segment(now, &segment);
                if !sent.is_direct && matches!(placement, Placement::Direct(_)) {
                    endpoint.staged(slot, header);
                }
                if sent.is_full {
                    endpoint.pause(slot);
                }
                return true;
            }
            TransmitBody::Ack(ack) => {
                ack.encode(packet);
                Some(ack.path)
            }
            TransmitBody::Control(control, path) => {
                control.encode(packet);
                path
            }
            TransmitBody::Probe(probe, path) => {
                // What the host knows of the path changes with every ICMP message.
                if let Ok(datagram) = self.datapath.max_datagram(to) {
                    endpoint.route_takes(datagram.try_into().unwrap_or(u16::MAX));
                }
                probe.encode(packet);
                self.datapath.send_probe(to, path.map_or(Via::Port, Via::Path), packet);
                return true;
            }
        };
        self.datapath.send_packet(id, to, via(endpoint, path), packet);
        true
    }
}

/// By which port a packet leaves that is to take a path; `None`: the receiving port.
fn via(endpoint: &Endpoint, path: Option<PathId>) -> Via {
    path.filter(|_| !endpoint.paths_are_blocked()).map_or(Via::Port, Via::Path)
}
