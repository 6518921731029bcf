//! Credit that an interface grants to the senders of what it receives.

use braid_cc::{CreditDemand, CreditGrant, CreditPacer, CreditTurn};
use braid_lb::RailId;
use braid_wire::{DATA_HEADER_LEN, Stream};

use crate::events::{Event, Events};
use crate::packet::EndId;
use crate::time::Ps;

/// Packets of a grant, as in htsim (`_mtus_per_pull`).
const GRANT: u64 = 4;

/// A sender: the end that receives from it, the stream and the rail.
pub(super) type CreditKey = (EndId, Stream, RailId);

/// The senders that wait for the credit of an interface.
#[derive(Debug)]
pub(super) struct CreditQueue {
    pacer: CreditPacer<CreditKey>,
    /// The time of the scheduled event.
    due: Ps,
}

/// Returns the bytes of a grant. `mtu`: payload bytes of a full segment.
pub(super) fn grant_bytes(mtu: u16) -> u64 {
    GRANT * wire_len(mtu)
}

/// Returns the bytes of a segment that count for credit. `len`: its payload bytes.
pub(super) fn wire_len(len: u16) -> u64 {
    u64::from(len) + DATA_HEADER_LEN as u64
}

impl CreditQueue {
    /// `grant`: bytes of a grant.
    pub(super) fn new(grant: u64) -> CreditQueue {
        CreditQueue { pacer: CreditPacer::new(grant..=grant), due: Ps::NEVER }
    }

    #[inline]
    pub(super) fn on_arrival(&mut self, now: Ps) {
        self.pacer.on_arrival(now.to_time());
    }

    pub(super) fn on_demand(&mut self, now: Ps, key: CreditKey, demand: &CreditDemand) {
        self.pacer.on_demand(now.to_time(), key, demand);
    }

    /// Returns the next sender to grant credit to, and the most bytes.
    pub(super) fn poll(&mut self, now: Ps) -> Option<(CreditTurn<CreditKey>, u64)> {
        self.pacer.poll(now.to_time())
    }

    pub(super) fn on_grant(&mut self, now: Ps, turn: CreditTurn<CreditKey>, grant: &CreditGrant) {
        self.pacer.on_grant(now.to_time(), turn, grant);
    }

    /// Schedules an event for the next grant of interface `nic`, which owns the queue. `is_over`:
    /// the scheduled event has come.
    pub(super) fn expect_grants(&mut self, nic: u32, is_over: bool, events: &mut Events) {
        if is_over {
            self.due = Ps::NEVER;
        }
        let Some(at) = self.pacer.next_timeout() else { return };
        let at = Ps::from_time(at).max(events.now());
        if at < self.due {
            self.due = at;
            events.at(at, Event::Credit { nic });
        }
    }
}
