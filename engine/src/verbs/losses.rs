//! Decides whether messages of several NIC packets pay off.
//!
//! A UC queue pair drops a message if one of its packets is lost or overtaken, and Soft-RoCE also
//! drops the next message. If losses are frequent, parts of one packet each lose no more than the
//! lost packets.

use std::time::Duration;

use braid_wire::Time;

/// The number of messages after which the decision is made.
const ROUND: u32 = 128;
/// Losses are frequent if one message of this number is sent again, which costs about as much as
/// messages of two packets save.
const FREQUENT: u32 = 8;
/// Time for which losses are considered frequent.
const MEMORY: Duration = Duration::from_secs(1);

/// The losses among a connection's messages of several packets.
#[derive(Default)]
pub(crate) struct Losses {
    messages: u32,
    again: u32,
    frequent_until: Time,
}

impl Losses {
    /// Counts a message. `again`: it is a retransmission.
    pub(crate) fn count(&mut self, now: Time, again: bool) {
        self.messages += 1;
        self.again += u32::from(again);
        if self.messages < ROUND {
            return;
        }
        if self.again * FREQUENT >= self.messages {
            self.frequent_until = now + MEMORY;
        }
        (self.messages, self.again) = (0, 0);
    }

    /// Whether losses have been frequent recently.
    pub(crate) fn are_frequent(&self, now: Time) -> bool {
        now < self.frequent_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    fn send(losses: &mut Losses, now: Time, every: u32) {
        (1..=ROUND).for_each(|n| losses.count(now, n % every == 0));
    }

    #[test]
    fn one_of_eight_is_frequent_for_a_second() {
        let mut losses = Losses::default();
        send(&mut losses, at(0), FREQUENT + 1);
        assert!(!losses.are_frequent(at(0)));
        send(&mut losses, at(5), FREQUENT);
        assert!(losses.are_frequent(at(5)));
        send(&mut losses, at(500), ROUND + 1);
        assert!(losses.are_frequent(at(1004)), "that it has become better may be due to the parts");
        assert!(!losses.are_frequent(at(1005)));
        send(&mut losses, at(1100), FREQUENT + 1);
        assert!(!losses.are_frequent(at(1100)), "of the rounds before nothing is left");
    }
}
