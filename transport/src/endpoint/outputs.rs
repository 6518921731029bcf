//! Output of an endpoint that the driver has not taken yet.

use std::collections::VecDeque;

use braid_wire::{RailId, Stream};

use crate::{Disconnect, Ended, Event};

/// The queues that the driver drains, apart from the packets.
#[derive(Default, Debug)]
pub(super) struct Outputs {
    /// Work requests that have ended.
    pub(super) ended: VecDeque<Ended>,
    pub(super) events: VecDeque<Event>,
    /// Grants of credit: the queue pair, its stream and the rail.
    pub(super) grants: VecDeque<(u32, Stream, RailId)>,
    /// DISCONNECTs of queue pairs that have ended.
    pub(super) disconnects: VecDeque<Disconnect>,
}
