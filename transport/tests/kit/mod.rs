//! The driver of endpoints in virtual time that tests and benchmarks share.
//!
//! A [`Host`] is an endpoint with its rails. A [`Wire`] carries packets to it, as values or as
//! bytes. [`Everything`] is its memory where no bytes move.
#![allow(dead_code, unused_imports, reason = "no program uses all of it")]

mod memory;
mod packets;
mod wire;

use std::time::Duration;

use braid_cc::CreditPacer;
use braid_lb::{LbPolicy, PathSet, Rails};
use braid_transport::{
    Admit, Arrival, Completion, Disconnects, Egress, Endpoint, EndpointConfig, QpConfig, QpSlot,
    QpState, QueuePair, Remote, StrayAnswer, Transmit, TransmitBody,
};
use braid_wire::{Ack, Control, ControlKind, Crc, Credit, QpId, RailId, Stream, Time, Token};

pub(crate) use memory::{Everything, register};
pub(crate) use packets::{ack, arrival, encode, header, land, peer_of, split};
pub(crate) use wire::Wire;

/// The number and the token of the queue pair of a host that has only one.
pub(crate) const NAME: (QpId, Token) = (QpId::new(2), Token(7));

/// Bytes of a grant of credit.
const GRANT: u64 = 4 * 1024;

/// An endpoint with its rails.
pub(crate) struct Host {
    pub(crate) endpoint: Endpoint,
    pub(crate) rails: Rails,
    /// Grants credit, for all rails together.
    credit: CreditPacer<(QpSlot, Stream, RailId)>,
}

impl Host {
    pub(crate) fn new(now: Time, config: EndpointConfig, rails: impl Into<Rails>) -> Self {
        let (endpoint, credit) = (Endpoint::new(now, config), CreditPacer::new(GRANT..=GRANT));
        Host { endpoint, rails: rails.into(), credit }
    }

    /// Connects a new queue pair.
    pub(crate) fn connect(
        &mut self,
        now: Time,
        (id, token): (QpId, Token),
        config: QpConfig,
        remote: Remote,
    ) -> QpSlot {
        let mut qp = QueuePair::new(id, token, config);
        qp.modify(QpState::Init).expect("it is in RESET");
        self.adopt(now, qp, remote)
    }

    pub(crate) fn adopt(&mut self, now: Time, qp: QueuePair, remote: Remote) -> QpSlot {
        self.endpoint.adopt(now, qp, remote, &mut self.rails)
    }

    pub(crate) fn release(&mut self, now: Time, slot: QpSlot) -> QueuePair {
        self.endpoint.release(now, slot, &mut self.rails)
    }

    pub(crate) fn end(&mut self, now: Time, slot: QpSlot) {
        let ended = self.endpoint.modify(now, slot, QpState::Error);
        ended.expect("every queue pair can go to ERR");
    }

    pub(crate) fn state(&self, slot: QpSlot) -> QpState {
        self.endpoint.qp(slot).state()
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        let endpoint = self.endpoint.next_timeout(&self.rails);
        match self.credit.next_timeout() {
            None => endpoint,
            credit => endpoint.min(credit).or(credit),
        }
    }

    pub(crate) fn on_timeout(&mut self, now: Time) {
        self.endpoint.on_timeout(now, &mut self.rails);
        self.grant_credit(now);
    }

    /// Grants the credit that is due.
    fn grant_credit(&mut self, now: Time) {
        while let Some((turn, most)) = self.credit.poll(now) {
            let (slot, stream, rail) = turn.key;
            if let Some(grant) = self.endpoint.grant_credit(slot, stream, rail, most) {
                self.credit.on_grant(now, turn, &grant);
            }
        }
    }

    /// Runs the timers if one is due. Returns whether one was.
    pub(crate) fn run_timers(&mut self, now: Time) -> bool {
        let is_due = self.next_timeout().is_some_and(|at| at <= now);
        if is_due {
            self.on_timeout(now);
        }
        is_due
    }

    pub(crate) fn poll_transmit(&mut self, now: Time) -> Option<Transmit> {
        self.endpoint.poll_transmit(now, &mut self.rails)
    }

    /// Returns everything that leaves now.
    pub(crate) fn transmit(&mut self, now: Time) -> impl Iterator<Item = Transmit> {
        std::iter::from_fn(move || self.poll_transmit(now))
    }

    pub(crate) fn completions(&mut self) -> impl Iterator<Item = Completion> {
        std::iter::from_fn(|| self.endpoint.poll_completion())
    }

    /// Takes a packet of a peer whose payload does not move.
    pub(crate) fn receive(
        &mut self,
        now: Time,
        slot: QpSlot,
        packet: &Transmit,
        memory: &Everything,
    ) -> Option<Admit> {
        match &packet.body {
            TransmitBody::Segment { header, path, .. } => {
                return Some(self.receive_segment(now, slot, &arrival(header, *path), memory));
            }
            TransmitBody::Ack(ack) => self.on_ack(now, slot, ack),
            TransmitBody::Credit(credit) => self.on_credit(now, slot, credit),
            TransmitBody::Control(control) => {
                self.on_control(now, slot, control, packet.egress);
            }
            TransmitBody::Probe(probe) => {
                self.endpoint.on_probe(now, slot, RailId::FIRST, probe);
            }
        }
        None
    }

    pub(crate) fn on_credit(&mut self, now: Time, slot: QpSlot, credit: &Credit) {
        if let Some(demand) = self.endpoint.on_credit(slot, credit) {
            self.credit.on_demand(now, (slot, credit.stream, credit.rail), &demand);
            self.grant_credit(now);
        }
    }

    /// Takes a segment whose payload does not move.
    pub(crate) fn receive_segment(
        &mut self,
        now: Time,
        slot: QpSlot,
        arrival: &Arrival<'_>,
        memory: &Everything,
    ) -> Admit {
        self.credit.on_arrival(now);
        let admit = self.endpoint.on_arrival(now, slot, arrival, memory);
        if let Admit::Take(_) = admit {
            self.endpoint.placed(now, slot, memory);
        }
        admit
    }

    pub(crate) fn on_ack(&mut self, now: Time, slot: QpSlot, ack: &Ack) {
        self.endpoint.on_ack(now, slot, ack, &mut self.rails);
    }

    pub(crate) fn on_control(
        &mut self,
        now: Time,
        slot: QpSlot,
        control: &Control,
        left_by: Egress,
    ) -> bool {
        self.endpoint.on_control(now, slot, control, left_by, &mut self.rails)
    }

    pub(crate) fn on_lost(&mut self, now: Time, slot: QpSlot, psn: u32) {
        self.endpoint.on_lost(now, slot, Stream::Requests, psn, &mut self.rails);
    }

    pub(crate) fn on_unreachable(&mut self, now: Time, left_by: Egress) {
        self.endpoint.on_unreachable(now, left_by, &self.rails);
    }

    /// Moves the DISCONNECTs of ended queue pairs to the table that repeats them.
    pub(crate) fn begin_disconnects<A: Clone>(
        &mut self,
        now: Time,
        to: &A,
        disconnects: &mut Disconnects<A>,
    ) {
        while let Some(disconnect) = self.endpoint.poll_disconnect() {
            disconnects.insert(now, to.clone(), disconnect);
        }
    }
}

/// Takes a control packet, by which disconnects end too. `qp`: the queue pair that it is for.
/// Returns the answer if there is none.
pub(crate) fn on_control<A: Clone>(
    now: Time,
    qp: Option<(&mut Host, QpSlot)>,
    (control, left_by): (&Control, Egress),
    disconnects: &mut Disconnects<A>,
    is_from: impl Fn(&A) -> bool,
) -> Option<StrayAnswer<A>> {
    if control.kind == ControlKind::Confirm {
        disconnects.confirm(control, is_from);
        return None;
    }
    let Some((host, slot)) = qp else { return disconnects.on_stray(now, control, is_from) };
    if host.on_control(now, slot, control, left_by) {
        disconnects.on_peer_ended(control, is_from);
    }
    None
}

/// The remote end of a connection whose PSNs begin with `first_psn`.
pub(crate) fn remote((qp, token): (QpId, Token), first_psn: u32) -> Remote {
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
        oversubscription: None,
        min_rto: Duration::ZERO,
        grants_credit: true,
    }
}

/// Paths that are taken in turn.
pub(crate) fn paths(count: usize) -> PathSet {
    PathSet::new(LbPolicy::ROUND_ROBIN, count, 1).expect("few paths")
}

/// Reads a number from the environment. Default: `otherwise`.
pub(crate) fn number(variable: &str, otherwise: u64) -> u64 {
    match std::env::var(variable) {
        Err(_) => otherwise,
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{variable}={text} is not a number")),
    }
}
