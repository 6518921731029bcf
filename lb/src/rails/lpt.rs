//! RailS, Algorithm 2, for traffic that is not known ahead: each chunk goes to the rail on which the host has sent least
//! (Graham's list scheduling; where all sizes are known, [`LptRound`](crate::LptRound) takes the longest first).
//!
//! Loads are the host's, over all destinations. Among rails that are level, the one that has carried least to this
//! destination is taken, and among those the first from the destination's own start on: otherwise hosts that send in the same
//! order would all reach a receiver on the same rail, and Theorem 3, that even sending makes even receiving, would not hold.
//!
//! Rails need not be equally fast: a packet weighs the more, the less its rail delivers while it is full.

use braid_wire::{MAX_RAILS, RailId};

use super::{RailChoice, RailPolicy};
use crate::StreamId;

/// The load of a packet on a rail of full speed.
const PACKET: u64 = 1 << 10;
/// Rails whose loads differ by less are level: a chunk of 64 KiB in packets of 4 KiB.
const LEVEL: u64 = 16 * PACKET;
/// A rail that carried nothing for a while owes this much at most: it is not to take everything when it is back.
const LONGEST_DEBT: u64 = 16 * LEVEL;
/// Speeds are compared each time so many packets have arrived at this destination. Our choice, as the next two.
const PERIOD: u64 = 1024;
/// Who delivers seven eighths of the fastest is as fast: what full rails deliver in a period varies by as much.
const EQUAL: (u64, u64) = (7, 8);
/// No packet weighs more than so many of the fastest rail.
const HEAVIEST: u64 = 64;

#[derive(Debug)]
struct Lpt {
    /// Packets to this destination, by rail.
    here: [u64; MAX_RAILS],
    /// The load of a packet, by rail.
    weights: [u64; MAX_RAILS],
    period: Period,
}

/// What is seen of the rails until their speeds are compared next.
#[derive(Debug, Default)]
struct Period {
    /// Packets that had arrived when it began, by rail.
    arrived: [u64; MAX_RAILS],
    /// Those that had no room for a chunk meanwhile: they deliver what they can, the others what they are given.
    full: [bool; MAX_RAILS],
}

pub(super) fn build() -> Box<dyn RailPolicy> {
    let (here, weights) = ([0; MAX_RAILS], [PACKET; MAX_RAILS]);
    Box::new(Lpt { here, weights, period: Period::default() })
}

impl RailPolicy for Lpt {
    fn pick(&mut self, _: StreamId, rails: &RailChoice<'_>) -> RailId {
        self.compare_speeds(rails);
        let most = rails.live.iter().map(|rail| rails.host.of(rail)).max().unwrap_or(0);
        let owed = most.saturating_sub(LONGEST_DEBT);
        rails.live.iter().for_each(|rail| rails.host.raise_to(rail, owed));
        let least = rails.open.iter().map(|rail| rails.host.of(rail)).min().unwrap_or(0);
        let level = rails.open.iter().filter(|rail| rails.host.of(*rail) < least + LEVEL);
        let rank = |rail: &RailId| (self.here[rail.get()], rails.turn(*rail));
        level.min_by_key(rank).unwrap_or_default()
    }

    fn on_sent(&mut self, rail: RailId, rails: &super::HostLoads) {
        let weight = self.weights[rail.get()];
        self.here[rail.get()] += weight;
        rails.add(rail, weight);
    }
}

impl Lpt {
    fn compare_speeds(&mut self, rails: &RailChoice<'_>) {
        let arrived = |rail: RailId| rails.counters(rail).arrived;
        let period = &mut self.period;
        rails.live.iter().filter(|rail| !rails.open.contains(*rail)).for_each(|rail| {
            period.full[rail.get()] = true;
        });
        let delivered = |rail: RailId| arrived(rail).saturating_sub(period.arrived[rail.get()]);
        if rails.live.iter().map(delivered).sum::<u64>() < PERIOD {
            return;
        }
        let fastest = rails.live.iter().map(delivered).max().unwrap_or(1).max(1);
        for rail in rails.live.iter() {
            let speed = if period.full[rail.get()] { delivered(rail).max(1) } else { fastest };
            let is_equal = speed * EQUAL.1 >= fastest * EQUAL.0;
            let weight = if is_equal { PACKET } else { PACKET * fastest / speed };
            let weight = weight.min(HEAVIEST * PACKET);
            // Half of what is new, as what one period shows is not the whole truth.
            let held = &mut self.weights[rail.get()];
            *held = held.midpoint(weight);
        }
        self.period = Period::default();
        rails.live.iter().for_each(|rail| self.period.arrived[rail.get()] = arrived(rail));
    }
}
