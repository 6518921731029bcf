//! RailS, Algorithm 2, for traffic that is not known in advance: each chunk goes to the rail on
//! which the host has sent the least (Graham's list scheduling). If all sizes are known,
//! [`LptRound`](crate::LptRound) assigns the longest chunks first.
//!
//! Loads are those of the host over all destinations. Among rails of about equal load, the policy
//! takes the one with the least load to this destination, then the next one from the destination's
//! start. Otherwise, hosts that send in the same order would all reach a receiver on the same rail.
//! Theorem 3 would then not hold: even sending would not result in even receiving.
//!
//! Rails may have different speeds: a packet weighs more on a rail that delivers less while it is
//! full.

use braid_wire::{MAX_RAILS, RailId};

use super::choice::RailChoice;
use super::policy::RailPolicy;
use crate::StreamId;

/// The load of a packet on a rail of full speed.
const PACKET: u64 = 1 << 10;
/// Rails whose loads differ by less are equal: a chunk of 64 KiB in packets of 4 KiB.
const LEVEL: u64 = 16 * PACKET;
/// Maximum deficit of a rail that was idle, so that it does not take all chunks when it is back.
const LONGEST_DEBT: u64 = 16 * LEVEL;
/// Arrivals at this destination between two comparisons of speeds. Our choice, like the next two
/// constants.
const PERIOD: u64 = 1024;
/// A rail that delivers seven eighths of the fastest one counts as equally fast, because the
/// deliveries of full rails vary by as much.
const EQUAL: (u64, u64) = (7, 8);
/// Maximum weight of a packet in packets of the fastest rail.
const HEAVIEST: u64 = 64;

#[derive(Debug)]
struct Lpt {
    /// Load to this destination, by rail.
    here: [u64; MAX_RAILS],
    /// Load of a packet, by rail.
    weights: [u64; MAX_RAILS],
    period: Period,
}

/// Observations since the last comparison of speeds.
#[derive(Debug, Default)]
struct Period {
    /// Number of arrivals at the start of the period, by rail.
    arrived: [u64; MAX_RAILS],
    /// Rails that lacked space for a chunk in the period. Only these deliver at their full speed.
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

    fn on_sent(&mut self, rail: RailId, packets: u32, rails: &super::HostLoads) {
        let weight = self.weights[rail.get()] * u64::from(packets);
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
            // Takes half of the change, because one period is a small sample.
            let held = &mut self.weights[rail.get()];
            *held = held.midpoint(weight);
        }
        self.period = Period::default();
        rails.live.iter().for_each(|rail| self.period.arrived[rail.get()] = arrived(rail));
    }
}
