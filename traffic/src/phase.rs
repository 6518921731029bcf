//! How unevenly experts are liked in the course of a training.

/// A phase of the training of a mixture of experts, in the place of the paper's traces of Mixtral 8x7B, which are not public.
/// Each rank likes the experts by Zipf, each in an order of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// The first iteration: gates are untrained.
    Start,
    /// The balancing loss has its way.
    Early,
    /// Experts specialise.
    Mid,
    /// They have.
    Stable,
}

impl Phase {
    /// In the order of training.
    pub const ALL: [Phase; 4] = [Phase::Start, Phase::Early, Phase::Mid, Phase::Stable];

    /// As users type it.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Start => "start",
            Phase::Early => "early",
            Phase::Mid => "mid",
            Phase::Stable => "stable",
        }
    }

    /// The exponent of Zipf: this project's choice.
    pub(crate) fn exponent(self) -> f64 {
        match self {
            Phase::Start => 0.9,
            Phase::Early => 0.3,
            Phase::Mid => 0.6,
            Phase::Stable => 0.75,
        }
    }
}
