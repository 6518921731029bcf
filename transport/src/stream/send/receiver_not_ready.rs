//! How often the peer has said "receiver not ready" to one message.
//!
//! The pause that follows holds up all that goes out, and afterwards all of it goes out again. So in every round the
//! segments of a message, and the messages behind it, are refused anew, in any order: what counts is in how many rounds
//! the oldest message was. A younger one counts once that has arrived.
//!
//! What left before the pause may be refused after it: those refusals are of the round before. On a long wire, or where a message is long, they
//! come in for longer than many pauses take.

use braid_wire::Time;

/// The pause that a peer without a posted receive asked for.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct ReceiverNotReady {
    /// Nothing leaves before this time.
    pub(crate) paused_until: Option<Time>,
    /// After the pause only a probe leaves, until something is acknowledged.
    pub(crate) awaits_receiver: bool,
    pub(crate) rounds: RnrRounds,
}

/// Messages are numbered as the send queue numbers its work requests.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct RnrRounds {
    /// The oldest message that was refused and had not arrived then.
    message: Option<u64>,
    /// Rounds in which it was refused.
    rounds: u32,
    /// This one is among them.
    counted: bool,
    /// When this one began; `None`: it is the first.
    began: Option<Time>,
}

impl RnrRounds {
    /// Whether a refusal is of this round; `stamp`: when what it answers left.
    pub(crate) fn is_of_round(&self, now: Time, stamp: u32) -> bool {
        self.began.is_none_or(|began| {
            // A stamp cannot tell an instant that is longer ago than half of its span.
            let since = now.since_stamp(began.stamp()).max(now - began);
            now.since_stamp(stamp) <= since
        })
    }

    /// A segment of this message is refused; `oldest`: the message of the oldest segment that has not arrived. Returns
    /// in how many rounds the message was refused, 0 if an older one has to arrive first.
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

    /// What was refused goes out again.
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
    fn what_left_before_a_round_is_not_refused_in_it_however_long_it_lasts() {
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
