//! What a policy keeps per outgoing stream of a queue pair.

use crate::flows::{Ecmp, Subflows};
use crate::plb::Plb;
use crate::pro::Turn;
use crate::reps::Ring;

/// What a policy keeps per outgoing stream of a queue pair: at most 32 bytes, and for REPS and PLB a box that
/// the first pick makes. It belongs to the path set that admitted it.
#[derive(Clone, Debug)]
pub struct QpPaths {
    pub(crate) state: State,
}

#[derive(Clone, Debug)]
pub(crate) enum State {
    /// The path set keeps all that its policy needs.
    Shared,
    Ecmp(Ecmp),
    Subflow(Option<Subflows>),
    /// `None`: not invited yet (PRO, Alg. 1).
    Pro(Option<Turn>),
    Psn {
        base: u32,
    },
    Reps(Option<Box<Ring>>),
    Plb(Option<Box<Plb>>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_queue_pair_is_small() {
        assert!(size_of::<QpPaths>() <= 32, "{}", size_of::<QpPaths>());
    }
}
