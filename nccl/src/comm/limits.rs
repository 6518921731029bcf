//! The limits of a communicator.

use smallvec::SmallVec;

/// Maximum number of buffers of one receive: `maxRecvs`.
pub(crate) const MAX_RECVS: usize = 8;
/// Maximum number of outstanding receives; NCCL needs 32. A power of two, so that numbers modulo
/// 2^16 map to the ring.
pub(super) const MAX_GROUPS: usize = 64;
/// Maximum number of outstanding sends: 32 groups of 8, as in NCCL's own InfiniBand transport.
pub(super) const MAX_REQUESTS: usize = 256;

/// Lengths of the messages of a completed request.
pub(crate) type Sizes = SmallVec<[u64; MAX_RECVS]>;
