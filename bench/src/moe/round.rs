//! A round of a contestant at one rank: dispatch, then combine.
//!
//! The memory of a rank has its own tokens, then places for copies that it receives, then places
//! for copies that come back. All ranks have the same layout. A signal follows the puts of an
//! expert: a word that grows by the number of copies, so that the other end knows when all have
//! arrived. Words never go back to 0.

use std::time::{Duration, Instant};

use super::routing::{Routing, TokenCopy};
use crate::failure::Failure;
use crate::pattern;

/// Maximum duration of a round.
const PATIENCE: Duration = Duration::from_secs(120);

/// An operation on the memory of a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Op {
    /// Copies a token's bytes from an offset of the own memory to one of the peer's.
    Put { from: usize, to: usize },
    /// Adds to a word of the peer, after all earlier puts to it.
    Signal { word: usize, add: u64 },
}

/// The memory and words of a rank.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// Bytes of a token.
    pub(super) size: usize,
    /// Offsets of received copies and of those that come back.
    received: usize,
    returned: usize,
    pub(super) bytes: usize,
    /// Words: the experts of this rank for dispatch, then all experts for combine.
    pub(super) words: usize,
}

impl Layout {
    pub(super) fn new(routing: &Routing, tokens: usize, size: usize) -> Layout {
        let (most_sent, most_received) = routing.most;
        let received = tokens * size;
        let returned = received + most_received * size;
        let words = routing.experts + routing.ranks * routing.experts;
        Layout { size, received, returned, bytes: returned + most_sent * size, words }
    }
}

/// A way to reach the memory of the other ranks.
pub(super) trait Puts {
    /// Queues an operation. Those to one peer take effect in order.
    fn post(&mut self, peer: usize, op: Op);
    /// Moves what can be moved, and may wait for a short time if nothing can.
    fn progress(&mut self) -> Result<(), Failure>;
    /// Sends what the peers wait for, because nothing is moved until the next round.
    fn pause(&mut self) {}
    /// Whether all operations have left the own memory.
    fn is_quiet(&self) -> bool;
    fn word(&self, word: usize) -> Result<u64, Failure>;
    fn write(&mut self, at: usize, bytes: &[u8]) -> Result<(), Failure>;
    fn read(&self, at: usize, bytes: &mut [u8]) -> Result<(), Failure>;
}

/// Returns the free place of a rank that has connected to this one: only higher ranks do.
pub(super) fn place_of<T>(
    places: &mut [Option<T>],
    higher: usize,
    own: usize,
) -> Result<&mut Option<T>, Failure> {
    let place = places.get_mut(higher).filter(|place| place.is_none() && higher > own);
    place.ok_or_else(|| Failure::Peer(format!("says that it is rank {higher}")))
}

/// Half a round: operations to post, and the words that grow by the copies of the others.
struct Half {
    ops: Vec<(usize, Op)>,
    awaited: Vec<(usize, u64)>,
}

/// The rounds of one rank.
pub(super) struct Rounds {
    own: usize,
    layout: Layout,
    sent: Vec<TokenCopy>,
    received: Vec<TokenCopy>,
    halves: [Half; 2],
}

impl Rounds {
    pub(super) fn new(routing: &Routing, layout: Layout, own: usize) -> Rounds {
        let (sent, received) = (routing.from(own), routing.to(own));
        let place = |copy: &TokenCopy| layout.received + copy.received * layout.size;
        let dispatch = sent
            .iter()
            .map(|copy| (copy.home, Op::Put { from: copy.token * layout.size, to: place(copy) }));
        let combine = received.iter().map(|copy| {
            let to = layout.returned + copy.sent * layout.size;
            (copy.source, Op::Put { from: place(copy), to })
        });
        let experts = routing.experts;
        let here = |copy: &TokenCopy| copy.expert % experts;
        let there = |copy: &TokenCopy| experts + copy.expert;
        let dispatch = dispatch.chain(signals(&sent, |copy| (copy.home, here(copy))));
        let combine = combine.chain(signals(&received, |copy| (copy.source, there(copy))));
        let halves = [
            Half { ops: dispatch.collect(), awaited: counts(received.iter().map(here)) },
            Half { ops: combine.collect(), awaited: counts(sent.iter().map(there)) },
        ];
        Rounds { own, layout, sent, received, halves }
    }

    /// Runs a round; `before` rounds of this contestant have been run.
    pub(super) fn run(&self, puts: &mut dyn Puts, before: u64) -> Result<(), Failure> {
        for half in &self.halves {
            half.ops.iter().for_each(|(peer, op)| puts.post(*peer, *op));
            let deadline = Instant::now() + PATIENCE;
            let mut left = half.awaited.iter();
            let mut next = left.next();
            loop {
                puts.progress()?;
                while let Some((word, count)) = next
                    && puts.word(*word)? >= (before + 1) * count
                {
                    next = left.next();
                }
                if next.is_none() && puts.is_quiet() {
                    break;
                }
                if Instant::now() > deadline {
                    return Err(Failure::Stalled(PATIENCE));
                }
            }
        }
        puts.pause();
        Ok(())
    }

    /// Gives the tokens bytes of their own, and clears the places of copies.
    pub(super) fn fill(&self, puts: &mut dyn Puts, round: u64) -> Result<(), Failure> {
        let size = self.layout.size;
        let mut bytes = vec![0; size];
        for token in 0..self.layout.received / size {
            pattern::fill(&mut bytes, self.own, message(round, token));
            puts.write(token * size, &bytes)?;
        }
        puts.write(self.layout.received, &vec![0; self.layout.bytes - self.layout.received])
    }

    /// Checks every byte of the copies that have arrived and come back.
    pub(super) fn check(&self, puts: &dyn Puts, round: u64) -> Result<(), Failure> {
        let Layout { size, received, returned, .. } = self.layout;
        let (mut bytes, mut expected) = (vec![0; size], Vec::new());
        let arrived = self.received.iter().map(|copy| (received + copy.received * size, copy));
        let back = self.sent.iter().map(|copy| (returned + copy.sent * size, copy));
        for (at, copy) in arrived.chain(back) {
            puts.read(at, &mut bytes)?;
            pattern::check(&bytes, &mut expected, copy.source, message(round, copy.token))?;
        }
        Ok(())
    }
}

fn message(round: u64, token: usize) -> u64 {
    round << 32 | token as u64
}

/// A signal for each peer and word, with the number of copies.
fn signals(
    copies: &[TokenCopy],
    to: impl Fn(&TokenCopy) -> (usize, usize),
) -> impl Iterator<Item = (usize, Op)> {
    let signal = |((peer, word), add)| (peer, Op::Signal { word, add });
    counts(copies.iter().map(to)).into_iter().map(signal)
}

/// Counts equal values.
fn counts<T: Ord>(values: impl Iterator<Item = T>) -> Vec<(T, u64)> {
    let mut counts = std::collections::BTreeMap::new();
    values.for_each(|value| *counts.entry(value).or_insert(0) += 1);
    counts.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::super::routing::Pattern;
    use super::*;

    /// The memory and words of all ranks, in one process.
    type World = Rc<RefCell<Vec<(Vec<u8>, Vec<u64>)>>>;

    /// A rank whose operations take effect at once.
    struct Direct {
        world: World,
        own: usize,
        size: usize,
    }

    impl Puts for Direct {
        fn post(&mut self, peer: usize, op: Op) {
            let mut world = self.world.borrow_mut();
            match op {
                Op::Put { from, to } => {
                    let bytes = world[self.own].0[from..from + self.size].to_vec();
                    world[peer].0[to..to + self.size].copy_from_slice(&bytes);
                }
                Op::Signal { word, add } => world[peer].1[word] += add,
            }
        }

        fn progress(&mut self) -> Result<(), Failure> {
            Ok(())
        }

        fn is_quiet(&self) -> bool {
            true
        }

        fn word(&self, word: usize) -> Result<u64, Failure> {
            Ok(self.world.borrow()[self.own].1[word])
        }

        fn write(&mut self, at: usize, bytes: &[u8]) -> Result<(), Failure> {
            self.world.borrow_mut()[self.own].0[at..at + bytes.len()].copy_from_slice(bytes);
            Ok(())
        }

        fn read(&self, at: usize, bytes: &mut [u8]) -> Result<(), Failure> {
            bytes.copy_from_slice(&self.world.borrow()[self.own].0[at..at + bytes.len()]);
            Ok(())
        }
    }

    const RANKS: usize = 3;
    const SIZE: usize = 40;
    const TOKENS: usize = 20;

    fn ranks() -> (World, Vec<(Direct, Rounds)>) {
        let pattern = Pattern { tokens: TOKENS, experts: 2, top_k: 3, zipf: 1.0, seed: 1 };
        let routing = Routing::new(RANKS, &pattern);
        let layout = Layout::new(&routing, TOKENS, SIZE);
        let memory = (vec![0; layout.bytes], vec![0; layout.words]);
        let world: World = Rc::new(RefCell::new(vec![memory; RANKS]));
        let rank = |own| {
            let direct = Direct { world: world.clone(), own, size: SIZE };
            (direct, Rounds::new(&routing, layout, own))
        };
        let ranks = (0..RANKS).map(rank).collect();
        (world, ranks)
    }

    /// Posts each half at all ranks, and returns the words that are short of what is awaited.
    fn run(ranks: &mut [(Direct, Rounds)], before: u64) -> usize {
        let mut short = 0;
        for half in 0..2 {
            for (puts, rounds) in ranks.iter_mut() {
                rounds.halves[half].ops.iter().for_each(|(peer, op)| puts.post(*peer, *op));
            }
            let awaited = ranks.iter().flat_map(|(puts, rounds)| {
                rounds.halves[half].awaited.iter().map(move |(word, count)| {
                    puts.word(*word).expect("a word") == (before + 1) * count
                })
            });
            short += awaited.filter(|is_met| !is_met).count();
        }
        short
    }

    #[test]
    fn tokens_reach_their_experts_and_come_back_round_after_round() {
        let (_, mut ranks) = ranks();
        for round in 0..3 {
            for (puts, rounds) in &mut ranks {
                rounds.fill(puts, round).expect("tokens");
            }
            assert_eq!(run(&mut ranks, round), 0, "words count all copies and no more");
            for (puts, rounds) in &ranks {
                rounds.check(puts, round).expect("every byte");
                rounds.check(puts, round + 1).expect_err("bytes of another round");
            }
        }
    }

    #[test]
    fn a_wrong_byte_in_any_copy_is_found() {
        let (world, mut ranks) = ranks();
        for (puts, rounds) in &mut ranks {
            rounds.fill(puts, 0).expect("tokens");
        }
        run(&mut ranks, 0);
        let (puts, rounds) = &ranks[1];
        let places = [
            rounds.layout.received + rounds.received.len() * SIZE - 1,
            rounds.layout.returned + rounds.sent.len() * SIZE - 1,
        ];
        for place in places {
            world.borrow_mut()[1].0[place] ^= 1;
            rounds.check(puts, 0).expect_err("a wrong byte");
            world.borrow_mut()[1].0[place] ^= 1;
        }
        rounds.check(puts, 0).expect("every byte is back");
    }

    #[test]
    fn a_round_ends_once_the_signals_of_the_others_are_there() {
        let (world, mut ranks) = ranks();
        let (puts, rounds) = &mut ranks[0];
        // The others' signals are there already.
        for (word, count) in rounds.halves.iter().flat_map(|half| &half.awaited) {
            world.borrow_mut()[0].1[*word] = *count;
        }
        rounds.run(puts, 0).expect("a round");
        let sent: u64 = world.borrow()[1..].iter().flat_map(|(_, words)| words).sum();
        assert_eq!(sent, (rounds.sent.len() + rounds.received.len()) as u64, "its own signals");
    }
}
