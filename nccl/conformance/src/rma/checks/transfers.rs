//! Puts, gets and flushes, to all ranks and to the own one.

use super::super::check::{RmaCheck, pattern};
use super::super::rank::{Contexts, Group, Rank, RankMemory};
use super::super::table::{MEMBERS, Signal};
use crate::pair::{Verdict, ensure};

pub(super) const CHECKS: &[RmaCheck] = &[
    RmaCheck::new("RMA: members and properties", 1, properties),
    RmaCheck::new("RMA: one rank puts to itself", 1, puts_to_all),
    RmaCheck::new("RMA: puts between two ranks", 2, puts_to_all),
    RmaCheck::new("RMA: puts between two ranks, GPU", 2, puts_to_all).on_gpu(),
    RmaCheck::new("RMA: puts between four ranks, engine threads", 4, puts_to_all)
        .with(&[("BRAID_THREADS", "1")]),
    RmaCheck::new("RMA: gets and flushes", 2, gets),
    RmaCheck::new("RMA: gets and flushes, GPU, lossy", 2, gets).on_gpu().with(LOSSY).udp_only(),
    RmaCheck::new("RMA: 256 requests to each rank", 3, many_requests),
    RmaCheck::new("RMA: contexts come and go", 3, contexts_come_and_go),
    RmaCheck::new("RMA: ranks of a stride", 4, strides),
];

const LOSSY: &[(&str, &str)] = &[("BRAID_DROP", "0.02"), ("BRAID_REORDER", "0.02")];
/// Lengths of puts: within a packet, of several, and of several work requests.
const SIZES: [usize; 6] = [1, 8, 4096, 100_003, 1 << 20, (9 << 20) + 5];

fn properties(rank: &Rank) -> Verdict {
    for name in MEMBERS {
        let may_be_called = name != "queryLastError" || rank.table.has_stride();
        let is_null = rank.table.pointer(name).is_null();
        ensure!(is_null != may_be_called, "{name} is NULL: {is_null}");
    }
    let ctx = rank.table.init().map_err(|code| format!("init returned {code}"))?;
    let found = rank.table.properties(0)?;
    // GIN_PROXY; memory of the host and of CUDA, no DMA-BUF.
    for (field, value) in [("netDeviceType", 2), ("ptrSupport", 3), ("maxRecvs", 8)] {
        ensure!(found.number(field) == Some(value), "{field} is {:?}", found.number(field));
    }
    ensure!(rank.table.finalize(ctx) == 0, "finalize fails");
    Ok(())
}

/// Every rank puts to every rank in two contexts, with increments and with additions.
fn puts_to_all(rank: &Rank) -> Verdict {
    let (own, ranks, largest) = (rank.rank, rank.ranks, SIZES[SIZES.len() - 1]);
    let group = Group::new(rank)?;
    let contexts = group.contexts(2)?;
    let source = RankMemory::new(&group, largest)?;
    let target = RankMemory::new(&group, ranks * largest)?;
    let signals = RankMemory::new(&group, 8 * ranks)?;
    for (round, size) in SIZES.into_iter().enumerate() {
        let seed = |from: usize| (from * 100 + round) as u64;
        source.write(0, &pattern(seed(own), size));
        for peer in 0..ranks {
            let mut put = contexts.put(round % 2, peer);
            (put.from, put.to, put.size) = (source.at(0), target.at(own * largest), size);
            let at = signals.at(8 * own);
            // 1 by an increment, whose value does not count, and 1000 by an addition.
            let signal = Signal { at, value: 77, operation: 1, is_strong: round % 3 != 0 };
            contexts.iput_signal(&put, &signal)?;
            put.size = 0;
            contexts.iput_signal(&put, &Signal { value: 1000, operation: 2, ..signal })?;
            contexts.iput(&put)?;
        }
        let all = 1001 * (round as u64 + 1);
        contexts.turn_until("the signals of all ranks", || {
            (0..ranks).all(|peer| signals.word(8 * peer) == all)
        })?;
        for peer in 0..ranks {
            let whole = target.read(peer * largest, size) == pattern(seed(peer), size);
            ensure!(whole, "{size} bytes of rank {peer} arrived damaged");
        }
        contexts.finish()?;
        rank.barrier()?;
    }
    let has_error = rank.table.query_last_error(contexts.ctx);
    ensure!(has_error.is_none_or(|it| it == Ok(false)), "there is an error: {has_error:?}");
    end(contexts, rank)?;
    drop((source, target, signals));
    group.close()
}

/// Ends contexts when all ranks are done with them.
fn end(contexts: Contexts<'_>, rank: &Rank) -> Verdict {
    contexts.finish()?;
    rank.barrier()?;
    contexts.destroy()
}

/// Every rank reads from every rank, and flushes behind it as NCCL's kernels do.
fn gets(rank: &Rank) -> Verdict {
    let (own, ranks, largest) = (rank.rank, rank.ranks, SIZES[SIZES.len() - 1]);
    let group = Group::new(rank)?;
    let contexts = group.contexts(1)?;
    let source = RankMemory::new(&group, largest)?;
    let target = RankMemory::new(&group, ranks * largest)?;
    for (round, size) in SIZES.into_iter().enumerate() {
        let seed = |from: usize| (from * 100 + round) as u64;
        source.write(0, &pattern(seed(own), size));
        rank.barrier()?;
        for peer in 0..ranks {
            let mut get = contexts.put(0, peer);
            (get.from, get.to, get.size) = (source.at(0), target.at(peer * largest), size);
            contexts.iget(&get)?;
            contexts.iflush(0, peer)?;
            let flushed = contexts.last_request();
            contexts.turn_until("a flush", || !contexts.has_request(flushed))?;
            let whole = target.read(peer * largest, size) == pattern(seed(peer), size);
            ensure!(whole, "{size} bytes of rank {peer} are damaged behind the flush");
        }
        contexts.finish()?;
        rank.barrier()?;
    }
    end(contexts, rank)?;
    drop((source, target));
    group.close()
}

/// Fills the queues as NCCL does: its most requests to each rank, and one more to flush.
fn many_requests(rank: &Rank) -> Verdict {
    const MOST: usize = 32 * 8;
    let (own, ranks) = (rank.rank, rank.ranks);
    let group = Group::new(rank)?;
    let contexts = group.contexts(1)?;
    let memory = RankMemory::new(&group, 8 * MOST * ranks * 2)?;
    let half = 8 * MOST * ranks;
    for at in 0..MOST {
        let value = (own * MOST + at) as u64 + 1;
        memory.write(8 * at, &value.to_ne_bytes());
    }
    rank.barrier()?;
    for peer in 0..ranks {
        for at in 0..MOST {
            let mut put = contexts.put(0, peer);
            put.from = memory.at(8 * at);
            (put.to, put.size) = (memory.at(half + 8 * (own * MOST + at)), 8);
            contexts.iput(&put)?;
        }
        contexts.iflush(0, peer)?;
    }
    contexts.turn_until("the words of all ranks", || {
        (0..MOST * ranks).all(|at| memory.word(half + 8 * at) == at as u64 + 1)
    })?;
    end(contexts, rank)?;
    drop(memory);
    group.close()
}

/// A request of contexts that are gone is an error, also when new ones have their place.
fn contexts_come_and_go(rank: &Rank) -> Verdict {
    let group = Group::new(rank)?;
    let memory = RankMemory::new(&group, 4096)?;
    for round in 1..=3 {
        let contexts = group.contexts(round)?;
        let mut stale = std::ptr::null_mut();
        for peer in 0..rank.ranks {
            let mut put = contexts.put(round as usize - 1, peer);
            (put.from, put.to, put.size) = (memory.at(0), memory.at(64 * (rank.rank + 1)), 64);
            contexts.iput(&put)?;
            stale = contexts.last_request();
        }
        contexts.finish()?;
        ensure!(contexts.test(stale) == Err(4), "a request is over and known");
        end(contexts, rank)?;
        let next = group.contexts(1)?;
        ensure!(next.test(stale) == Err(4), "a request of other contexts is known");
        end(next, rank)?;
    }
    drop(memory);
    group.close()
}

/// With a stride of 2, ranks of the same parity are connected. v13 has no strides.
fn strides(rank: &Rank) -> Verdict {
    let group = Group::new(rank)?;
    let stride = if rank.table.has_stride() { 2 } else { 1 };
    let contexts = group.contexts_of_stride(1, stride as i32)?;
    let memory = RankMemory::new(&group, 4096)?;
    let connected = |peer: usize| peer.abs_diff(rank.rank).is_multiple_of(stride);
    for peer in 0..rank.ranks {
        let put = contexts.put(0, peer);
        let at = memory.at(8 * rank.rank);
        let signal = Signal { at, value: 1, operation: 1, is_strong: true };
        let begun = contexts.iput_signal(&put, &signal);
        ensure!(begun.is_ok() == connected(peer), "rank {peer}: {begun:?}");
    }
    contexts.turn_until("the signals", || {
        (0..rank.ranks).filter(|peer| connected(*peer)).all(|peer| memory.word(8 * peer) == 1)
    })?;
    end(contexts, rank)?;
    drop(memory);
    group.close()
}
