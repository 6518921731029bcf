//! The messages between ranks, sent by SEND. Data goes by WRITE, and the last WRITE of a round and
//! a rank has immediate data.

use super::error::Blame;
use super::hello::take;

/// The largest message in bytes.
pub(super) const MAX_NOTICE: usize = 64;

/// A message of one rank to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Notice {
    /// A round begins.
    Begin(Begin),
    /// The sender leaves the group after this number of rounds.
    Bye { rounds: u64 },
    /// The group has failed.
    Failed(Blame),
}

/// The begin of a round between two ranks, from the sender's view.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Begin {
    pub(super) round: u64,
    /// The bytes that the sender will send.
    pub(super) sends: u64,
    /// The bytes that the sender expects, ...
    pub(super) expects: u64,
    /// ... and the address for them.
    pub(super) addr: u64,
    pub(super) rkey: u32,
}

impl Notice {
    pub(super) fn to_bytes(self) -> Vec<u8> {
        let (kind, words) = match self {
            Notice::Begin(begin) => {
                let Begin { round, sends, expects, addr, rkey } = begin;
                (0, vec![round, sends, expects, addr, rkey.into()])
            }
            Notice::Bye { rounds } => (1, vec![rounds]),
            Notice::Failed(blame) => blame_words(blame),
        };
        [vec![kind], words.into_iter().flat_map(u64::to_be_bytes).collect()].concat()
    }

    /// Decodes a message. `None`: the message is invalid in a group of this size.
    pub(super) fn from_bytes(bytes: &[u8], size: usize) -> Option<Self> {
        let (kind, mut rest) = bytes.split_first()?;
        let mut word = || take(&mut rest).map(u64::from_be_bytes);
        let notice = match kind {
            0 => Notice::Begin(Begin {
                round: word()?,
                sends: word()?,
                expects: word()?,
                addr: word()?,
                rkey: u32::try_from(word()?).ok()?,
            }),
            1 => Notice::Bye { rounds: word()? },
            _ => Notice::Failed(read_blame(*kind, size, word)?),
        };
        rest.is_empty().then_some(notice)
    }
}

fn blame_words(blame: Blame) -> (u8, Vec<u64>) {
    match blame {
        Blame::Dead { rank } => (2, vec![rank as u64]),
        Blame::Counts { round, sender, receiver, sent, expected } => {
            (3, vec![round, sender as u64, receiver as u64, sent, expected])
        }
        Blame::Malformed { rank } => (4, vec![rank as u64]),
        Blame::Cancelled { rank, round } => (5, vec![rank as u64, round]),
        Blame::Left { rank } => (6, vec![rank as u64]),
        Blame::Memory { rank } => (7, vec![rank as u64]),
        Blame::NotPosted { rank } => (8, vec![rank as u64]),
    }
}

fn read_blame(kind: u8, size: usize, mut word: impl FnMut() -> Option<u64>) -> Option<Blame> {
    let rank = |word: u64| usize::try_from(word).ok().filter(|rank| *rank < size);
    Some(match kind {
        2 => Blame::Dead { rank: rank(word()?)? },
        3 => Blame::Counts {
            round: word()?,
            sender: rank(word()?)?,
            receiver: rank(word()?)?,
            sent: word()?,
            expected: word()?,
        },
        4 => Blame::Malformed { rank: rank(word()?)? },
        5 => Blame::Cancelled { rank: rank(word()?)?, round: word()? },
        6 => Blame::Left { rank: rank(word()?)? },
        7 => Blame::Memory { rank: rank(word()?)? },
        8 => Blame::NotPosted { rank: rank(word()?)? },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn survives_the_journey_and_nothing_else_passes() {
        let begin = Begin { round: 1, sends: 2, expects: 3, addr: u64::MAX, rkey: u32::MAX };
        let rank = 3;
        for notice in [
            Notice::Begin(begin),
            Notice::Bye { rounds: 77 },
            Notice::Failed(Blame::Dead { rank }),
            Notice::Failed(Blame::Counts {
                round: 1,
                sender: 2,
                receiver: 3,
                sent: 4,
                expected: 5,
            }),
            Notice::Failed(Blame::Malformed { rank }),
            Notice::Failed(Blame::Cancelled { rank, round: 9 }),
            Notice::Failed(Blame::Left { rank }),
            Notice::Failed(Blame::Memory { rank }),
            Notice::Failed(Blame::NotPosted { rank }),
        ] {
            let bytes = notice.to_bytes();
            assert!(bytes.len() <= MAX_NOTICE);
            assert_eq!(Notice::from_bytes(&bytes, 4), Some(notice));
            assert_eq!(Notice::from_bytes(&[&bytes[..], &[0]].concat(), 4), None);
            for cut in 0..bytes.len() {
                assert_eq!(Notice::from_bytes(&bytes[..cut], 4), None);
            }
            if matches!(notice, Notice::Failed(_)) {
                assert_eq!(Notice::from_bytes(&bytes, 3), None, "there is no rank 3");
            }
        }
        assert_eq!(Notice::from_bytes(&[9; 9], 100), None);
    }
}
