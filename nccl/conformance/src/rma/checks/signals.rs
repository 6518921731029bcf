//! The order of signals: whoever sees one sees all earlier puts of its context.

use super::super::check::{RmaCheck, pattern};
use super::super::rank::{Contexts, Group, Rank, RankMemory};
use super::super::table::Signal;
use crate::pair::{Verdict, ensure};

pub(super) const CHECKS: &[RmaCheck] = &[
    RmaCheck::new("RMA: signals follow puts", 2, signals),
    RmaCheck::new("RMA: signals follow puts, GPU", 2, signals).on_gpu(),
    RmaCheck::new("RMA: signals follow puts, lossy", 3, signals).with(LOSSY).udp_only(),
    RmaCheck::new("RMA: signals follow puts, lossy, GPU, slow copies", 3, slow_copies)
        .on_gpu()
        .with(LOSSY)
        .udp_only(),
    RmaCheck::new("RMA: signals follow puts, lossy, engine threads, GPU", 2, signals)
        .on_gpu()
        .with(LOSSY_WITH_THREADS)
        .udp_only(),
    RmaCheck::new("RMA: signals follow puts over TCP", 3, signals)
        .with(&[("BRAID_DATAPATH", "tcp")])
        .udp_only(),
    RmaCheck::new("RMA: signals follow puts over two rails, lossy", 2, signals)
        .with(LOSSY_RAILS)
        .udp_only()
        .picks_devices(),
    RmaCheck::new("RMA: signals follow puts over two rails, lossy, GPU", 2, signals)
        .on_gpu()
        .with(LOSSY_RAILS)
        .udp_only()
        .picks_devices(),
    RmaCheck::new("RMA: signals of another context are unordered", 2, unordered)
        .with(LOSSY)
        .udp_only(),
];

const LOSSY: &[(&str, &str)] =
    &[("BRAID_DROP", "0.02"), ("BRAID_REORDER", "0.05"), ("BRAID_DUPLICATE", "0.02")];
const LOSSY_WITH_THREADS: &[(&str, &str)] =
    &[("BRAID_DROP", "0.02"), ("BRAID_REORDER", "0.05"), ("BRAID_THREADS", "2")];
const LOSSY_RAILS: &[(&str, &str)] =
    &[("BRAID_RAILS", "127.0.0.1,127.0.0.2"), ("BRAID_DROP", "0.02"), ("BRAID_REORDER", "0.05")];

const CONTEXTS: usize = 2;
const ROUNDS: usize = 12;
/// Puts of a round, and the place of each. Every third one carries a signal.
const PUTS: usize = 9;
const ROOM: usize = 80_000;
const PER_SIGNAL: usize = 3;

fn slow_copies(rank: &Rank) -> Verdict {
    rank.gpu().slow_down(0, 300);
    signals(rank)
}

/// The memory of a rank: what it puts, and what each rank puts to it in each context.
struct Boards<'g> {
    source: RankMemory<'g>,
    target: RankMemory<'g>,
    /// A word per rank and context that counts its signals, and one that counts acknowledgements.
    words: RankMemory<'g>,
    ranks: usize,
}

impl Boards<'_> {
    /// The place of a put at its target.
    fn place(&self, from: usize, context: usize, put: usize) -> usize {
        ((from * CONTEXTS + context) * PUTS + put) * ROOM
    }

    fn word(&self, from: usize, context: usize) -> usize {
        8 * (from * CONTEXTS + context)
    }

    fn acknowledged(&self, from: usize, context: usize) -> usize {
        self.word(self.ranks, 0) + self.word(from, context)
    }
}

/// The length of a put, which differs from put to put.
fn length(round: usize, context: usize, put: usize) -> usize {
    let mixed = (round * 31 + context * 7 + put).wrapping_mul(2_654_435_761) % 1000;
    match mixed % 4 {
        0 => 8,
        1 => mixed + 1,
        2 => 16 * mixed + 3,
        _ => 80 * mixed,
    }
}

fn seed(from: usize, round: usize, context: usize, put: usize) -> u64 {
    (((from * 64 + round) * CONTEXTS + context) * PUTS + put) as u64
}

/// Every rank puts to every rank in rounds. The target checks everything before a signal as soon as
/// it sees it, and acknowledges the round.
fn signals(rank: &Rank) -> Verdict {
    let (own, ranks) = (rank.rank, rank.ranks);
    let group = Group::new(rank)?;
    let contexts = group.contexts(CONTEXTS as i32)?;
    let boards = Boards {
        source: RankMemory::new(&group, CONTEXTS * PUTS * ROOM)?,
        target: RankMemory::new(&group, ranks * CONTEXTS * PUTS * ROOM)?,
        words: RankMemory::new(&group, 2 * 8 * ranks * CONTEXTS)?,
        ranks,
    };
    rank.barrier()?;
    let waiting_calls = || rank.gpu.as_ref().map(|gpu| gpu.record().waiting_calls);
    let before = waiting_calls();
    ensure!(before != Some(0), "CUDA's calls are not counted");
    for round in 0..ROUNDS {
        for context in 0..CONTEXTS {
            for put in 0..PUTS {
                let bytes = pattern(seed(own, round, context, put), length(round, context, put));
                boards.source.write((context * PUTS + put) * ROOM, &bytes);
            }
        }
        for put in 0..PUTS {
            for (peer, context) in each(ranks) {
                post(&contexts, &boards, own, (round, peer, context, put))?;
            }
            contexts.turn()?;
        }
        watch(&contexts, &boards, round)?;
        let all = (round + 1) as u64;
        contexts.turn_until("the acknowledgements", || {
            each(ranks).all(|(peer, c)| boards.words.word(boards.acknowledged(peer, c)) == all)
        })?;
        contexts.finish()?;
    }
    let after = waiting_calls();
    ensure!(before == after, "CUDA calls that wait for kernels: {before:?}, later {after:?}");
    rank.barrier()?;
    contexts.destroy()?;
    drop(boards);
    group.close()
}

/// A signal of one context does not follow the puts of another. Some round has to show that:
/// otherwise the checks above would pass whatever the order is.
fn unordered(rank: &Rank) -> Verdict {
    const LEN: usize = 60_000;
    const MOST: u64 = 500;
    let group = Group::new(rank)?;
    let contexts = group.contexts(2)?;
    let (source, target) = (RankMemory::new(&group, LEN)?, RankMemory::new(&group, LEN)?);
    let word = RankMemory::new(&group, 8)?;
    for round in 1..=MOST {
        let bytes = pattern(round, LEN);
        let mut is_early = false;
        if rank.rank == 0 {
            source.write(0, &bytes);
            let mut put = contexts.put(0, 1);
            (put.from, put.to, put.size) = (source.at(0), target.at(0), LEN);
            contexts.iput(&put)?;
            let signal = Signal { at: word.at(0), value: 0, operation: 1, is_strong: true };
            contexts.iput_signal(&contexts.put(1, 1), &signal)?;
            contexts.finish()?;
        } else {
            contexts.turn_until("a signal", || word.word(0) == round)?;
            is_early = target.read(0, LEN) != bytes;
        }
        if rank.gather(&[is_early.into()])?[1] == [1] {
            contexts.destroy()?;
            drop((source, target, word));
            return group.close();
        }
    }
    Err(format!("in {MOST} rounds no signal has overtaken a put of another context"))
}

fn each(ranks: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..ranks).flat_map(|peer| (0..CONTEXTS).map(move |context| (peer, context)))
}

/// Puts, with a strong signal behind every third one.
fn post(
    contexts: &Contexts<'_>,
    boards: &Boards<'_>,
    own: usize,
    (round, peer, context, number): (usize, usize, usize, usize),
) -> Verdict {
    let mut put = contexts.put(context, peer);
    put.from = boards.source.at((context * PUTS + number) * ROOM);
    put.to = boards.target.at(boards.place(own, context, number));
    put.size = length(round, context, number);
    if number % PER_SIGNAL < PER_SIGNAL - 1 {
        return contexts.iput(&put);
    }
    let at = boards.words.at(boards.word(own, context));
    contexts.iput_signal(&put, &Signal { at, value: 0, operation: 1, is_strong: true })
}

/// Checks each rank's puts of this round when its signals are seen, and acknowledges them.
fn watch(contexts: &Contexts<'_>, boards: &Boards<'_>, round: usize) -> Verdict {
    let (ranks, own) = (boards.ranks, contexts.group.rank.rank);
    let first = (round * PUTS / PER_SIGNAL) as u64;
    let mut seen = vec![0usize; ranks * CONTEXTS];
    let whole = PUTS / PER_SIGNAL;
    crate::pair::until("the signals", || {
        contexts.turn()?;
        for (peer, context) in each(ranks) {
            let index = peer * CONTEXTS + context;
            // A rank whose round was acknowledged may be in the next one.
            let signals = (boards.words.word(boards.word(peer, context)) - first) as usize;
            let signals = signals.min(whole);
            for put in seen[index] * PER_SIGNAL..signals * PER_SIGNAL {
                let bytes = pattern(seed(peer, round, context, put), length(round, context, put));
                let found = boards.target.read(boards.place(peer, context, put), bytes.len());
                ensure!(
                    found == bytes,
                    "round {round}, rank {peer}, context {context}: signal {signals} is seen, \
                     put {put} of {} bytes is not",
                    bytes.len()
                );
            }
            if signals == whole && seen[index] < whole {
                let at = boards.words.at(boards.acknowledged(own, context));
                let signal = Signal { at, value: 1, operation: 2, is_strong: false };
                contexts.iput_signal(&contexts.put(context, peer), &signal)?;
            }
            seen[index] = signals;
        }
        Ok(seen.iter().all(|seen| *seen == whole).then_some(()))
    })
}
