//! Groups and their all-to-all: every byte is compared with a model, and ranks fail each other in
//! every way.

use std::net::SocketAddr;
use std::ops::Range;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use braid::{
    Access, AllToAllV, Blame, Datapath, Engine, EngineConfig, Group, GroupConfig, GroupError,
    MemFabric, MemoryRegion,
};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

const PATIENCE: Duration = Duration::from_secs(30);
/// Time within which every rank gets an error after another was killed.
const DEATH: Duration = Duration::from_secs(5);

/// An engine at 127.0.0.1, over a fabric in memory or over UDP.
pub(crate) fn engine(fabric: Option<&MemFabric>, port: u16) -> Engine {
    let datapath = fabric.map_or(Datapath::Udp, |fabric| Datapath::Mem(fabric.clone()));
    let bind = SocketAddr::from(([127, 0, 0, 1], port));
    Engine::new(EngineConfig { datapath, bind, paths: 2, ..EngineConfig::default() }).unwrap()
}

/// Runs a function for each rank in a thread of its own. Returns the results by rank.
pub(crate) fn on_ranks<T: Send>(size: usize, run: impl Fn(usize) -> T + Sync) -> Vec<T> {
    thread::scope(|scope| {
        let run = &run;
        let ranks: Vec<_> = (0..size).map(|rank| scope.spawn(move || run(rank))).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

/// Engines that know the address of rank 0, with the configuration of each.
pub(crate) fn ranks(fabric: Option<&MemFabric>, size: usize) -> Vec<(Engine, GroupConfig)> {
    let engines: Vec<Engine> = (0..size).map(|_| engine(fabric, 0)).collect();
    let root = engines[0].local_addr();
    let with = |(rank, engine)| (engine, GroupConfig::with_root(rank, size, root));
    engines.into_iter().enumerate().map(with).collect()
}

fn groups(fabric: Option<&MemFabric>, size: usize) -> Vec<Group> {
    let ranks = ranks(fabric, size);
    on_ranks(size, |rank| Group::join(&ranks[rank].0, &ranks[rank].1).unwrap())
}

/// The byte at an offset that one rank sends to another in a round.
fn byte(round: u64, from: usize, to: usize, at: usize) -> u8 {
    let mixed = (round << 40 ^ (from as u64) << 20 ^ to as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 32) as u8 ^ (at as u8).wrapping_mul(167) ^ (at >> 8) as u8
}

/// The memory of a rank, large enough for any round.
struct Buffers {
    send: Arc<MemoryRegion>,
    recv: Arc<MemoryRegion>,
}

impl Buffers {
    fn new(group: &Group, len: usize) -> Self {
        let region = |access| Arc::new(group.pd().alloc_mr(len, access).unwrap());
        Buffers {
            send: region(Access::NONE),
            recv: region(Access::LOCAL_WRITE | Access::REMOTE_WRITE),
        }
    }

    /// A round with these counts, by sender and receiver.
    fn operation(&self, own: usize, counts: &[Vec<usize>], round: u64) -> AllToAllV {
        let size = counts.len();
        let sends = ranges((0..size).map(|to| counts[own][to]));
        let receives = ranges((0..size).map(|from| counts[from][own]));
        for (to, range) in sends.iter().enumerate() {
            let bytes: Vec<u8> = (0..range.len()).map(|at| byte(round, own, to, at)).collect();
            self.send.write_at(range.start, &bytes).unwrap();
        }
        let stale = vec![0xA5; self.recv.len()];
        self.recv.write_at(0, &stale).unwrap();
        AllToAllV { send: self.send.clone(), sends, recv: self.recv.clone(), receives }
    }

    /// Checks that every expected byte has arrived and no other has changed.
    fn check(&self, own: usize, counts: &[Vec<usize>], round: u64) {
        let mut found = vec![0; self.recv.len()];
        self.recv.read_at(0, &mut found).unwrap();
        let mut expected = vec![0xA5; found.len()];
        let receives = ranges((0..counts.len()).map(|from| counts[from][own]));
        for (from, range) in receives.into_iter().enumerate() {
            for (at, byte_at) in expected[range].iter_mut().enumerate() {
                *byte_at = byte(round, from, own, at);
            }
        }
        assert!(found == expected, "round {round}, rank {own}, counts {counts:?}");
    }
}

/// Consecutive ranges of these lengths.
fn ranges(counts: impl IntoIterator<Item = usize>) -> Vec<Range<usize>> {
    let mut end = 0;
    let mut next = |count| {
        let start = end;
        end += count;
        start..end
    };
    counts.into_iter().map(&mut next).collect()
}

/// Zeros, single bytes, and sizes around those of packets and chunks.
fn random_counts(rng: &mut Pcg64Mcg, size: usize) -> Vec<Vec<usize>> {
    let mut count = || match rng.random_range(0..10) {
        0..=2 => 0,
        3..=4 => 1,
        5..=7 => rng.random_range(2..200),
        8 => rng.random_range(200..5_000),
        _ => [4095, 4096, 8191, 65_535, 65_536, 65_537][rng.random_range(0..6)] / 8,
    };
    (0..size).map(|_| (0..size).map(|_| count()).collect()).collect()
}

/// Runs `rounds` random rounds, the same at all ranks, `in_flight` at a time.
pub(crate) fn random_rounds(groups: &[Group], seed: u64, rounds: u64, in_flight: usize) {
    const LEN: usize = 80_000;
    on_ranks(groups.len(), |own| {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let group = &groups[own];
        let buffers: Vec<_> = (0..in_flight).map(|_| Buffers::new(group, LEN)).collect();
        let mut open = std::collections::VecDeque::new();
        for number in 0..rounds {
            if open.len() == in_flight {
                finish(open.pop_front().unwrap(), &buffers, own);
            }
            let counts = random_counts(&mut rng, groups.len());
            let operation = buffers[number as usize % in_flight].operation(own, &counts, number);
            if number % 97 == own as u64 {
                refused_start(group, &operation);
            }
            open.push_back((number, counts, group.start(operation).unwrap()));
        }
        open.into_iter().for_each(|round| finish(round, &buffers, own));
    });
}

/// A rank that uses memory of another protection domain, or without remote writes, gets an error at
/// once, and its group continues.
fn refused_start(group: &Group, good: &AllToAllV) {
    let elsewhere = group.pd().alloc_mr(good.recv.len(), Access::LOCAL_WRITE).unwrap();
    let deaf = AllToAllV { recv: Arc::new(elsewhere), ..good.clone() };
    let refused = group.start(deaf).unwrap_err();
    assert!(matches!(&refused, GroupError::Operation(why) if why.contains("`recv`")), "{refused}");
}

fn finish(round: (u64, Vec<Vec<usize>>, braid::Round), buffers: &[Buffers], own: usize) {
    let (number, counts, round) = round;
    round.wait(PATIENCE).unwrap();
    assert!(round.test().unwrap());
    buffers[number as usize % buffers.len()].check(own, &counts, number);
}

const MATRICES: u64 = 10_000;

#[test]
fn random_matrices_agree_with_the_model() {
    let fabric = MemFabric::new();
    for (seed, size) in [(1, 2), (2, 3), (3, 5), (4, 4)] {
        let groups = groups(Some(&fabric), size);
        random_rounds(&groups, seed, MATRICES / 4, 1 + seed as usize);
    }
}

#[test]
fn random_matrices_agree_with_the_model_over_udp() {
    random_rounds(&groups(None, 4), 9, 60, 4);
}

#[test]
fn parts_longer_than_all_windows_arrive() {
    let groups = groups(None, 2);
    on_ranks(2, |own| {
        let buffers = Buffers::new(&groups[own], 24 << 20);
        let counts = vec![vec![3, 20 << 20], vec![(9 << 20) + 1, 0]];
        let round = groups[own].start(buffers.operation(own, &counts, 0)).unwrap();
        round.wait(PATIENCE).unwrap();
        buffers.check(own, &counts, 0);
    });
}

#[test]
fn a_group_of_one_exchanges_with_itself() {
    let groups = groups(None, 1);
    let buffers = Buffers::new(&groups[0], 200_000);
    let counts = vec![vec![150_000]];
    groups[0].start(buffers.operation(0, &counts, 0)).unwrap().wait(PATIENCE).unwrap();
    buffers.check(0, &counts, 0);
}

#[test]
fn a_list_of_addresses_makes_a_group() {
    let engines: Vec<Engine> = (0..3).map(|_| engine(None, 0)).collect();
    let addresses: Vec<_> = engines.iter().map(Engine::local_addr).collect();
    let groups = on_ranks(3, |rank| {
        Group::join(&engines[rank], &GroupConfig::listed(rank, addresses.clone())).unwrap()
    });
    assert!(groups.iter().all(|group| group.addresses() == addresses));
    random_rounds(&groups, 3, 3, 1);
}

/// The errors of all ranks of a group that is not formed. Each rank has its own configuration.
fn refusals(
    size: usize,
    timeout: Duration,
    change: impl Fn(usize, &mut GroupConfig) -> bool + Sync,
) -> Vec<Option<String>> {
    let ranks = ranks(None, size);
    let began = Instant::now();
    let errors = on_ranks(size, |rank| {
        let (engine, mut config) = ranks[rank].clone();
        config.timeout = timeout;
        let comes = change(rank, &mut config);
        comes.then(|| Group::join(&engine, &config).unwrap_err().to_string())
    });
    assert!(began.elapsed() < timeout + DEATH, "{:?}", began.elapsed());
    errors
}

fn all_contain(errors: &[Option<String>], what: &str) {
    errors.iter().flatten().for_each(|error| assert!(error.contains(what), "{error}"));
}

#[test]
fn unequal_sizes_are_named_at_every_rank() {
    let errors = refusals(3, Duration::from_secs(5), |rank, config| {
        config.size += usize::from(rank == 2);
        true
    });
    all_contain(&errors, "of a group of 4, and rank 0 of one of 3");
}

#[test]
fn two_of_the_same_rank_are_named_at_every_rank() {
    let errors = refusals(3, Duration::from_secs(5), |rank, config| {
        config.rank = rank.min(1);
        true
    });
    all_contain(&errors, "both call themselves rank 1");
}

#[test]
fn a_rank_that_never_comes_is_named_at_every_rank() {
    let errors = refusals(4, Duration::from_secs(1), |rank, _| rank != 2);
    assert!(errors[2].is_none());
    all_contain(&errors, "the ranks 2 have not come");
}

#[test]
fn a_root_that_never_comes_is_named_at_every_rank() {
    let errors = refusals(3, Duration::from_secs(1), |rank, _| rank != 0);
    all_contain(&errors, "rank 0 was not reached at 127.0.0.1");
}

#[test]
fn lists_that_differ_are_named_at_every_rank() {
    let engines: Vec<Engine> = (0..3).map(|_| engine(None, 0)).collect();
    let addresses: Vec<_> = engines.iter().map(Engine::local_addr).collect();
    let errors = on_ranks(3, |rank| {
        let mut list = addresses.clone();
        if rank == 2 {
            list[1].set_port(9);
        }
        // A job's name, so that a differing rank belongs to this run and no other is awaited.
        let job = "a".to_owned();
        let config = GroupConfig { job, ..GroupConfig::listed(rank, list) };
        Group::join(&engines[rank], &config).unwrap_err().to_string()
    });
    errors.iter().for_each(|error| assert!(error.contains("another list of addresses"), "{error}"));
}

#[test]
fn an_address_that_is_not_ours_is_refused_at_once() {
    let (engine, size) = (engine(None, 0), 2);
    let elsewhere = "192.0.2.1:4791".parse().unwrap();
    let refused = Group::join(&engine, &GroupConfig::with_root(0, size, elsewhere)).unwrap_err();
    assert!(matches!(refused, GroupError::NotOurs { rank: 0, addr, .. } if addr == elsewhere));
}

/// The cause of the end of a group, at one rank.
fn blame(error: GroupError) -> Blame {
    match error {
        GroupError::Failed { blame, .. } => blame,
        other => panic!("{other}"),
    }
}

/// The cause of the end of a group in which this rank takes part in a round. A late rank gets the
/// error as soon as it starts. A rank that has exchanged everything before has a successful round
/// and then finds the group ended.
fn ends_by(group: &Group, operation: AllToAllV) -> Blame {
    let ended = group.start(operation).and_then(|round| round.wait(PATIENCE));
    blame(ended.err().unwrap_or_else(|| end_of(group)))
}

fn end_of(group: &Group) -> GroupError {
    let began = Instant::now();
    loop {
        if let Some(why) = group.end() {
            return why;
        }
        assert!(began.elapsed() < DEATH, "the group goes on");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn counts_that_do_not_match_are_named_at_every_rank() {
    let groups = groups(None, 4);
    let blames = on_ranks(4, |own| {
        let buffers = Buffers::new(&groups[own], 10_000);
        let mut counts = vec![vec![1000; 4]; 4];
        if own == 2 {
            counts[1][2] = 999; // it expects less than rank 1 sends
        }
        let began = Instant::now();
        let blame = ends_by(&groups[own], buffers.operation(own, &counts, 0));
        assert!(began.elapsed() < DEATH);
        assert!(groups[own].start(buffers.operation(own, &counts, 1)).is_err());
        blame
    });
    let expected = Blame::Counts { round: 0, sender: 1, receiver: 2, sent: 1000, expected: 999 };
    assert_eq!(blames, [expected; 4]);
}

#[test]
fn a_cancelled_round_ends_the_group_and_names_who_cancelled() {
    let groups = groups(None, 3);
    let blames = on_ranks(3, |own| {
        let buffers = Buffers::new(&groups[own], 10_000);
        let counts = vec![vec![1000; 3]; 3];
        match own {
            0 => {
                let round = groups[own].start(buffers.operation(own, &counts, 0)).unwrap();
                assert!(!round.test().unwrap());
                let unfinished = round.wait(Duration::from_millis(10)).unwrap_err();
                assert!(
                    matches!(unfinished, GroupError::Unfinished { ranks, .. } if ranks.contains(&2))
                );
                round.cancel();
                None
            }
            1 => Some(ends_by(&groups[own], buffers.operation(own, &counts, 0))),
            _ => None, // It never starts its round 0, so that the others' cannot end.
        }
    });
    assert_eq!(blames[1], Some(Blame::Cancelled { rank: 0, round: 0 }));
}

#[test]
fn a_rank_may_leave_after_its_rounds() {
    for _ in 0..20 {
        let groups = groups(None, 4);
        thread::scope(|scope| {
            for (own, group) in groups.into_iter().enumerate() {
                scope.spawn(move || {
                    let buffers = Buffers::new(&group, 500_000);
                    let counts = vec![vec![100_000; 4]; 4];
                    let round = group.start(buffers.operation(own, &counts, 0)).unwrap();
                    thread::sleep(Duration::from_millis(own as u64));
                    round.wait(PATIENCE).unwrap();
                    drop(group);
                    buffers.check(own, &counts, 0);
                });
            }
        });
    }
}

#[test]
fn a_round_with_a_rank_that_left_fails() {
    let mut groups = groups(None, 2);
    drop(groups.pop());
    let buffers = Buffers::new(&groups[0], 100);
    let began = Instant::now();
    let operation = buffers.operation(0, &[vec![1, 1], vec![1, 1]], 0);
    assert_eq!(ends_by(&groups[0], operation), Blame::Left { rank: 1 });
    assert!(began.elapsed() < DEATH);
}

#[test]
fn rounds_beyond_the_limit_are_refused_and_a_new_group_can_be_made() {
    let ranks = ranks(None, 2);
    for _ in 0..3 {
        let groups = on_ranks(2, |rank| Group::join(&ranks[rank].0, &ranks[rank].1).unwrap());
        let buffers = Buffers::new(&groups[0], 100);
        let counts = vec![vec![0, 1], vec![1, 0]];
        let rounds: Vec<_> =
            (0..8).map(|_| groups[0].start(buffers.operation(0, &counts, 0)).unwrap()).collect();
        let ninth = groups[0].start(buffers.operation(0, &counts, 0));
        assert!(matches!(ninth, Err(GroupError::TooManyRounds { max: 8 })));
        let theirs = Buffers::new(&groups[1], 100);
        for round in rounds {
            let other = groups[1].start(theirs.operation(1, &counts, 0)).unwrap();
            other.wait(PATIENCE).unwrap();
            round.wait(PATIENCE).unwrap();
        }
    }
}

/// The variable with the address of rank 0 for the process that is killed.
const ROOT: &str = "BRAID_TEST_GROUP_ROOT";
const VICTIM: usize = 2;

#[test]
fn a_killed_rank_is_named_at_every_other_and_a_new_group_can_be_made() {
    let size = 4;
    if let Ok(root) = std::env::var(ROOT) {
        return exchange_for_ever(&GroupConfig::with_root(VICTIM, size, root.parse().unwrap()));
    }
    let ranks = ranks(None, size);
    for _ in 0..2 {
        let victim = Mutex::new(
            Command::new(std::env::current_exe().unwrap())
                .args([
                    "--exact",
                    "group::a_killed_rank_is_named_at_every_other_and_a_new_group_can_be_made",
                ])
                .env(ROOT, ranks[0].0.local_addr().to_string())
                .stdout(Stdio::null())
                .spawn()
                .unwrap(),
        );
        let killed_at = Mutex::new(None);
        let others = [0, 1, 3];
        let blames = on_ranks(others.len(), |index| {
            let own = others[index];
            let group = Group::join(&ranks[own].0, &ranks[own].1).unwrap();
            let buffers = Buffers::new(&group, 1 << 20);
            for round in 0.. {
                let operation =
                    AllToAllV::even(buffers.send.clone(), buffers.recv.clone(), size, 200_000);
                match group.start(operation).and_then(|round| round.wait(PATIENCE)) {
                    Ok(()) if own == 0 && round == 20 => {
                        *killed_at.lock().unwrap() = Some(Instant::now());
                        victim.lock().unwrap().kill().unwrap();
                    }
                    Ok(()) => {}
                    Err(error) => {
                        let killed_at = killed_at.lock().unwrap().expect("nobody dies by itself");
                        assert!(killed_at.elapsed() < DEATH, "{:?}", killed_at.elapsed());
                        return Some(blame(error));
                    }
                }
            }
            None
        });
        victim.into_inner().unwrap().wait().unwrap();
        assert_eq!(blames, [Some(Blame::Dead { rank: VICTIM }); 3]);
    }
}

fn exchange_for_ever(config: &GroupConfig) {
    let engine = engine(None, 0);
    let group = Group::join(&engine, config).unwrap();
    let buffers = Buffers::new(&group, 1 << 20);
    loop {
        let (send, recv) = (buffers.send.clone(), buffers.recv.clone());
        let operation = AllToAllV::even(send, recv, config.size, 200_000);
        if group.start(operation).and_then(|round| round.wait(PATIENCE)).is_err() {
            return;
        }
    }
}
