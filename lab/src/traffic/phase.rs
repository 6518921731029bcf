//! Phases of a training, which differ in the skew of the load on experts.

/// A phase of the training of a mixture of experts. The phases replace the paper's traces of
/// Mixtral 8x7B, which are not public. Each rank chooses experts by a Zipf distribution, in its own
/// order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// The first iteration, with untrained gates.
    Start,
    /// The balancing loss dominates.
    Early,
    /// Experts specialise.
    Mid,
    /// Experts have specialised.
    Stable,
}

impl Phase {
    /// All phases, in the order of training.
    pub const ALL: [Phase; 4] = [Phase::Start, Phase::Early, Phase::Mid, Phase::Stable];

    /// The name that users type.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Start => "start",
            Phase::Early => "early",
            Phase::Mid => "mid",
            Phase::Stable => "stable",
        }
    }

    /// The exponent of the Zipf distribution, chosen by this project.
    pub(crate) fn exponent(self) -> f64 {
        match self {
            Phase::Start => 0.9,
            Phase::Early => 0.3,
            Phase::Mid => 0.6,
            Phase::Stable => 0.75,
        }
    }
}
