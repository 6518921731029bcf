//! Epochs, which keep direct placement safe: for each path, the NIC queue pair in use. Earlier ones
//! are closed.
//!
//! Only the first transmission of a WRITE's payload is placed directly. Its retransmission names
//! the NIC queue pair that the first transmission was sent to. The receiver closes that NIC queue
//! pair before it places the retransmission.

use braid_wire::PathId;

use crate::stream::per_path::PerPath;

/// One NIC queue pair of a path, from its creation until it is closed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct NicEpoch {
    /// The path.
    pub path: PathId,
    /// Number of NIC queue pairs that the path had before this one.
    pub number: u32,
}

/// The NIC queue pairs of the paths, as known to the sender of a stream.
///
/// Invariant: an epoch `is_closing` from the first request to close it until a newer one is
/// reported. Epoch numbers only grow. So nothing is sent for direct placement in an epoch that the
/// peer may have closed.
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

    /// The latest known epoch of a path.
    pub(super) fn current(&mut self, path: PathId) -> NicEpoch {
        NicEpoch { path, number: self.latest(path).number }
    }

    pub(super) fn is_current(&mut self, epoch: NicEpoch) -> bool {
        self.latest(epoch.path).number == epoch.number
    }

    /// Whether the peer was asked to close the current epoch.
    pub(super) fn is_closing(&mut self, path: PathId) -> bool {
        self.latest(path).is_closing
    }

    /// Records that the peer is asked to close an epoch. Returns whether this is the first request
    /// and the epoch is the current one.
    pub(super) fn close(&mut self, epoch: NicEpoch) -> bool {
        let latest = self.latest(epoch.path);
        let is_first = latest.number == epoch.number && !latest.is_closing;
        latest.is_closing |= is_first;
        is_first
    }

    /// Records that the peer receives in this epoch. Returns false if the epoch is not newer than
    /// the known one, because the report came late.
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
