//! Consecutive PSNs.

use braid_wire::Psn;

/// The PSNs of a run: `count` from `first` on, at least one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PsnRun {
    pub(crate) first: Psn,
    pub(crate) count: u32,
}

impl PsnRun {
    pub(crate) fn last(self) -> Psn {
        self.first.plus(u64::from(self.count) - 1)
    }

    pub(crate) fn contains(self, psn: Psn) -> bool {
        psn.ahead_of(self.first).is_some_and(|ahead| ahead < self.count.into())
    }
}

impl From<Psn> for PsnRun {
    fn from(psn: Psn) -> Self {
        PsnRun { first: psn, count: 1 }
    }
}
