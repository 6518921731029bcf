//! Handling of "receiver not ready" (RNR) NAKs: the pauses, and the count of refusals.
//!
//! The pause after a refusal stops all transmissions, and after it all segments that have not
//! arrived are sent again. So in each round the segments of a message, and later messages, are
//! refused again in any order. The stream counts the rounds in which the oldest message was
//! refused. A later message counts once the older one has arrived.
//!
//! The refusal of a segment that left before the pause belongs to the previous round, even if it
//! comes after the pause. On a long wire, or with long messages, such refusals arrive for longer
//! than many pauses take.

use braid_wire::Time;

/// The pause that a peer without a posted receive has asked for.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct ReceiverNotReady {
    /// End of the pause; nothing leaves before.
    pub(crate) paused_until: Option<Time>,
    /// After the pause only a probe leaves until something is acknowledged.
    pub(crate) awaits_receiver: bool,
    pub(crate) rounds: RnrRounds,
}

/// The rounds in which the peer refused the oldest message. Messages are numbered as in the send
/// queue.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct RnrRounds {
    /// The oldest message that was refused and had not arrived at that time.
    message: Option<u64>,
    /// Number of rounds in which that message was refused.
    rounds: u32,
    /// Whether the present round is counted.
    counted: bool,
    /// Start of the present round; `None`: it is the first.
    began: Option<Time>,
}

impl RnrRounds {
    /// Whether a refusal belongs to the present round. `stamp`: departure of the refused segment.
    pub(crate) fn is_of_round(&self, now: Time, stamp: u32) -> bool {
        self.began.is_none_or(|began| {
            // A stamp cannot represent a time that is longer ago than half of its range.
            let since = now.since_stamp(began.stamp()).max(now - began);
            now.since_stamp(stamp) <= since
        })
    }

    /// Counts a refused segment of `message`. `oldest`: the message of the oldest segment that has
    /// not arrived. Returns the number of rounds in which the message was refused, or 0 if an older
    /// message has to arrive first.
    pub(crate) fn count(&mut self, message: u64, oldest: u64) -> u32 {
        if self.message.is_none_or(|known| message < known || known < oldest) {
            *self = RnrRounds { message: Some(message), rounds: 0, counted: false, ..*self };
        }
        if self.message != Some(message) {
            return 0;
        }
        if !self.counted {
            (self.rounds, self.counted) = (self.rounds + 1, true);
        }
        self.rounds
    }

    /// Begins a round, in which the refused segments leave again.
    pub(crate) fn begin_round(&mut self, now: Time) {
        (self.counted, self.began) = (false, Some(now));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_oldest_message_counts_once_a_round() {
        let mut refusals = RnrRounds::default();
        assert_eq!([7, 7, 6, 7, 6].map(|message| refusals.count(message, 5)), [1, 1, 1, 0, 1]);
        refusals.begin_round(Time::ZERO);
        assert_eq!([7, 6, 6].map(|message| refusals.count(message, 5)), [0, 2, 2]);
    }

    #[test]
    fn another_message_begins_anew_once_the_older_one_has_arrived() {
        let mut refusals = RnrRounds::default();
        refusals.count(6, 6);
        refusals.begin_round(Time::ZERO);
        assert_eq!([7, 7].map(|message| refusals.count(message, 7)), [1, 1]);
    }

    #[test]
    fn refusals_of_segments_from_before_a_round_do_not_count_in_it() {
        let mut refusals = RnrRounds::default();
        let [left, began] = [1_000_000, 1_000_017].map(Time::from_nanos);
        assert!(refusals.is_of_round(began, left.stamp()), "it is the first");
        refusals.begin_round(began);
        for seconds in [0, 1, 30, 40, 60, 100, 1000] {
            let now = began + Duration::from_secs(seconds);
            assert!(refusals.is_of_round(now, now.stamp()), "after {seconds} s");
        }
        let later = began + Duration::from_millis(1);
        assert!(refusals.is_of_round(later, began.stamp()));
        assert!(!refusals.is_of_round(later, left.stamp()));
    }
}
