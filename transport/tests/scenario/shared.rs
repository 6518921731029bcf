//! A shared receive queue: receives that all queue pairs of a host take from, each when a message
//! for it begins to arrive.

use std::collections::VecDeque;

use braid_transport::{Arrival, Endpoint, QpSlot, RecvWr};
use braid_wire::Time;

use super::memory::{AreaId, HostMemory, State};

/// The model checks each message against a receive of its own. So the application posts only a
/// place in the queue, and a queue pair that takes one gets its next planned receive.
pub(crate) struct SharedReceives {
    capacity: usize,
    /// Places that no message has begun to fill.
    left: usize,
    by_link: Vec<Share>,
}

#[derive(Default)]
struct Share {
    planned: VecDeque<(RecvWr, Vec<AreaId>)>,
    /// Taken, and not ended.
    held: usize,
    /// Taken since [`SharedReceives::taken`] was asked.
    fresh: usize,
}

impl SharedReceives {
    pub(crate) fn new(capacity: usize) -> Self {
        SharedReceives { capacity, left: 0, by_link: Vec::new() }
    }

    /// The next queue pair will take these.
    pub(crate) fn plan(&mut self, receives: impl Iterator<Item = (RecvWr, Vec<AreaId>)>) {
        self.by_link.push(Share { planned: receives.collect(), ..Share::default() });
    }

    /// Posts a receive. False: the queue is full.
    pub(crate) fn post(&mut self) -> bool {
        let held: usize = self.by_link.iter().map(|share| share.held).sum();
        let has_room = self.left + held < self.capacity;
        self.left += usize::from(has_room);
        has_room
    }

    /// Posts the receives that packets need, as the engine does before it hands them in.
    pub(crate) fn serve(
        &mut self,
        now: Time,
        link: usize,
        (endpoint, slot): (&mut Endpoint, QpSlot),
        arrival: &Arrival<'_>,
        memory: &mut HostMemory,
    ) {
        let share = &mut self.by_link[link];
        for _ in 0..endpoint.qp(slot).shared_receives(arrival, share.held, self.left) {
            let (wr, areas) = share.planned.pop_front().expect("a receive for every message");
            areas.iter().for_each(|area| memory.set_state(*area, State::Open));
            endpoint.post_recv(now, slot, wr).expect("its own queue has room");
            self.left -= 1;
            (share.held, share.fresh) = (share.held + 1, share.fresh + 1);
        }
    }

    /// Returns the number of receives that a queue pair has taken since the last call.
    pub(crate) fn taken(&mut self, link: usize) -> usize {
        std::mem::take(&mut self.by_link[link].fresh)
    }

    pub(crate) fn on_ended(&mut self, link: usize) {
        self.by_link[link].held -= 1;
    }
}
