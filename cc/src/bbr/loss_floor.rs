//! The loss floor: the loss rate of a path whose links lose packets at random.
//!
//! Between two probes for bandwidth, the draft lowers the rate by the share of lost packets in each
//! round trip (section 5.3.3.8.3). A loss rate above 2 % is too high (section 5.5.10.2). On a path
//! that loses more than that by itself, the rate would decay to nothing.
//!
//! This crate's answer is not part of the draft. If a round trip finds the queue empty, and the
//! sender does not exceed the delivery rate, its losses are not due to a queue. So only losses
//! beyond them count.
//!
//! The floor is the median loss rate of the latest eight blocks of a few hundred packets. TCP's
//! losses come in bursts at the peaks of its window, so they hardly raise it.

use std::time::Duration;

use braid_wire::Time;

/// Minimum length of a block. Each of the three limits has to be reached, so that the error of a
/// block's loss rate is small.
const BLOCK: Duration = Duration::from_millis(100);
const ROUNDS: u32 = 4;
const PACKETS: f64 = 512.0;
/// Number of blocks.
const BLOCKS: usize = 8;
/// Minimum number of packets that tell the floor at the end of Startup.
const START_PACKETS: f64 = 64.0;
/// Maximum floor. A higher loss rate is congestion, whatever it seems to be.
const MAX: f64 = 0.1;
/// Standard deviations by which the losses of a round trip may exceed their mean.
const DEVIATIONS: f64 = 4.0;
/// As above, for a mean at the threshold. In a window of few packets, one loss exceeds each
/// threshold.
const THRESHOLD_DEVIATIONS: f64 = 2.0;

#[derive(Clone, Copy, Debug)]
pub(super) struct LossFloor {
    is_on: bool,
    /// Length of a packet in bytes.
    packet: f64,
    rate: f64,
    /// The current round trip, and in Startup the one before.
    round: Volume,
    before: Volume,
    block: Block,
    /// The loss rates of the latest blocks.
    rates: [f64; BLOCKS],
    /// Number of blocks so far.
    count: usize,
}

/// Bytes that were delivered and lost.
#[derive(Clone, Copy, Default, Debug)]
struct Volume {
    delivered: f64,
    lost: f64,
}

impl Volume {
    fn add(&mut self, other: Volume) {
        self.delivered += other.delivered;
        self.lost += other.lost;
    }

    fn loss_rate(&self) -> f64 {
        (self.lost / (self.delivered + self.lost).max(1.0)).clamp(0.0, MAX)
    }
}

/// Round trips in which the sender did not exceed the delivery rate.
#[derive(Clone, Copy, Default, Debug)]
struct Block {
    volume: Volume,
    took: Duration,
    rounds: u32,
    /// End of the latest round trip, unless another phase began there.
    since: Option<Time>,
}

impl LossFloor {
    pub(super) fn new(is_on: bool, packet: f64) -> Self {
        LossFloor {
            is_on,
            packet,
            rate: 0.0,
            round: Volume::default(),
            before: Volume::default(),
            block: Block::default(),
            rates: [0.0; BLOCKS],
            count: 0,
        }
    }

    /// Returns the share of bytes that the path loses by itself.
    pub(super) fn get(&self) -> f64 {
        self.rate
    }

    /// Returns the volume of losses among `bytes` that is no sign of congestion: `threshold` beyond
    /// the floor.
    pub(super) fn allowance(&self, bytes: f64, threshold: f64) -> f64 {
        let (mean, tolerated) = (self.rate * bytes, threshold * bytes);
        if !self.is_on {
            return tolerated;
        }
        let deviation = |mean: f64| (mean * self.packet).sqrt();
        let usual = DEVIATIONS * deviation(mean);
        mean + tolerated + usual.max(THRESHOLD_DEVIATIONS * deviation(mean + tolerated))
    }

    pub(super) fn on_delivered(&mut self, bytes: u64) {
        self.round.delivered += bytes as f64;
    }

    pub(super) fn on_lost(&mut self, bytes: u64) {
        self.round.lost += bytes as f64;
    }

    /// Takes losses back that were none.
    pub(super) fn on_spurious(&mut self, packets: u64) {
        let bytes = packets as f64 * self.packet;
        let now = bytes.min(self.round.lost);
        self.round.lost -= now;
        self.block.volume.lost = (self.block.volume.lost - (bytes - now)).max(0.0);
    }

    /// Ends a round trip in Startup. `grows`: whether the delivery rate has grown in it. Then the
    /// pipe was not full in the round trip before, whose losses had another cause.
    pub(super) fn on_start_round(&mut self, grows: bool) {
        let round = std::mem::take(&mut self.round);
        let before = std::mem::replace(&mut self.before, round);
        if grows {
            self.block.volume.add(before);
        }
    }

    /// Ends Startup: the losses of its round trips are the first floor.
    pub(super) fn on_started(&mut self) {
        let Block { volume, .. } = std::mem::take(&mut self.block);
        if self.is_on && self.count == 0 && volume.delivered >= START_PACKETS * self.packet {
            self.rate = volume.loss_rate();
        }
    }

    /// Ends a round trip after Startup. `counts`: whether the sender has not exceeded the delivery
    /// rate.
    pub(super) fn on_round(&mut self, now: Time, counts: bool) {
        let round = std::mem::take(&mut self.round);
        if !counts {
            self.block.since = None;
            return;
        }
        let block = &mut self.block;
        block.volume.add(round);
        block.rounds += 1;
        if let Some(since) = block.since.replace(now) {
            block.took += now - since;
        }
        let is_long = block.took >= BLOCK && block.rounds >= ROUNDS;
        if self.is_on && is_long && block.volume.delivered >= PACKETS * self.packet {
            self.rates[self.count % BLOCKS] = block.volume.loss_rate();
            self.count += 1;
            let mut rates = self.rates;
            let known = &mut rates[..self.count.min(BLOCKS)];
            let middle = (known.len() - 1) / 2;
            self.rate = *known.select_nth_unstable_by(middle, f64::total_cmp).1;
            self.block = Block { since: Some(now), ..Block::default() };
        }
    }
}
