//! Packets that belong to no queue pair: set-up packets, and answers that any host can provoke.

use braid_keys::Session;
use braid_transport::{AddrPair, LocalAddr};
use braid_wire::{CONTROL_LEN, Control, HELLO_LEN, RailId, Setup};

use super::rails::{LocalRails, routed};
use crate::datapath::Via;

/// Bytes of waiting packets. Beyond this, packets are dropped, and their senders ask again.
const MAX_BYTES: usize = 64 << 10;

/// The packets to send after the current arrivals have been taken.
#[derive(Default)]
pub(crate) struct Outbox {
    packets: Vec<QueuedPacket>,
    bytes: Vec<u8>,
}

#[derive(Clone, Copy)]
struct QueuedPacket {
    rail: RailId,
    to: AddrPair,
    len: usize,
    /// Whether the packet may be longer than the path carries.
    is_probe: bool,
}

impl Outbox {
    /// Adds a packet for the first rail, unless too much waits.
    pub(crate) fn send(&mut self, to: AddrPair, bytes: &[u8]) {
        self.add(RailId::FIRST, to, bytes, false);
    }

    /// Adds the answer to a set-up packet, unless too much waits.
    pub(crate) fn answer(&mut self, to: AddrPair, answer: &Setup) {
        let mut bytes = Vec::with_capacity(HELLO_LEN);
        answer.encode(&mut bytes);
        self.send(to, &bytes);
    }

    /// Adds a control packet for this rail, encrypted if there is a `session`, unless too much
    /// waits.
    pub(crate) fn control(
        &mut self,
        rail: RailId,
        to: AddrPair,
        control: &Control,
        session: Option<&mut Session>,
    ) {
        let mut bytes = Vec::with_capacity(CONTROL_LEN + Session::OVERHEAD);
        match session {
            Some(session) => session.seal(rail, &mut bytes, |out| control.encode(out)),
            None => control.encode(&mut bytes),
        }
        self.add(rail, to, &bytes, false);
    }

    /// Adds a packet that may be too long for its path, unless too much waits.
    pub(crate) fn probe(&mut self, to: AddrPair, bytes: &[u8]) {
        self.add(RailId::FIRST, to, bytes, true);
    }

    fn add(&mut self, rail: RailId, to: AddrPair, bytes: &[u8], is_probe: bool) {
        let len = bytes.len();
        if self.bytes.len() + len <= MAX_BYTES {
            self.packets.push(QueuedPacket { rail, to, len, is_probe });
            self.bytes.extend_from_slice(bytes);
        }
    }

    /// Hands all packets to the datapaths.
    pub(crate) fn empty_into(&mut self, rails: &mut LocalRails) {
        let mut rest = &self.bytes[..];
        for packet in &self.packets {
            let (bytes, later) = rest.split_at(packet.len);
            let datapath = rails.of(packet.rail);
            let AddrPair { remote, local } = packet.to;
            let to = match local == LocalAddr::of(local.carrier) {
                true => routed(datapath, remote, local.carrier),
                false => packet.to,
            };
            match packet.is_probe {
                false => datapath.send_datagram(to, Via::Port, bytes),
                true => datapath.send_alone(to, Via::Port, &mut bytes.to_vec(), packet.len),
            }
            rest = later;
        }
        self.packets.clear();
        self.bytes.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }
}
