//! Groups of ranks through the C API: rounds, failures with the responsible rank, and refused
//! arguments.

use std::ffi::{CString, c_char, c_int};
use std::ptr;
use std::thread;

use crate::pair::{PATIENCE_US, last_error, made, ok, queried};
use braid_ffi::*;

const RANKS: usize = 2;
const EACH: usize = 100_000;

/// A rank with memory for one round.
struct Rank {
    engine: *mut braid_engine,
    group: *mut braid_group,
    pd: *mut braid_pd,
    send: *mut braid_mr,
    recv: *mut braid_mr,
}

// SAFETY: handles are numbers, and every function that the tests call takes them from any thread.
unsafe impl Send for Rank {}

fn config(rank: u32, ranks: usize, root: &str) -> braid_group_config {
    // SAFETY: the struct has the size that is said.
    let mut config = made(|config: *mut braid_group_config| unsafe {
        braid_group_config_init(config, size_of::<braid_group_config>())
    });
    (config.rank, config.ranks) = (rank, ranks as u32);
    config.root.iter_mut().zip(root.bytes()).for_each(|(to, from)| *to = from as c_char);
    config
}

fn engine() -> (*mut braid_engine, String) {
    let bind = CString::new("127.0.0.1:0").unwrap();
    // SAFETY: structs have the sizes that are said, strings live as long as the calls.
    unsafe {
        let mut config = made(|config: *mut braid_engine_config| {
            braid_engine_config_init(config, size_of::<braid_engine_config>())
        });
        config.bind = bind.as_ptr();
        let engine = made(|out| braid_engine_create(&raw const config, out));
        let mut text = [0 as c_char; BRAID_ADDR_LEN];
        ok(braid_engine_local_addr(engine, text.as_mut_ptr(), text.len()));
        let text = text.iter().take_while(|byte| **byte != 0).map(|byte| *byte as u8 as char);
        (engine, text.collect())
    }
}

impl Rank {
    fn join(engine: *mut braid_engine, config: &braid_group_config) -> Self {
        // SAFETY: every place is one, and every handle is open.
        unsafe {
            let group = made(|out| braid_group_join(engine, config, out));
            let pd = made(|out| braid_group_pd(group, out));
            let alloc = |access| made(|out| braid_mr_alloc(pd, RANKS * EACH, access, 0, out));
            let writable = BRAID_ACCESS_LOCAL_WRITE | BRAID_ACCESS_REMOTE_WRITE;
            let (send, recv) = (alloc(BRAID_ACCESS_NONE), alloc(writable));
            Rank { engine, group, pd, send, recv }
        }
    }

    /// Starts a round that sends and receives these numbers of bytes.
    fn start(&self, sends: usize, receives: usize) -> *mut braid_round {
        made(|out| self.try_start(sends, receives, out))
    }

    fn try_start(&self, sends: usize, receives: usize, out: *mut *mut braid_round) -> c_int {
        // SAFETY: the handle is open.
        let own = ok(unsafe { braid_group_rank(self.group) });
        let range = |rank, len| braid_range {
            offset: rank * EACH,
            len: if rank == own { EACH } else { len },
        };
        let even = |len| [0, 1].map(|rank| range(rank, len));
        let (sends, receives) = (even(sends), even(receives));
        // SAFETY: the arrays have a range for each rank.
        unsafe {
            let (sends, receives) = (sends.as_ptr(), receives.as_ptr());
            braid_group_start(self.group, self.send, sends, self.recv, receives, RANKS, out)
        }
    }

    fn memory(mr: *mut braid_mr) -> (*mut u8, usize) {
        // SAFETY: the handle is open, and the place is one.
        let info = queried(|info: *mut braid_mr_info| unsafe { braid_mr_query(mr, info) });
        (info.addr.cast(), info.len)
    }

    fn fill(&self, byte: u8) {
        let (start, len) = Self::memory(self.send);
        // SAFETY: the region has so many bytes, and no round is in flight.
        unsafe { start.write_bytes(byte, len) };
    }

    fn received(&self) -> Vec<u8> {
        let (start, len) = Self::memory(self.recv);
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts(start, len) }.to_vec()
    }

    fn end(&self) -> braid_group_end {
        // SAFETY: the handle is open, and the place is one.
        queried(|end| unsafe { braid_group_query_end(self.group, end) })
    }

    fn close(self) {
        // SAFETY: each handle is closed once, children first.
        unsafe {
            ok(braid_group_close(self.group));
            ok(braid_mr_close(self.send));
            ok(braid_mr_close(self.recv));
            ok(braid_pd_close(self.pd));
            ok(braid_engine_close(self.engine));
        }
    }
}

fn both() -> [Rank; 2] {
    let [(first, root), (second, _)] = [engine(), engine()];
    let first = first.expose_provenance();
    thread::scope(|scope| {
        let joins = scope.spawn(|| {
            Rank::join(ptr::with_exposed_provenance_mut(first), &config(0, RANKS, &root))
        });
        let other = Rank::join(second, &config(1, RANKS, &root));
        [joins.join().unwrap(), other]
    })
}

#[test]
fn ranks_exchange_and_leave() {
    let ranks = both();
    for (number, rank) in ranks.iter().enumerate() {
        // SAFETY: the handle is open.
        unsafe {
            assert_eq!(ok(braid_group_rank(rank.group)), number);
            assert_eq!(ok(braid_group_size(rank.group)), RANKS);
        }
        rank.fill(number as u8 + 1);
    }
    for _ in 0..3 {
        let rounds: Vec<_> = ranks.iter().map(|rank| rank.start(EACH, EACH)).collect();
        for round in rounds {
            // SAFETY: the handle is open until it is closed.
            unsafe {
                ok(braid_round_wait(round, PATIENCE_US));
                assert_eq!(braid_round_test(round), 1);
                ok(braid_round_close(round));
            }
        }
    }
    for rank in &ranks {
        let received = rank.received();
        assert!(received[..EACH].iter().all(|byte| *byte == 1));
        assert!(received[EACH..].iter().all(|byte| *byte == 2));
        assert_eq!(rank.end().blame, BRAID_BLAME_NONE);
    }
    ranks.into_iter().for_each(Rank::close);
}

#[test]
fn a_round_holds_its_memory_and_its_group_until_it_is_over() {
    let [first, second] = both();
    let round = first.start(EACH, EACH);
    // SAFETY: the handles are open.
    unsafe {
        assert_eq!(braid_round_test(round), 0);
        assert_eq!(braid_round_wait(round, 1000), BRAID_ERR_TIMED_OUT);
        assert!(last_error().contains("waits for the ranks [1]"), "{}", last_error());
        assert_eq!(braid_mr_close(first.send), BRAID_ERR_BUSY);
        assert!(last_error().contains("round"), "{}", last_error());
        assert_eq!(braid_group_close(first.group), BRAID_ERR_BUSY);
        let other = second.start(EACH, EACH);
        for round in [round, other] {
            ok(braid_round_wait(round, PATIENCE_US));
            ok(braid_round_close(round));
        }
    }
    for rank in [first, second] {
        rank.close();
    }
}

#[test]
fn counts_that_differ_are_named_at_both() {
    let ranks = both();
    let rounds = [ranks[0].start(EACH, EACH), ranks[1].start(EACH, EACH - 1)];
    for (rank, round) in ranks.iter().zip(rounds) {
        // SAFETY: the handle is open until it is closed.
        unsafe {
            assert_eq!(braid_round_wait(round, PATIENCE_US), BRAID_ERR_GROUP);
            ok(braid_round_close(round));
        }
        let end = rank.end();
        assert_eq!((end.blame, end.rank, end.receiver), (BRAID_BLAME_COUNTS, 0, 1));
        assert_eq!((end.round, end.sent, end.expected), (0, EACH as u64, EACH as u64 - 1));
    }
    ranks.into_iter().for_each(Rank::close);
}

#[test]
fn who_cancels_is_named_at_the_other() {
    let [first, second] = both();
    let cancelled = first.start(EACH, EACH);
    // SAFETY: the handles are open until they are closed.
    unsafe {
        ok(braid_round_cancel(cancelled));
        // The rank may learn about the cancellation before it starts its own round.
        let mut waits = ptr::null_mut();
        let code = match second.try_start(EACH, EACH, &raw mut waits) {
            BRAID_OK => braid_round_wait(waits, PATIENCE_US),
            code => code,
        };
        assert_eq!(code, BRAID_ERR_GROUP, "{}", last_error());
        if !waits.is_null() {
            ok(braid_round_close(waits));
        }
    }
    let end = second.end();
    assert_eq!((end.blame, end.rank, end.round), (BRAID_BLAME_CANCELLED, 0, 0));
    assert_eq!(end.told_by, 0);
    for rank in [first, second] {
        rank.close();
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let (engine, addr) = engine();
    let mut group = ptr::null_mut();
    let mut refused = |config: &braid_group_config, code, words: &str| {
        // SAFETY: the places are places.
        assert_eq!(unsafe { braid_group_join(engine, config, &raw mut group) }, code);
        assert!(last_error().contains(words), "{}", last_error());
    };
    refused(&config(0, 0, &addr), BRAID_ERR_INVALID, "`ranks` is 0");
    refused(&config(2, 2, &addr), BRAID_ERR_INVALID, "rank 2");
    refused(&config(0, 5000, &addr), BRAID_ERR_INVALID, "5000");
    refused(&config(0, 2, ""), BRAID_ERR_INVALID, "`root` is empty");
    refused(&config(0, 2, "nonsense"), BRAID_ERR_INVALID, "nonsense");
    refused(&config(0, 2, "192.0.2.1:9"), BRAID_ERR_INVALID, "192.0.2.1:9");
    let address = CString::new(addr.clone()).unwrap();
    let addresses = [address.as_ptr(), ptr::null()];
    let mut listed = config(0, 2, "");
    listed.addresses = addresses.as_ptr();
    refused(&listed, BRAID_ERR_NULL, "addresses");
    let both = braid_group_config { addresses: addresses.as_ptr(), ..config(0, 2, &addr) };
    refused(&both, BRAID_ERR_INVALID, "both set");
    let unending =
        braid_group_config { root: [b'1' as c_char; BRAID_ADDR_LEN], ..config(0, 2, "") };
    refused(&unending, BRAID_ERR_INVALID, "no NUL");
    let endless =
        braid_group_config { job: [b'j' as c_char; BRAID_JOB_LEN], ..config(0, 2, &addr) };
    refused(&endless, BRAID_ERR_INVALID, "job");
    let mut unshown = config(0, 2, &addr);
    unshown.job[0] = 7;
    refused(&unshown, BRAID_ERR_INVALID, "control characters");
    let alone = braid_group_config { timeout_us: 50_000, ..config(0, 2, &addr) };
    refused(&alone, BRAID_ERR_REJECTED, "1");
    // SAFETY: NULL is refused, and the engine is closed once.
    unsafe {
        assert_eq!(braid_group_join(engine, ptr::null(), &raw mut group), BRAID_ERR_NULL);
        assert_eq!(braid_group_join(engine, &raw const alone, ptr::null_mut()), BRAID_ERR_NULL);
        assert_eq!(braid_group_close(ptr::null_mut()), BRAID_ERR_NULL);
        assert_eq!(braid_round_test(ptr::null()), BRAID_ERR_NULL);
        assert_eq!(braid_round_close(engine.cast()), BRAID_ERR_HANDLE);
        ok(braid_engine_close(engine));
    }
}

#[test]
fn a_group_of_one_exchanges_with_itself() {
    let (engine, addr) = engine();
    let rank = Rank::join(engine, &config(0, 1, &addr));
    rank.fill(7);
    let range = braid_range { offset: 5, len: EACH };
    // SAFETY: the range is one, and the handles are open until they are closed.
    unsafe {
        let start = |ranks, range: &braid_range, out| {
            let range: *const braid_range = range;
            braid_group_start(rank.group, rank.send, range, rank.recv, range, ranks, out)
        };
        let mut round = ptr::null_mut();
        assert_eq!(start(2, &range, &raw mut round), BRAID_ERR_INVALID);
        assert!(last_error().contains("`ranks` is 2"), "{}", last_error());
        let beyond = braid_range { offset: usize::MAX, len: 2 };
        assert_eq!(start(1, &beyond, &raw mut round), BRAID_ERR_INVALID);
        assert_eq!(start(1, &range, ptr::null_mut()), BRAID_ERR_NULL);
        let round = made(|out| start(1, &range, out));
        ok(braid_round_wait(round, PATIENCE_US));
        ok(braid_round_close(round));
    }
    assert_eq!(rank.received()[4..7], [0, 7, 7]);
    rank.close();
}
