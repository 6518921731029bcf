//! Completion times of messages by their size.

use std::collections::BTreeMap;

use serde::Serialize;

use super::measured::{MessageTimes, ratio};
use crate::simulation::Simulation;
use crate::workload::bounds::Alone;

/// The messages of a class of sizes.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct SizeTimes {
    /// Number of messages.
    pub messages: u64,
    /// Time of a message from its start to its completion at the sender.
    pub us: MessageTimes,
    /// This time divided by that of the same message alone in the fabric
    /// ([`crate::workload::bounds::Alone`]).
    pub slowdown: MessageTimes,
}

/// Returns the completion times of each class of sizes. A class has the sizes up to its key, a
/// power of ten in bytes from 1000 on, and above the next lower one.
///
/// The second value is the slowdown of all messages together.
pub(super) fn by_size(run: &Simulation) -> (BTreeMap<u64, SizeTimes>, MessageTimes) {
    let alone = Alone::new(&run.fabric.config.frames, &run.fabric.topology);
    let mut classes: BTreeMap<u64, (Vec<f64>, Vec<f64>)> = BTreeMap::new();
    for (message, span) in run.workload().messages.iter().zip(run.spans()) {
        let took = span.took_us();
        let (times, slowdowns) = classes.entry(class(message.bytes)).or_default();
        times.push(took);
        slowdowns.push(ratio(took, alone.time(message).as_micros_f64()));
    }
    let all = classes.values().flat_map(|(_, slowdowns)| slowdowns.iter().copied()).collect();
    let times = |(class, (times, slowdowns)): (u64, (Vec<f64>, Vec<f64>))| {
        let messages = times.len() as u64;
        let (us, slowdown) = (MessageTimes::of(times), MessageTimes::of(slowdowns));
        (class, SizeTimes { messages, us, slowdown })
    };
    (classes.into_iter().map(times).collect(), MessageTimes::of(all))
}

/// Returns the least power of ten, from 1000 on, that is not below a size.
fn class(bytes: u64) -> u64 {
    let bytes = bytes.max(1000);
    let below = 10_u64.pow(bytes.ilog10());
    if below < bytes { below * 10 } else { below }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_end_at_powers_of_ten() {
        let of = [1, 999, 1000, 1001, 10_000, 1 << 30].map(class);
        assert_eq!(of, [1000, 1000, 1000, 10_000, 10_000, 10_000_000_000]);
    }
}
