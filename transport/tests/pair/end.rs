//! One end of a queue pair, to which a test brings packets that it has written by hand.

use std::time::Duration;

use braid_lb::Rails;
use braid_transport::{
    Admit, Arrival, Completion, Endpoint, EndpointConfig, QpConfig, QpSlot, QpState, RecvWr,
    RemoteAddr, SendOp, TransmitBody,
};
use braid_wire::{Ack, DataHeader, Opcode, PathId, Time};

use crate::kit::{self, Everything, Host, ID, TOKEN};

pub(crate) struct End {
    pub(crate) now: Time,
    endpoint: Endpoint,
    rails: Rails,
    slot: QpSlot,
    memory: Everything,
}

impl End {
    /// Both streams of which begin with this PSN.
    pub(crate) fn new(first_psn: u32) -> Self {
        End::with(first_psn, QpConfig::default())
    }

    pub(crate) fn with(first_psn: u32, config: QpConfig) -> Self {
        End::within(first_psn, config, EndpointConfig::default())
    }

    pub(crate) fn within(first_psn: u32, config: QpConfig, endpoint: EndpointConfig) -> Self {
        let now = Time::from_nanos(1 << 40);
        let (rails, remote) = (Rails::from(kit::paths(4)), kit::remote(ID, TOKEN, first_psn));
        let Host { endpoint, rails, slot } = Host::new(now, endpoint, rails, config, remote);
        End { now, endpoint, rails, slot, memory: Everything::new() }
    }

    pub(crate) fn modify(&mut self, to: QpState) {
        self.endpoint.modify(self.now, self.slot, to).unwrap();
    }

    pub(crate) fn is_receiving(&self) -> bool {
        self.endpoint.qp(self.slot).state() != QpState::Error
    }

    pub(crate) fn post_recv(&mut self, len: u32) {
        let wr = RecvWr { id: 0, sges: self.memory.sges(len) };
        self.endpoint.post_recv(self.now, self.slot, wr).unwrap();
    }

    /// Posts a work request, and lets out what there is to send.
    pub(crate) fn post(&mut self, op: SendOp, len: u32) {
        self.queue(op, len);
        self.say();
    }

    /// Posts a work request.
    pub(crate) fn queue(&mut self, op: SendOp, len: u32) {
        let wr = self.memory.work(op, len);
        self.endpoint.post_send(self.now, self.slot, wr).unwrap();
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
        let RemoteAddr { addr, rkey } = self.remote();
        let is_write = matches!(opcode, Opcode::Write | Opcode::WriteImm);
        DataHeader {
            opcode,
            qp: ID,
            token: TOKEN,
            psn: psn & 0xFF_FFFF,
            ack_request: false,
            solicited: false,
            last: bytes.end == message_len,
            retransmission: false,
            number: 0,
            address: if is_write { addr } else { 0 },
            rkey: if is_write { rkey } else { 0 },
            message_len,
            offset: bytes.start,
            len: (bytes.end - bytes.start) as u16,
            imm: 0,
            stamp: self.now.stamp(),
            payload_crc: 0,
            operands: None,
        }
    }

    /// A segment arrives; the driver places it if it is to.
    pub(crate) fn arrive(&mut self, header: &DataHeader) -> Admit {
        let arrival = Arrival {
            header,
            path: PathId::default(),
            congestion: false,
            may_be_replied_to: false,
        };
        let admit = self.endpoint.on_arrival(self.now, self.slot, &arrival, &self.memory);
        if let Admit::Take(_) = admit {
            self.endpoint.placed(self.now, self.slot, &self.memory);
        }
        admit
    }

    /// An acknowledgement arrives.
    pub(crate) fn ack(&mut self, ack: &Ack) {
        self.endpoint.on_ack(self.now, self.slot, ack, &mut self.rails);
    }

    pub(crate) fn is_within_window(&self, psn: u32) -> bool {
        self.endpoint.qp(self.slot).is_within_window(psn & 0xFF_FFFF)
    }

    /// Time passes.
    pub(crate) fn pass(&mut self, span: Duration) {
        self.now += span;
        self.endpoint.on_timeout(self.now, &mut self.rails);
    }

    /// The acknowledgements among all that there is to say.
    pub(crate) fn say(&mut self) -> Vec<Ack> {
        let all = std::iter::from_fn(|| self.endpoint.poll_transmit(self.now, &mut self.rails));
        let acks = all.filter_map(|transmit| match transmit.body {
            TransmitBody::Ack(ack) => Some(ack),
            _ => None,
        });
        acks.collect()
    }

    /// The segments among all that there is to say.
    pub(crate) fn send(&mut self) -> Vec<DataHeader> {
        let all = std::iter::from_fn(|| self.endpoint.poll_transmit(self.now, &mut self.rails));
        let segments = all.filter_map(|transmit| match transmit.body {
            TransmitBody::Segment { header, .. } => Some(header),
            _ => None,
        });
        segments.collect()
    }

    pub(crate) fn completions(&mut self) -> Vec<Completion> {
        std::iter::from_fn(|| self.endpoint.poll_completion()).collect()
    }
}
