//! How often the peer has said "receiver not ready" to one message.
//!
//! The pause that follows holds up all that goes out, and afterwards all of it goes out again. So in every round the
//! segments of a message, and the messages behind it, are refused anew, in any order: what counts is in how many rounds
//! the oldest message was. A younger one counts once that has arrived.

/// Messages are numbered as the send queue numbers its work requests.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Refusals {
    /// The oldest message that was refused and had not arrived then.
    message: Option<u64>,
    /// Rounds in which it was refused.
    rounds: u32,
    /// This one is among them.
    counted: bool,
}

impl Refusals {
    /// A segment of this message is refused; `oldest`: the message of the oldest segment that has not arrived. Returns
    /// in how many rounds the message was refused, 0 if an older one has to arrive first.
    pub(crate) fn count(&mut self, message: u64, oldest: u64) -> u32 {
        if self.message.is_none_or(|known| message < known || known < oldest) {
            *self = Refusals { message: Some(message), rounds: 0, counted: false };
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
    pub(crate) fn begin_round(&mut self) {
        self.counted = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_message_counts_once_a_round() {
        let mut refusals = Refusals::default();
        assert_eq!([7, 7, 6, 7, 6].map(|message| refusals.count(message, 5)), [1, 1, 1, 0, 1]);
        refusals.begin_round();
        assert_eq!([7, 6, 6].map(|message| refusals.count(message, 5)), [0, 2, 2]);
    }

    #[test]
    fn another_message_begins_anew_once_the_older_one_has_arrived() {
        let mut refusals = Refusals::default();
        refusals.count(6, 6);
        refusals.begin_round();
        assert_eq!([7, 7].map(|message| refusals.count(message, 7)), [1, 1]);
    }
}
