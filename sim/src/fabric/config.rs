//! How a network behaves.

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use crate::frames::Frames;
use crate::switch::Policy;
use crate::time::Rate;

/// How much may wait.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Buffer {
    /// Each port has its own.
    PerPort {
        /// Bytes.
        bytes: u64,
    },
    /// All ports of a switch share one; a queue may take `alpha` times what is free (dynamic threshold,
    /// Choudhury and Hahne).
    Shared {
        /// Bytes of the switch.
        bytes: u64,
        /// The factor.
        alpha: f64,
    },
}

/// When a packet is compared with the thresholds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// As it joins the queue.
    Joining,
    /// As it leaves the queue.
    Leaving,
}

/// Congestion marks (ECN), by the bytes in the queue, as RED does with the current length.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Marking {
    /// None up to here: Kmin.
    pub low: u64,
    /// All from here: Kmax.
    pub high: u64,
    /// The probability just below `high`: Pmax.
    pub most: f64,
    /// When.
    pub when: When,
    /// The thresholds are those of a link of this speed, and in proportion those of others; `None`: they hold for all.
    pub of: Option<Rate>,
}

impl Marking {
    /// Whether a packet that meets `queued` bytes at a link of this speed is marked.
    pub fn marks(&self, queued: u64, rate: Rate, rng: &mut Pcg64Mcg) -> bool {
        let queued = self.of.map_or(queued, |of| {
            let scaled = u128::from(queued) * u128::from(of.bps()) / u128::from(rate.bps());
            u64::try_from(scaled).unwrap_or(u64::MAX)
        });
        if queued <= self.low {
            return false;
        }
        if queued >= self.high {
            return true;
        }
        let share = (queued - self.low) as f64 / (self.high - self.low) as f64;
        rng.random::<f64>() < share * self.most
    }
}

/// Priority flow control: a switch stops who sends to it, per incoming link.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Pause {
    /// A link is stopped when it has more than this many bytes in the switch, or with a shared buffer
    /// more than `alpha` times what is free, if that is less.
    pub stop: u64,
    /// It goes on when it has no more than this.
    pub go: u64,
}

/// How a network behaves.
#[derive(Clone, PartialEq, Debug)]
pub struct NetworkConfig {
    /// Sizes on the wire.
    pub frames: Frames,
    /// Room for packets that wait in switches.
    pub buffer: Buffer,
    /// Congestion marks, if any.
    pub marking: Option<Marking>,
    /// Pause frames, if any.
    pub pause: Option<Pause>,
    /// Control packets go first in every switch; else they queue with the data.
    pub control_first: bool,
    /// A full queue cuts the payload off instead of dropping.
    pub trim: bool,
    /// How switches choose among equal routes.
    pub policy: Policy,
    /// Control goes by hash, as under [`Policy::Ecmp`], whatever the policy says of data.
    pub control_hashed: bool,
}

impl NetworkConfig {
    /// Queues and nothing else: no marks, no pause frames, no trimming; control goes before data, by the same policy.
    pub const fn plain(frames: Frames, buffer: Buffer, policy: Policy) -> NetworkConfig {
        NetworkConfig {
            frames,
            buffer,
            marking: None,
            pause: None,
            control_first: true,
            trim: false,
            policy,
            control_hashed: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn thresholds_follow_the_speed_of_the_link_if_they_are_of_one() {
        let of = Some(Rate::from_gbps(100));
        let marking = Marking { low: 400, high: 400, most: 1.0, when: When::Leaving, of };
        let mut rng = Pcg64Mcg::seed_from_u64(1);
        let mut marks =
            |marking: Marking, bytes, gbps| marking.marks(bytes, Rate::from_gbps(gbps), &mut rng);
        assert!(!marks(marking, 400, 100) && marks(marking, 401, 100));
        assert!(!marks(marking, 200, 50) && marks(marking, 201, 50));
        assert!(!marks(Marking { of: None, ..marking }, 400, 50));
    }
}
