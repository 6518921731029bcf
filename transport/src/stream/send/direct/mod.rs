//! Direct placement: a NIC writes segments into application memory before any software has looked
//! at them.
//!
//! A segment placed directly that the network has delayed must not land once its retransmission was
//! placed: the message may have completed since, and the buffer may hold something else. [`Epochs`]
//! keep that from happening, whatever the policy. The [`DirectPolicy`] says when direct placement
//! pays, and harms nobody if it is wrong.

mod epochs;
mod policy;
mod probation;

use braid_wire::{PathId, Time};

use self::epochs::Epochs;
pub use self::epochs::NicEpoch;
use self::policy::DirectPolicy;
use self::probation::Probation;
use crate::DirectConfig;

/// Where the payload of a segment may go on arrival.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Placement {
    /// Into a bounce buffer, to be checked by [`crate::Endpoint::on_arrival`] and then copied.
    Staged {
        /// The receiver closes this NIC queue pair before it places the payload, unless it is
        /// closed: later writes through it can land no more. Whatever becomes of the segment, and
        /// however often it is asked, the receiver answers with the path's epoch, see
        /// [`crate::Endpoint::begin_epoch`].
        closes: Option<NicEpoch>,
    },
    /// The NIC may write it where it belongs at once, through this NIC queue pair and no other.
    Direct(NicEpoch),
}

impl Placement {
    /// Staged, with nothing to close.
    pub(crate) const PLAIN: Placement = Placement::Staged { closes: None };
}

/// Where the segments of a stream are placed.
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

    /// Payload bytes of a full segment, where one that is staged has `mtu`.
    // Not in the way of datapaths without direct placement.
    #[inline(never)]
    pub(crate) fn segment_len(&self, now: Time, mtu: u16) -> u16 {
        self.policy.segment_len(now, mtu)
    }

    /// Returns where the payload of a first transmission, of `len` bytes, goes. The retransmission
    /// that was to close an epoch may be lost, and never repeated because the original has arrived.
    /// So every staged segment on the path repeats the request until the peer has answered.
    // Not in the way either.
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

    /// A segment that was to be placed directly in `epoch` was staged.
    pub(crate) fn was_staged(&mut self, epoch: NicEpoch) {
        if self.epochs.is_current(epoch) {
            self.policy.on_staged(epoch.path);
        }
    }

    /// A segment that was sent to be placed directly in `epoch` is sent again.
    pub(crate) fn place_again(&mut self, now: Time, epoch: NicEpoch) -> Placement {
        if self.epochs.close(epoch) {
            self.policy.on_loss(now, epoch.path);
        }
        Placement::Staged { closes: Some(epoch) }
    }

    /// The first transmission of a segment that was placed directly in `epoch` has arrived.
    pub(crate) fn on_arrival(&mut self, epoch: NicEpoch) {
        if self.epochs.is_current(epoch) {
            self.policy.on_arrival(epoch.path);
        }
    }

    /// The peer receives in this epoch now.
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

    /// Direct placement whenever it is safe, however little it pays.
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

    /// Whatever the policy wants, and in whatever order losses and answers come.
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
