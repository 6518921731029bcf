//! Output of an endpoint that the driver has not taken yet.

use std::collections::VecDeque;

use crate::{Disconnect, Ended, Event};

/// The queues that the driver drains, apart from the packets.
#[derive(Default, Debug)]
pub(super) struct Outputs {
    /// Work requests that have ended.
    pub(super) ended: VecDeque<Ended>,
    pub(super) events: VecDeque<Event>,
    /// DISCONNECTs of queue pairs that have ended.
    pub(super) disconnects: VecDeque<Disconnect>,
}
