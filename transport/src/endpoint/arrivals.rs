//! Arriving packets.

use std::time::Duration;

use braid_lb::Rails;
use braid_wire::{Ack, Control, ControlKind, Stream, Time};

use super::liveness::{Answer, Ways};
use super::members::Endpoint;
use crate::{Admit, Arrival, Egress, Memory, NicEpoch, QpSlot, SgList};

impl Endpoint {
    /// Handles a run of data packets. On [`Admit::Take`], place the bytes and then call
    /// [`Endpoint::placed`]. The effect is that of the single packets in their order. On
    /// [`Admit::Singly`], which only a run of several packets gets, hand in each by itself.
    pub fn on_arrival<M: Memory>(
        &mut self,
        now: Time,
        slot: QpSlot,
        arrival: &Arrival<'_>,
        memory: &M,
    ) -> Admit {
        let qp = self.qp_mut(slot);
        let admit = qp.on_arrival(now, arrival, memory.regions());
        let is_over = match &admit {
            Admit::Singly => true,
            Admit::Refuse(refusal) => refusal.is_foreign(),
            Admit::Take(_) | Admit::Duplicate => false,
        };
        if is_over {
            return admit;
        }
        self.heard();
        if !matches!(admit, Admit::Take(_)) {
            self.settle(slot.0);
            if arrival.header.retransmission && admit.repeats_an_answer() {
                self.suspect_path_mtu(now);
                if admit == Admit::Duplicate {
                    self.liveness.unacked_path = self.qp(slot).acked_by(arrival.header.opcode);
                    self.control_due = true;
                }
            }
        }
        admit
    }

    /// Returns the place of the payload of a segment that has arrived in part, if it may be written
    /// there now. Nothing is recorded, so hand in the whole segment by [`Endpoint::on_arrival`]
    /// later. Ask again before each write: the segment may arrive by another path in the meantime.
    pub fn place_ahead<M: Memory>(
        &mut self,
        now: Time,
        slot: QpSlot,
        arrival: &Arrival<'_>,
        memory: &M,
    ) -> Option<SgList> {
        self.qp_mut(slot).place_ahead(now, arrival, memory.regions())
    }

    /// Reports that the run taken last is in its place. Whatever is now complete takes effect, in
    /// order.
    pub fn placed<M: Memory>(&mut self, now: Time, slot: QpSlot, memory: &M) {
        self.qp_mut(slot).placed(now, memory);
        self.settle(slot.0);
    }

    /// Whether the acknowledgement of what has arrived for this queue pair should leave before the
    /// application is notified. The application may end its process right after the notification,
    /// and then nobody would acknowledge. An acknowledgement that is likely to leave with a reply
    /// waits for it.
    pub fn is_ack_due_at_once(&self, now: Time, slot: QpSlot) -> bool {
        self.qp(slot).is_ack_due_at_once(now)
    }

    /// Makes pending acknowledgements of this queue pair leave with the next transmission, whatever
    /// they wait for.
    pub fn expedite_acks(&mut self, slot: QpSlot) {
        self.qp_mut(slot).expedite_acks();
        self.settle(slot.0);
    }

    /// Makes skipped segments of this queue pair leave with the next transmission. A driver that
    /// will not run for a while calls this, because acknowledgements release them otherwise.
    pub fn release_skipped(&mut self, slot: QpSlot) {
        self.qp_mut(slot).release_skipped();
        self.settle(slot.0);
    }

    /// Handles an acknowledgement.
    pub fn on_ack(&mut self, now: Time, slot: QpSlot, ack: &Ack, rails: &mut Rails) {
        let qp = self.qp_mut(slot);
        if let Some(acked) = qp.on_ack(now, ack, rails) {
            if acked > 0 {
                self.liveness.without_answer = 0;
                // The sample includes the delay of the acknowledgement at the peer, because a
                // time-out has to wait for that, too.
                let round_trip = now.since_stamp(ack.stamp);
                self.round_trips.on_sample(now, round_trip);
                let waited = Duration::from_nanos(ack.delay_ns.into());
                let round_trip = round_trip.saturating_sub(waited);
                self.in_flight.on_round_trip(now, ack.path.rail(), round_trip);
            }
            self.heard();
            self.settle(slot.0);
            if self.watches_ecn(ack) {
                self.on_ecn_ack(now, slot, ack, acked);
            }
        }
    }

    /// Handles a loss that the network itself reports: a switch has returned the header of a
    /// trimmed packet, or a model of the network knows of the loss. The segment is retransmitted if
    /// it is in flight, and ignored otherwise. `psn`: 24 bits, as in the header.
    pub fn on_lost(
        &mut self,
        now: Time,
        slot: QpSlot,
        stream: Stream,
        psn: u32,
        rails: &mut Rails,
    ) {
        self.qp_mut(slot).on_lost(now, stream, psn, rails);
        self.settle(slot.0);
    }

    /// Records that the peer receives direct placements on a path in this epoch; earlier epochs are
    /// closed. An epoch that is not newer than the known one is ignored, so the message may arrive
    /// late and more than once. The driver has checked that it comes from the peer.
    pub fn begin_epoch(&mut self, slot: QpSlot, epoch: NicEpoch) {
        self.qp_mut(slot).begin_epoch(epoch);
    }

    /// Handles a control packet other than CONFIRM. `left_by`: the port of the peer that the packet
    /// left from. Returns false if it is not from the peer's end of this queue pair, or cannot be
    /// true.
    pub fn on_control(
        &mut self,
        now: Time,
        slot: QpSlot,
        control: &Control,
        left_by: Egress,
        rails: &mut Rails,
    ) -> bool {
        let qp = self.qp(slot);
        let remote = qp.remote();
        if !control.is_from(remote.qp) {
            return false;
        }
        let expected = match control.kind {
            // An UNKNOWN returns the token that this end's packet carried.
            ControlKind::Unknown => remote.token,
            _ => qp.token(),
        };
        if expected != control.token {
            return false;
        }
        // An answer leaves from the same kind of port: that of a path, or the receiving port.
        let left_by = match left_by {
            Egress::Path(path) => Egress::Path(rails.of_answer(path)),
            Egress::Port(_) => left_by,
        };
        match control.kind {
            ControlKind::Confirm => return false,
            ControlKind::Pong => {
                self.heard();
                self.liveness.without_answer = 0;
                let by_port = left_by.path().is_none();
                rails.on_probe_answer(now, left_by.rail(), by_port, control.stamp);
            }
            ControlKind::Ping => {
                self.heard();
                let (index, kind) = (slot.0, self.qp(slot).on_ping());
                let stamp = control.stamp;
                self.liveness.answer(Answer { index, kind, stamp, egress: left_by });
                self.control_due = true;
            }
            ControlKind::Disconnect(last) => {
                if !self.qp_mut(slot).on_disconnect(last, left_by) {
                    return false;
                }
                self.heard();
                self.on_peer_ended(now, slot, rails);
                self.settle(slot.0);
            }
            ControlKind::Unknown => {
                self.qp_mut(slot).on_unknown();
                self.on_peer_ended(now, slot, rails);
                self.settle(slot.0);
                // Often the whole peer is gone. PING at once for the next queue pair, from the
                // receiving port, which an UNKNOWN can reach.
                self.ask(Ways::Port);
            }
        }
        true
    }

    /// Drops pending output for a queue pair whose peer has ended: DISCONNECTs that the driver has
    /// not taken yet, and path checks. They would get no answer.
    fn on_peer_ended(&mut self, now: Time, slot: QpSlot, rails: &mut Rails) {
        rails.forget_path_checks(now);
        let id = self.qp(slot).id();
        self.outputs.disconnects.retain(|disconnect| disconnect.of() != id);
    }
}
