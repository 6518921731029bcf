//! The parts that drivers of endpoints in virtual time share, in tests and benchmarks: a host, its
//! memory where no bytes move, the connection of queue pairs, and the placement of payloads.
#![allow(dead_code, reason = "no program uses all of it")]

mod memory;

use braid_lb::{LbPolicy, PathSet, Rails};
use braid_transport::{
    Admit, Arrival, Endpoint, EndpointConfig, Landing, QpConfig, QpSlot, QpState, QueuePair,
    Refusal, Remote, Sge, Transmit, TransmitBody,
};
use braid_wire::{Crc, DataHeader, PathId, QpId, RailId, Time, Token};

pub(crate) use memory::Everything;

/// The number and the token of the only queue pair of a host.
pub(crate) const ID: QpId = QpId::new(2);
pub(crate) const TOKEN: Token = Token(7);

/// An endpoint with its rails and its first queue pair.
pub(crate) struct Host {
    pub(crate) endpoint: Endpoint,
    pub(crate) rails: Rails,
    pub(crate) slot: QpSlot,
}

impl Host {
    /// A host whose queue pair has the same number and token as the remote one.
    pub(crate) fn new(
        now: Time,
        endpoint: EndpointConfig,
        mut rails: Rails,
        config: QpConfig,
        remote: Remote,
    ) -> Self {
        let mut endpoint = Endpoint::new(now, endpoint);
        let own = (remote.qp, remote.token);
        let slot = connect(now, (&mut endpoint, &mut rails), own, config, remote);
        Host { endpoint, rails, slot }
    }

    /// Connects a further queue pair, which has the same number and token as the remote one.
    pub(crate) fn connect(&mut self, now: Time, config: QpConfig, remote: Remote) -> QpSlot {
        let own = (remote.qp, remote.token);
        connect(now, (&mut self.endpoint, &mut self.rails), own, config, remote)
    }

    /// Takes a packet of the peer for a queue pair. Returns the reason if the endpoint refuses a
    /// segment.
    pub(crate) fn receive(
        &mut self,
        now: Time,
        slot: QpSlot,
        packet: &Transmit,
        memory: &Everything,
    ) -> Option<Refusal> {
        let Host { endpoint, rails, .. } = self;
        match &packet.body {
            TransmitBody::Segment { header, path, .. } => {
                return self.receive_segment(now, slot, (header, *path), memory);
            }
            TransmitBody::Ack(ack) => endpoint.on_ack(now, slot, ack, rails),
            TransmitBody::Control(control) => {
                endpoint.on_control(now, slot, control, packet.egress, rails);
            }
            TransmitBody::Probe(probe) => endpoint.on_probe(now, slot, RailId::FIRST, probe),
        }
        None
    }

    /// Takes a segment that came by a path. Returns the reason if the endpoint refuses it.
    pub(crate) fn receive_segment(
        &mut self,
        now: Time,
        slot: QpSlot,
        (header, path): (&DataHeader, PathId),
        memory: &Everything,
    ) -> Option<Refusal> {
        let arrival = Arrival { header, path, congestion: false, may_be_replied_to: false };
        match self.endpoint.on_arrival(now, slot, &arrival, memory) {
            Admit::Take(_) => self.endpoint.placed(now, slot, memory),
            Admit::Duplicate => {}
            Admit::Refuse(refusal) => return Some(refusal),
        }
        None
    }

    /// Runs the timers that are due.
    pub(crate) fn run_timers(&mut self, now: Time) {
        if self.next_timeout().is_some_and(|at| at <= now) {
            self.endpoint.on_timeout(now, &mut self.rails);
        }
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.endpoint.next_timeout(&self.rails)
    }
}

/// Puts a payload where the core wants it, piece by piece.
pub(crate) fn land(landing: &Landing, payload: &[u8], mut place: impl FnMut(&Sge, &[u8])) {
    match landing {
        Landing::Payload(pieces) => {
            let mut rest = payload;
            for piece in pieces {
                let part = rest.split_off(..piece.len as usize).expect("pieces fit the payload");
                place(piece, part);
            }
            assert!(rest.is_empty(), "the pieces do not take the whole payload");
        }
        Landing::Value(piece, value) => {
            assert_eq!(piece.len, 8);
            place(piece, &value.to_ne_bytes());
        }
        Landing::Nothing => assert!(payload.is_empty(), "a payload is thrown away"),
    }
}

/// Connects a queue pair of this number and token.
pub(crate) fn connect(
    now: Time,
    (endpoint, rails): (&mut Endpoint, &mut Rails),
    (id, token): (QpId, Token),
    config: QpConfig,
    remote: Remote,
) -> QpSlot {
    let mut qp = QueuePair::new(id, token, config);
    qp.modify(QpState::Init).expect("it is in RESET");
    endpoint.adopt(now, qp, remote, rails)
}

/// The remote end of a connection whose PSNs begin with `first_psn`.
pub(crate) fn remote(qp: QpId, token: Token, first_psn: u32) -> Remote {
    Remote {
        qp,
        token,
        send_psn: first_psn,
        recv_psn: first_psn,
        mtu: 4096,
        window: 4096,
        segments: u32::MAX,
        max_rd_atomic: 16,
        crc: Crc::Off,
    }
}

/// Paths that are taken in turn.
pub(crate) fn paths(count: usize) -> PathSet {
    PathSet::new(LbPolicy::ROUND_ROBIN, count, 1).expect("few paths")
}
