//! The configuration of a network.

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use crate::frames::Frames;
use crate::switch::Policy;
use crate::time::Rate;

/// The buffers of a switch.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Buffer {
    /// Each port has a buffer of its own. With pause frames it holds what has arrived by the port's
    /// link, otherwise what leaves by it.
    PerPort {
        /// Bytes.
        bytes: u64,
    },
    /// All ports of a switch share one buffer. A queue may use up to `alpha` times the free part
    /// (dynamic threshold, Choudhury and Hahne). With pause frames this limits what has arrived by
    /// each link instead, and pauses the link instead of dropping.
    Shared {
        /// Bytes per switch.
        bytes: u64,
        /// The factor of the dynamic threshold.
        alpha: f64,
    },
}

/// The moment at which a packet is compared with the marking thresholds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// When the packet joins the queue.
    Joining,
    /// When the packet leaves the queue.
    Leaving,
}

/// Congestion marks (ECN) by the current length of the queue in bytes, as RED does.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Marking {
    /// No packet is marked up to this length: Kmin.
    pub low: u64,
    /// Every packet is marked from this length: Kmax.
    pub high: u64,
    /// The probability just below `high`: Pmax.
    pub most: f64,
    /// The moment of the comparison.
    pub when: When,
    /// The link speed that the thresholds are meant for; other links scale them in proportion.
    /// `None`: the thresholds hold for all links.
    pub of: Option<Rate>,
}

impl Marking {
    /// Decides whether a packet that finds `queued` bytes at a link of this speed is marked.
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

/// Priority flow control: a switch pauses a neighbour that sends to it, per incoming link.
///
/// A part of the buffer, the headroom, is kept for what still arrives by each link after it was
/// paused: twice the bytes that the link holds, and two frames. So no packet is lost for want of
/// room, unless the buffer is smaller than that.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Pause {
    /// A link is paused when more than this many of its bytes are in the switch. What the buffer
    /// allows counts if that is less: with a shared one `alpha` times the free part without
    /// headroom, otherwise the port's part without headroom.
    pub stop: u64,
    /// The link resumes when no more than this many bytes are left.
    pub go: u64,
}

/// The configuration of a network.
#[derive(Clone, PartialEq, Debug)]
pub struct NetworkConfig {
    /// Frame sizes on the wire.
    pub frames: Frames,
    /// The buffers of the switches.
    pub buffer: Buffer,
    /// Congestion marks. `None`: no marks.
    pub marking: Option<Marking>,
    /// Pause frames. `None`: no pause frames.
    pub pause: Option<Pause>,
    /// Whether control packets overtake data in every switch. Otherwise they queue with the data.
    pub control_first: bool,
    /// Whether a full queue trims a packet to its header instead of dropping it.
    pub trim: bool,
    /// The policy by which switches choose among equal routes.
    pub policy: Policy,
    /// Whether control packets are routed by hash, as with [`Policy::Ecmp`], whatever the policy
    /// does with data.
    pub control_hashed: bool,
}

impl NetworkConfig {
    /// A network with queues only: no marks, no pause frames, no trimming. Control packets overtake
    /// data and follow the same policy.
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
