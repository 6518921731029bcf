//! One end of a queue pair, to which a test brings packets that it has written by hand.

use std::time::Duration;

use braid_transport::{
    Admit, Completion, EndpointConfig, QpConfig, QpSlot, QpState, RecvWr, RemoteAddr, SendOp,
    TransmitBody,
};
use braid_wire::{Ack, DataHeader, Opcode, PathId, Time};

use crate::kit::{self, Everything, Host, NAME};

pub(crate) struct End {
    pub(crate) now: Time,
    host: Host,
    slot: QpSlot,
    memory: Everything,
}

impl End {
    /// An end whose two streams begin with this PSN.
    pub(crate) fn new(first_psn: u32) -> Self {
        End::with(first_psn, QpConfig::default())
    }

    pub(crate) fn with(first_psn: u32, config: QpConfig) -> Self {
        End::within(first_psn, config, EndpointConfig::default())
    }

    pub(crate) fn within(first_psn: u32, config: QpConfig, endpoint: EndpointConfig) -> Self {
        let now = Time::from_nanos(1 << 40);
        let mut host = Host::new(now, endpoint, kit::paths(4));
        let slot = host.connect(now, NAME, config, kit::remote(NAME, first_psn));
        End { now, host, slot, memory: Everything::new() }
    }

    pub(crate) fn modify(&mut self, to: QpState) {
        self.host.endpoint.modify(self.now, self.slot, to).unwrap();
    }

    pub(crate) fn is_receiving(&self) -> bool {
        self.host.state(self.slot) != QpState::Error
    }

    pub(crate) fn post_recv(&mut self, len: u32) {
        let wr = RecvWr { id: 0, sges: self.memory.sges(len) };
        self.host.endpoint.post_recv(self.now, self.slot, wr).unwrap();
    }

    /// Posts a work request, and lets out what there is to send.
    pub(crate) fn post(&mut self, op: SendOp, len: u32) {
        self.queue(op, len);
        self.acks();
    }

    /// Posts a work request.
    pub(crate) fn queue(&mut self, op: SendOp, len: u32) {
        let wr = self.memory.work(op, len);
        self.host.endpoint.post_send(self.now, self.slot, wr).unwrap();
    }

    /// The beginning of memory, here or there.
    pub(crate) fn remote(&self) -> RemoteAddr {
        self.memory.remote()
    }

    /// A segment of a message of so many bytes, the first in its queue; `bytes` is what it carries.
    pub(crate) fn segment(
        &self,
        opcode: Opcode,
        psn: u32,
        message_len: u32,
        bytes: std::ops::Range<u32>,
    ) -> DataHeader {
        let is_write = matches!(opcode, Opcode::Write | Opcode::WriteImm);
        let remote = if is_write { self.remote() } else { RemoteAddr { addr: 0, rkey: 0 } };
        DataHeader {
            last: bytes.end == message_len,
            address: remote.addr,
            rkey: remote.rkey,
            message_len,
            offset: bytes.start,
            len: (bytes.end - bytes.start) as u16,
            ..kit::header(self.now, opcode, NAME, psn)
        }
    }

    /// A segment arrives; the driver places it if it is to.
    pub(crate) fn arrive(&mut self, header: &DataHeader) -> Admit {
        let arrival = kit::arrival(header, PathId::default());
        self.host.receive_segment(self.now, self.slot, &arrival, &self.memory)
    }

    /// An acknowledgement arrives.
    pub(crate) fn ack(&mut self, ack: &Ack) {
        self.host.on_ack(self.now, self.slot, ack);
    }

    pub(crate) fn is_within_window(&self, psn: u32) -> bool {
        self.host.endpoint.qp(self.slot).is_within_window(psn & 0xFF_FFFF)
    }

    /// Time passes.
    pub(crate) fn pass(&mut self, span: Duration) {
        self.now += span;
        self.host.on_timeout(self.now);
    }

    /// Returns the acknowledgements among the packets that leave now.
    pub(crate) fn acks(&mut self) -> Vec<Ack> {
        let acks = self.host.transmit(self.now).filter_map(|packet| match packet.body {
            TransmitBody::Ack(ack) => Some(ack),
            _ => None,
        });
        acks.collect()
    }

    /// Returns the segments among the packets that leave now.
    pub(crate) fn send(&mut self) -> Vec<DataHeader> {
        let segments = self.host.transmit(self.now).filter_map(|packet| match packet.body {
            TransmitBody::Segment { header, .. } => Some(header),
            _ => None,
        });
        segments.collect()
    }

    pub(crate) fn completions(&mut self) -> Vec<Completion> {
        self.host.completions().collect()
    }
}
