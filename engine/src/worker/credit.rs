//! Credit that a worker grants to the senders of what it receives, by rail.

use braid_cc::CreditPacer;
use braid_transport::QpSlot;
use braid_wire::{Credit, MAX_RAILS, RailId, Stream, Time};

use super::peers::Peers;

/// The fewest bytes of a grant: four packets over Ethernet.
const LEAST: u64 = 6_000;
/// The most bytes of a grant: two batches.
const MOST: u64 = 128 << 10;

/// A sender: its peer and queue pair, and the stream.
type CreditKey = (usize, QpSlot, Stream);

/// The pacers of a worker, one for each rail. `None`: no peer has requested credit so far.
#[derive(Default)]
pub(super) struct CreditPacers(Option<Box<[CreditPacer<CreditKey>; MAX_RAILS]>>);

impl CreditPacers {
    fn of(&mut self, rail: RailId) -> &mut CreditPacer<CreditKey> {
        let fresh = || Box::new(std::array::from_fn(|_| CreditPacer::new(LEAST..=MOST)));
        &mut self.0.get_or_insert_with(fresh)[rail.get()]
    }

    /// The time of the next grant.
    #[inline]
    pub(super) fn next_timeout(&self) -> Option<Time> {
        let pacers = self.0.as_deref()?;
        pacers.iter().filter_map(CreditPacer::next_timeout).min()
    }

    /// Records that data has arrived on a rail.
    #[inline]
    pub(super) fn on_arrival(&mut self, now: Time, rail: RailId) {
        if let Some(pacers) = &mut self.0 {
            pacers[rail.get()].on_arrival(now);
        }
    }

    #[inline]
    fn is_due(&self, now: Time) -> bool {
        self.0.is_some() && self.next_timeout().is_some_and(|at| at <= now)
    }
}

impl Peers {
    /// Handles a credit packet of a peer.
    pub(super) fn on_credit(&mut self, now: Time, index: usize, slot: QpSlot, credit: &Credit) {
        let Some(demand) = self.endpoint_mut(index).on_credit(slot, credit) else { return };
        let key = (index, slot, credit.stream);
        self.credit.of(credit.rail).on_demand(now, key, &demand);
    }

    /// Grants the credit that is due. Returns whether there was any.
    #[inline]
    pub(super) fn grant_credit(&mut self, now: Time) -> bool {
        let is_due = self.credit.is_due(now);
        if is_due {
            (0..MAX_RAILS).map(RailId::new).for_each(|rail| self.grant_credit_on(now, rail));
        }
        is_due
    }

    fn grant_credit_on(&mut self, now: Time, rail: RailId) {
        while let Some((turn, most)) = self.credit.of(rail).poll(now) {
            let (index, slot, stream) = turn.key;
            let Some((endpoint, ..)) = self.parts(index) else { continue };
            if let Some(grant) = endpoint.grant_credit(slot, stream, rail, most) {
                self.credit.of(rail).on_grant(now, turn, &grant);
            }
        }
    }
}
