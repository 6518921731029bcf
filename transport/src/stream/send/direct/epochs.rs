//! Epochs, which keep direct placement safe: the NIC queue pair of a path that is in use, and those
//! that are closed.
//!
//! Only the first transmission of a WRITE's payload is placed directly. The retransmission of such
//! a segment names the NIC queue pair that the first one was sent to, and the receiver closes that
//! before it places the retransmission.

use braid_wire::PathId;

use crate::stream::per_path::PerPath;

/// One NIC queue pair of a path, from when it was made until it is closed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct NicEpoch {
    /// The path.
    pub path: PathId,
    /// Number of NIC queue pairs that the path had before this one.
    pub number: u32,
}

/// The NIC queue pairs of the paths, as far as the sender of a stream knows.
///
/// Invariant: an epoch `is_closing` from when the peer was first asked to close it until a newer
/// one is heard of. Epochs only grow. So nothing that is sent in the current epoch while it is not
/// closing is ever sent in one that was closed.
#[derive(Clone, Default, Debug)]
pub(super) struct Epochs {
    paths: PerPath<Latest>,
}

#[derive(Clone, Copy, Default, Debug)]
struct Latest {
    number: u32,
    is_closing: bool,
}

impl Epochs {
    fn latest(&mut self, path: PathId) -> &mut Latest {
        self.paths.entry(path)
    }

    /// The latest that is known.
    pub(super) fn current(&mut self, path: PathId) -> NicEpoch {
        NicEpoch { path, number: self.latest(path).number }
    }

    pub(super) fn is_current(&mut self, epoch: NicEpoch) -> bool {
        self.latest(epoch.path).number == epoch.number
    }

    /// Whether the peer was asked to close the current one.
    pub(super) fn is_closing(&mut self, path: PathId) -> bool {
        self.latest(path).is_closing
    }

    /// The peer is asked to close it. Whether that is the first time, and it is the current one.
    pub(super) fn close(&mut self, epoch: NicEpoch) -> bool {
        let latest = self.latest(epoch.path);
        let is_first = latest.number == epoch.number && !latest.is_closing;
        latest.is_closing |= is_first;
        is_first
    }

    /// The peer receives in this one now. Whether that is news: word of older ones may come late.
    pub(super) fn begin(&mut self, epoch: NicEpoch) -> bool {
        let latest = self.latest(epoch.path);
        let is_newer = epoch.number > latest.number;
        if is_newer {
            *latest = Latest { number: epoch.number, is_closing: false };
        }
        is_newer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: PathId = PathId::new(7);

    fn epoch(number: u32) -> NicEpoch {
        NicEpoch { path: PATH, number }
    }

    #[test]
    fn an_epoch_is_closed_once_and_ends_with_a_newer_one() {
        let mut epochs = Epochs::default();
        assert_eq!((epochs.current(PATH), epochs.is_closing(PATH)), (epoch(0), false));
        assert_eq!(epochs.paths.iter().count(), 8, "as many as are used");
        assert!(epochs.close(epoch(0)) && epochs.is_closing(PATH));
        assert!(!epochs.close(epoch(0)), "it is closing already");
        assert!(!epochs.begin(epoch(0)), "nothing new");
        assert!(epochs.begin(epoch(4)) && !epochs.is_closing(PATH));
        assert!(!epochs.close(epoch(3)), "it has ended before");
        assert!(!epochs.begin(epoch(2)) && epochs.is_current(epoch(4)), "late word of an old one");
        assert!(!epochs.is_closing(PathId::new(1)), "another path");
    }
}
