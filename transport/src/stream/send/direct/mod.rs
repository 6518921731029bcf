//! Direct placement: a NIC writes segments into application memory before software checks them.
//!
//! A delayed segment with direct placement must not land once its retransmission was placed: the
//! message may have completed, and the buffer may hold other data. [`Epochs`] prevent that,
//! whatever the policy does. The [`DirectPolicy`] decides when direct placement pays; its mistakes
//! cost throughput only.

mod epochs;
mod policy;
mod probation;

use braid_wire::{PathId, Time};

use self::epochs::Epochs;
pub use self::epochs::NicEpoch;
use self::policy::DirectPolicy;
use self::probation::Probation;
use crate::DirectConfig;

/// Where the receiver may place the payload of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Placement {
    /// In a bounce buffer. [`crate::Endpoint::on_arrival`] checks it before it is copied.
    Staged {
        /// NIC queue pair that the receiver closes, unless it is closed, before it places the
        /// payload. Later writes through it cannot land any more. The receiver answers each such
        /// request with the path's epoch, even if it drops the segment, see
        /// [`crate::Endpoint::begin_epoch`].
        closes: Option<NicEpoch>,
    },
    /// In its final place: the NIC may write it at once, but only through this NIC queue pair.
    Direct(NicEpoch),
}

impl Placement {
    /// Staged, without an epoch to close.
    pub(crate) const PLAIN: Placement = Placement::Staged { closes: None };
}

/// Decides where the segments of a stream are placed.
#[derive(Clone, Debug)]
pub(crate) struct Direct<P = Probation> {
    epochs: Epochs,
    policy: P,
}

impl Direct {
    pub(crate) fn new(config: DirectConfig) -> Self {
        Direct::with_policy(Probation::new(config))
    }
}

impl<P: DirectPolicy> Direct<P> {
    fn with_policy(policy: P) -> Self {
        Direct { epochs: Epochs::default(), policy }
    }

    /// Payload bytes of a full segment; `mtu`: those of a staged one.
    // Kept out of line: datapaths without direct placement never call it.
    #[inline(never)]
    pub(crate) fn segment_len(&self, now: Time, mtu: u16) -> u16 {
        self.policy.segment_len(now, mtu)
    }

    /// Returns the placement of a first transmission with `len` bytes. The retransmission that
    /// asked to close an epoch may be lost, and it is not repeated once the original has arrived.
    /// So every staged segment on the path repeats the request until the peer has answered.
    // Kept out of line, too.
    #[inline(never)]
    pub(crate) fn place_first(&mut self, now: Time, path: PathId, len: u16) -> Placement {
        let epoch = self.epochs.current(path);
        if self.epochs.is_closing(path) {
            return Placement::Staged { closes: Some(epoch) };
        }
        match self.policy.allows(now, path, len) {
            true => Placement::Direct(epoch),
            false => Placement::PLAIN,
        }
    }

    /// Handles a segment that was staged although `epoch` was assigned to it.
    pub(crate) fn was_staged(&mut self, epoch: NicEpoch) {
        if self.epochs.is_current(epoch) {
            self.policy.on_staged(epoch.path);
        }
    }

    /// Returns the placement of a retransmission whose first transmission was placed directly in
    /// `epoch`.
    pub(crate) fn place_again(&mut self, now: Time, epoch: NicEpoch) -> Placement {
        if self.epochs.close(epoch) {
            self.policy.on_loss(now, epoch.path);
        }
        Placement::Staged { closes: Some(epoch) }
    }

    /// Handles the arrival of a first transmission that was placed directly in `epoch`.
    pub(crate) fn on_arrival(&mut self, epoch: NicEpoch) {
        if self.epochs.is_current(epoch) {
            self.policy.on_arrival(epoch.path);
        }
    }

    /// Records that the peer receives in this epoch now.
    pub(crate) fn begin(&mut self, epoch: NicEpoch) {
        if self.epochs.begin(epoch) {
            self.policy.on_epoch(epoch.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    use super::*;

    /// Places directly whenever it is safe, however little it pays.
    struct Always;

    impl DirectPolicy for Always {
        fn segment_len(&self, _: Time, mtu: u16) -> u16 {
            mtu
        }
        fn allows(&mut self, _: Time, _: PathId, _: u16) -> bool {
            true
        }
        fn on_staged(&mut self, _: PathId) {}
        fn on_arrival(&mut self, _: PathId) {}
        fn on_loss(&mut self, _: Time, _: PathId) {}
        fn on_epoch(&mut self, _: PathId) {}
    }

    /// Holds whatever the policy decides, and in whatever order losses and answers come.
    #[test]
    fn nothing_is_placed_directly_in_an_epoch_that_was_to_be_closed() {
        for seed in 0..200 {
            let mut rng = Pcg64Mcg::seed_from_u64(seed);
            let mut direct = Direct::with_policy(Always);
            let (mut sent, mut closed) = (Vec::new(), BTreeSet::new());
            for step in 0..400 {
                match rng.random_range(0..4) {
                    0 if !sent.is_empty() => {
                        let epoch: NicEpoch = sent[rng.random_range(0..sent.len())];
                        let again = direct.place_again(Time::ZERO, epoch);
                        assert_eq!(again, Placement::Staged { closes: Some(epoch) }, "seed {seed}");
                        closed.insert((epoch.path, epoch.number));
                    }
                    1 => {
                        let path = PathId::new(rng.random_range(0..3));
                        direct.begin(NicEpoch { path, number: rng.random_range(0..=step) });
                    }
                    _ => {
                        let path = PathId::new(rng.random_range(0..3));
                        if let Placement::Direct(epoch) = direct.place_first(Time::ZERO, path, 1) {
                            let was_closed = closed.contains(&(epoch.path, epoch.number));
                            assert!(!was_closed && epoch.path == path, "seed {seed}: {epoch:?}");
                            sent.push(epoch);
                        }
                    }
                }
            }
            assert!(sent.len() > 10 && !closed.is_empty(), "seed {seed} tests little");
        }
    }
}
