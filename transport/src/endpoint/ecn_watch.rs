//! The endpoint's observation of what the network does to ECN, see [`super::ecn`].

use braid_lb::RailSet;
use braid_wire::{Ack, MAX_RAILS, RailId, Time};

use super::ecn::{EcnTrouble, RailEcn, State};
use super::members::Endpoint;
use crate::{Event, EventKind, QpSlot};

impl Endpoint {
    /// Whether segments on a rail should be sent as ECN-capable. All other packets never are
    /// (compare RFC 3168, section 6.1.4): an end that sends no data would not notice that its
    /// packets are dropped.
    pub fn sends_ecn(&self, rail: RailId) -> bool {
        self.ecn.rail(rail).is_none_or(RailEcn::sends_ecn)
    }

    /// The reason why ECN is off on a rail; `None`: it is on.
    pub fn ecn_trouble(&self, rail: RailId) -> Option<EcnTrouble> {
        self.ecn.rail(rail)?.trouble()
    }

    /// Whether [`Endpoint::on_ecn_ack`] has to handle an acknowledgement.
    #[inline]
    pub(super) fn watches_ecn(&self, ack: &Ack) -> bool {
        self.ecn.is_watched || (!ack.marks.is_empty() && self.config.validate_ecn)
    }

    #[cold]
    pub(super) fn on_ecn_ack(&mut self, now: Time, slot: QpSlot, ack: &Ack, acked: u64) {
        let sample = self.qp_mut(slot).take_mark_sample();
        let age = now.since_stamp(ack.stamp).as_nanos() as u64;
        let sent_at = Time::from_nanos(now.as_nanos().saturating_sub(age));
        self.change_ecn(slot, |rails| {
            if let Some(rail) = rails.get_mut(ack.path.rail().get()).filter(|_| acked > 0) {
                rail.on_ack(now, sent_at);
            }
            if let Some((rail, sample)) = sample {
                rails[rail.get()].on_sample(now, sample);
            }
        });
    }

    /// Handles a time-out of a queue pair that had something in flight on the rails `hit`.
    #[cold]
    pub(super) fn on_ecn_timeout(&mut self, now: Time, slot: QpSlot, hit: RailSet) {
        self.change_ecn(slot, |rails| {
            hit.iter().for_each(|rail| rails[rail.get()].on_timeout(now));
        });
    }

    /// Tries ECN again on rails where that is due.
    pub(super) fn retry_ecn(&mut self, now: Time) {
        if !self.ecn.is_watched {
            return;
        }
        let Some(index) = self.prober() else { return };
        self.change_ecn(QpSlot(index), |rails| {
            for rail in rails {
                if let State::Off(trouble) = rail.state
                    && now >= rail.retry_at
                {
                    rail.enter(now, State::Trial(trouble));
                }
            }
        });
    }

    fn change_ecn(&mut self, slot: QpSlot, change: impl FnOnce(&mut [RailEcn; MAX_RAILS])) {
        if !self.config.validate_ecn {
            return;
        }
        let rails = self.ecn.rails_mut();
        let before = *rails;
        change(rails);
        let after = *rails;
        let is_idle = |rail: &RailEcn| rail.state == State::Capable && rail.timeouts == 0;
        self.ecn.is_watched = !after.iter().all(is_idle);
        let changed = |rail: &RailId| before[rail.get()].state != after[rail.get()].state;
        let changed: RailSet = (0..MAX_RAILS).map(RailId::new).filter(changed).collect();
        if changed.is_empty() {
            return;
        }
        let ignored = self.ecn.ignored();
        let was_cut = |rail: &RailId| {
            let is_off = after[rail.get()].state == State::Off(EcnTrouble::AlwaysMarked);
            is_off && before[rail.get()].counts_marks()
        };
        let cut: RailSet = changed.iter().filter(was_cut).collect();
        for member in self.members.iter_mut().flatten() {
            member.qp.ignore_marks(ignored);
            member.qp.restart_controllers(cut);
        }
        let qp = self.qp(slot).id();
        let news = changed.iter().map(|rail| Event { slot, qp, kind: EventKind::Ecn(rail) });
        self.outputs.events.extend(news);
    }
}
