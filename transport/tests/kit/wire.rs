//! Packets under way.

use std::collections::BTreeMap;

use braid_wire::Time;

/// Packets under way, ordered by arrival, then by departure.
#[derive(Debug)]
pub(crate) struct Wire<T> {
    packets: BTreeMap<(Time, u64), T>,
    departed: u64,
}

impl<T> Default for Wire<T> {
    fn default() -> Self {
        Wire { packets: BTreeMap::new(), departed: 0 }
    }
}

impl<T> Wire<T> {
    pub(crate) fn send(&mut self, arrives_at: Time, packet: T) {
        self.departed += 1;
        self.packets.insert((arrives_at, self.departed), packet);
    }

    /// When the next packet arrives.
    pub(crate) fn next_arrival(&self) -> Time {
        self.packets.first_key_value().map_or(Time::FAR_FUTURE, |((at, _), _)| *at)
    }

    /// Takes off the next packet that has arrived by now.
    pub(crate) fn arrive(&mut self, now: Time) -> Option<T> {
        let first = self.packets.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }
}
