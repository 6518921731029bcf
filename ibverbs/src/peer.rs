//! The name by which programs know a queue pair: GID and number.

use braid_verbs::abi::ibv_gid;

/// A queue pair at either end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Peer {
    pub(crate) gid: [u8; 16],
    pub(crate) number: u32,
}

impl Peer {
    pub(crate) fn new(gid: &ibv_gid, number: u32) -> Self {
        // SAFETY: both members of the union are plain bytes.
        Peer { gid: unsafe { gid.raw }, number }
    }
}
