//! The connection of a queue pair, and the sends that wait for it.

use std::collections::VecDeque;
use std::time::Instant;

use braid::SendWr;

use crate::peer::Peer;

/// A send that waits for the connection, with a copy of its inline data.
pub(crate) struct Held {
    pub(crate) wr: SendWr,
    pub(crate) inline: Option<Vec<u8>>,
}

/// The connection of a queue pair.
///
/// Invariant: nothing is held once the engine takes sends.
#[derive(Default)]
pub(crate) struct QpConnection {
    /// The own end and the other one, as the program has named them. Known from RTR on.
    pub(crate) ends: Option<(Peer, Peer)>,
    pub(crate) is_connected: bool,
    /// The other end speaks plain RoCEv2.
    pub(crate) is_roce: bool,
    /// rdma_cm has found out that the other end is not Braid.
    pub(crate) is_roce_expected: bool,
    /// The receiving end of a queue pair that is connected to itself.
    pub(crate) twin: Option<braid::QueuePair>,
    /// The number of the attempt to connect. Results of earlier attempts are ignored.
    pub(crate) attempt: u64,
    pub(super) held: VecDeque<Held>,
    /// The time at which the held sends fail.
    pub(crate) deadline: Option<Instant>,
}
