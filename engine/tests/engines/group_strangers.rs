//! Groups that form while ranks of other runs and strangers try to join them.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use braid::{Group, GroupConfig};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::group::{engine, on_ranks, random_rounds, ranks};

fn of_job(job: &str, config: &GroupConfig) -> GroupConfig {
    GroupConfig { job: job.to_owned(), ..config.clone() }
}

/// Tries for a second and a half to join as a rank of another run. Returns the result.
fn left_over(job: &str, rank: usize, size: usize, root: SocketAddr) -> String {
    let config = of_job(job, &GroupConfig::with_root(rank, size, root));
    let config = GroupConfig { timeout: Duration::from_millis(1_500), ..config };
    Group::join(&engine(None, 0), &config).unwrap_err().to_string()
}

#[test]
fn ranks_left_over_from_another_run_are_refused_and_the_group_comes_about() {
    let ranks = ranks(None, 3);
    let root = ranks[0].0.local_addr();
    thread::scope(|scope| {
        // Ranks of the same and of another size, with a number that is taken and with an invalid
        // one.
        let old = [(1, 3), (2, 3), (1, 4), (7, 9)];
        let old = old.map(|(rank, size)| scope.spawn(move || left_over("old", rank, size, root)));
        let nameless = scope.spawn(move || left_over("", 2, 3, root));
        let groups = on_ranks(3, |rank| {
            // The old ranks come first.
            thread::sleep(Duration::from_millis(300 * u64::from(rank > 0)));
            Group::join(&ranks[rank].0, &of_job("new", &ranks[rank].1)).unwrap()
        });
        random_rounds(&groups, 5, 3, 1);
        for error in old.map(|old| old.join().unwrap()) {
            assert!(error.contains("does not wait for ranks of the job `old`"), "{error}");
        }
        let error = nameless.join().unwrap();
        assert!(error.contains("does not wait for ranks of a run without a name"), "{error}");
    });
}

#[test]
fn missing_and_rejected_ranks_are_named_at_every_rank() {
    let ranks = ranks(None, 3);
    let root = ranks[0].0.local_addr();
    thread::scope(|scope| {
        scope.spawn(move || left_over("old", 2, 3, root));
        let errors = on_ranks(2, |rank| {
            let (engine, config) = &ranks[rank];
            let config = GroupConfig { timeout: Duration::from_secs(1), ..of_job("new", config) };
            Group::join(engine, &config).unwrap_err().to_string()
        });
        for error in errors {
            assert!(error.contains("the ranks 2 have not come"), "{error}");
            assert!(error.contains("refused: rank 2 of the job `old` at 127.0.0.1"), "{error}");
        }
    });
}

#[test]
fn without_names_a_rank_of_another_size_hears_that_the_group_came_about_without_it() {
    let ranks = ranks(None, 3);
    let root = ranks[0].0.local_addr();
    thread::scope(|scope| {
        let old = scope.spawn(move || left_over("", 1, 4, root));
        let groups = on_ranks(3, |rank| {
            thread::sleep(Duration::from_millis(300 * u64::from(rank > 0)));
            Group::join(&ranks[rank].0, &ranks[rank].1).unwrap()
        });
        random_rounds(&groups, 6, 3, 1);
        let error = old.join().unwrap();
        assert!(error.contains("the group has come about without it"), "{error}");
    });
}

/// Rank 0 forgets a rank that gave up or died before all had come, so that it may be restarted.
#[test]
fn a_rank_that_went_away_may_come_again() {
    let ranks = ranks(None, 3);
    let root = ranks[0].0.local_addr();
    thread::scope(|scope| {
        scope.spawn(move || left_over("new", 1, 3, root));
        let groups = on_ranks(3, |rank| {
            thread::sleep(Duration::from_millis([0, 6_000, 6_200][rank]));
            Group::join(&ranks[rank].0, &of_job("new", &ranks[rank].1)).unwrap()
        });
        random_rounds(&groups, 7, 3, 1);
    });
}

/// A greeting of a rank of another run to rank 0: its job, size, number and port, and no list.
fn greeting_of_another_run(rng: &mut Pcg64Mcg) -> Vec<u8> {
    let job = ["old", "ne", "new ", "older"][rng.random_range(0..4)];
    let (size, rank) = (rng.random_range(0..5u32), rng.random_range(0..5u32));
    let head = [&b"BRDG\x02\0"[..], &[job.len() as u8], job.as_bytes()].concat();
    let numbers = [size.to_be_bytes(), rank.to_be_bytes()].concat();
    [head, numbers, vec![0x12, 0xB7], vec![0; 8]].concat()
}

/// Strangers of all kinds connect to rank 0's port all the time: with random private data, with
/// greetings of ranks, and with datagrams of random bytes.
#[test]
fn random_strangers_at_the_root_do_no_harm() {
    let ranks = ranks(None, 3);
    let root = ranks[0].0.local_addr();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let runs = || !is_over.load(std::sync::atomic::Ordering::Relaxed);
    thread::scope(|scope| {
        for seed in 0..3 {
            scope.spawn(move || {
                let mut rng = Pcg64Mcg::seed_from_u64(seed);
                let engine = engine(None, 0);
                let (pd, cq) = (engine.alloc_pd(), engine.create_cq(16).unwrap());
                let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
                while runs() {
                    let mut data: Vec<u8> =
                        (0..rng.random_range(0..512)).map(|_| rng.random()).collect();
                    match rng.random_range(0..3) {
                        0 => {}
                        // The beginning of a rank's greeting, and then random bytes.
                        1 => data
                            .splice(..0, [*b"BRDG\x02", [rng.random_range(0..3); 5]].concat())
                            .for_each(drop),
                        _ => data = greeting_of_another_run(&mut rng),
                    }
                    data.truncate(braid::MAX_PRIVATE_DATA);
                    let qp = pd.create_qp(braid::QpOptions::new(&cq, &cq)).unwrap();
                    let _ = qp.connect(root, &data, Duration::from_millis(50));
                    let _ = socket.send_to(&data, root);
                }
            });
        }
        for job in ["", "new"] {
            let groups = on_ranks(3, |rank| {
                thread::sleep(Duration::from_millis(200 * u64::from(rank > 0)));
                Group::join(&ranks[rank].0, &of_job(job, &ranks[rank].1)).unwrap()
            });
            random_rounds(&groups, 8, 3, 1);
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}
