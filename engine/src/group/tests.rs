//! Tests of groups in which a rank cannot post. Their rounds bypass the check of operations.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::*;
use crate::{Access, Datapath, EngineConfig, MemFabric, MemoryRegion};

const PATIENCE: Duration = Duration::from_secs(30);
/// All ranks get an error this soon. None waits for a peer's time-out.
const SOON: Duration = Duration::from_secs(2);
/// The longest part of a round: several chunks.
const LONGEST: usize = 150_000;

/// Runs a function for each rank in a thread of its own. Returns the results by rank.
fn on_ranks<T: Send>(size: usize, run: impl Fn(usize) -> T + Sync) -> Vec<T> {
    thread::scope(|scope| {
        let run = &run;
        let ranks: Vec<_> = (0..size).map(|rank| scope.spawn(move || run(rank))).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

fn groups(size: usize) -> Vec<Group> {
    let fabric = MemFabric::new();
    let bind = "127.0.0.1:0".parse().unwrap();
    let engines: Vec<Engine> = (0..size)
        .map(|_| {
            let datapath = Datapath::Mem(fabric.clone());
            Engine::new(EngineConfig { bind, datapath, ..EngineConfig::default() }).unwrap()
        })
        .collect();
    let root = engines[0].local_addr();
    on_ranks(size, |rank| {
        Group::join(&engines[rank], &GroupConfig::with_root(rank, size, root)).unwrap()
    })
}

fn region(pd: &ProtectionDomain, len: usize) -> Arc<MemoryRegion> {
    Arc::new(pd.alloc_mr(len, Access::LOCAL_WRITE | Access::REMOTE_WRITE).unwrap())
}

fn ranges(counts: impl Iterator<Item = usize>) -> Vec<std::ops::Range<usize>> {
    counts
        .scan(0, |end, count| {
            *end += count;
            Some(*end - count..*end)
        })
        .collect()
}

/// A round with these counts, by sender and receiver. `foreign`: the sent memory belongs to another
/// protection domain.
fn operation(group: &Group, counts: &[Vec<usize>], foreign: bool) -> AllToAllV {
    let (own, size) = (group.rank, counts.len());
    let elsewhere = group.pd.sibling();
    let pd = if foreign { &elsewhere } else { &group.pd };
    let len = LONGEST * size;
    let send = region(pd, len);
    send.write_at(0, &vec![own as u8 + 1; len]).unwrap();
    AllToAllV {
        send,
        sends: ranges((0..size).map(|to| counts[own][to])),
        recv: region(&group.pd, len),
        receives: ranges((0..size).map(|from| counts[from][own])),
    }
}

/// Starts a round without the check, as if the fault occurred later.
fn start_unchecked(group: &Group, operation: AllToAllV) -> Result<Round, GroupError> {
    let number = group.driver.state().start(operation)?;
    Ok(Round { driver: group.driver.clone(), number })
}

fn random_counts(rng: &mut Pcg64Mcg, size: usize) -> Vec<Vec<usize>> {
    let mut count = |from, to| match rng.random_range(0..4) {
        _ if from == to => 0,
        0 => 0,
        1 => 1,
        2 => rng.random_range(2..5_000),
        _ => rng.random_range(5_000..=LONGEST),
    };
    (0..size).map(|from| (0..size).map(|to| count(from, to)).collect()).collect()
}

/// Checks that each successful rank has the bytes that its peers sent.
fn check_bytes(operation: &AllToAllV, own: usize) {
    for (from, range) in operation.receives.iter().enumerate().filter(|(from, _)| *from != own) {
        let mut found = vec![0; range.len()];
        operation.recv.read_at(range.start, &mut found).unwrap();
        assert!(found.iter().all(|byte| *byte == from as u8 + 1), "rank {own}, from {from}");
    }
}

#[test]
fn a_rank_that_cannot_post_fails_its_round_and_is_named_at_every_rank() {
    for seed in 0..20 {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let size = rng.random_range(2..6);
        let (culprit, bad_round) = (rng.random_range(0..size), rng.random_range(0..4));
        let mut rounds: Vec<_> = (0..=bad_round).map(|_| random_counts(&mut rng, size)).collect();
        // The culprit has at least a byte to send, so that its post fails.
        rounds[bad_round][culprit][(culprit + 1) % size] += 1;
        let groups = groups(size);
        let expected = Blame::Memory { rank: culprit };
        on_ranks(size, |own| {
            let group = &groups[own];
            for (number, counts) in rounds.iter().enumerate() {
                let is_bad = number == bad_round && own == culprit;
                let operation = operation(group, counts, is_bad);
                let began = Instant::now();
                let started = start_unchecked(group, operation.clone());
                match started.and_then(|round| round.wait(PATIENCE)) {
                    Ok(()) if is_bad => panic!("seed {seed}: nothing was sent, and it is over"),
                    Ok(()) => check_bytes(&operation, own),
                    Err(GroupError::Failed { blame, .. }) => assert_eq!(blame, expected, "{seed}"),
                    Err(other) => panic!("seed {seed}, rank {own}: {other}"),
                }
                assert!(began.elapsed() < SOON, "seed {seed}: {:?}", began.elapsed());
            }
            let began = Instant::now();
            let end = loop {
                match group.end() {
                    Some(end) => break end,
                    None => thread::sleep(Duration::from_millis(1)),
                }
                assert!(began.elapsed() < SOON, "seed {seed}, rank {own}: the group goes on");
            };
            assert!(matches!(end, GroupError::Failed { blame, .. } if blame == expected), "{end}");
        });
    }
}
