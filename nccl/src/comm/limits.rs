//! How much a communicator takes at once.

use smallvec::SmallVec;

/// Most buffers of one receive: `maxRecvs`.
pub(crate) const MAX_RECVS: usize = 8;
/// Receives that can be outstanding; NCCL asks for 32. A power of two, so that numbers modulo 2^16
/// find their place in the ring.
pub(super) const MAX_GROUPS: usize = 64;
/// Sends that can be outstanding: as NCCL's own InfiniBand transport, 32 groups of 8.
pub(super) const MAX_REQUESTS: usize = 256;

/// Sizes of the messages of a request that is done.
pub(crate) type Sizes = SmallVec<[u64; MAX_RECVS]>;
