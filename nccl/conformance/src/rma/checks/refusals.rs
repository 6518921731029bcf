//! Calls that are refused, with the reason in NCCL's log, and ranks that are lost.

use std::ffi::c_int;
use std::time::{Duration, Instant};

use super::super::check::RmaCheck;
use super::super::rank::{Group, Listening, Rank, RankMemory};
use super::super::table::{Signal, Transfer};
use crate::logger::logged;
use crate::net::{
    CUDA, Code, HOST, INVALID_ARGUMENT, INVALID_USAGE, NULL, Opaque, REMOTE_ERROR, SUCCESS,
};
use crate::pair::{Verdict, ensure, returns, until};

pub(super) const CHECKS: &[RmaCheck] = &[
    RmaCheck::new("RMA: arguments out of range", 2, out_of_range),
    RmaCheck::new("RMA: NULL arguments", 1, null_arguments),
    RmaCheck::new("RMA: a device pointer that CUDA does not know", 2, unknown_pointer).on_gpu(),
    RmaCheck::new("RMA: DMA-BUF memory", 2, dma_buf),
    RmaCheck::new("RMA: unequal tables", 2, unequal_tables).mixes_tables(),
    RmaCheck::new("RMA: unequal numbers of contexts", 2, unequal_contexts),
    RmaCheck::new("RMA: unequal collective calls", 2, unequal_calls),
    RmaCheck::new("RMA: a context destroyed with puts in flight", 2, destroyed_in_flight)
        .with(&[("BRAID_DELAY_US", "100000")])
        .udp_only(),
    RmaCheck::new("RMA: a rank dies", 2, rank_dies).with(QUICK_DEATH).dies(1),
    RmaCheck::new("RMA: an idle rank dies", 2, idle_rank_dies).with(QUICK_DEATH).dies(1),
    RmaCheck::new("RMA: a rank does not come", 2, rank_missing)
        .with(&[("BRAID_CONNECT_TIMEOUT_MS", "1000")]),
];

const QUICK_DEATH: &[(&str, &str)] =
    &[("BRAID_PING_INTERVAL_MS", "200"), ("BRAID_PEER_TIMEOUT_MS", "2000")];

/// Fails unless the plugin has logged this as a warning.
fn told(words: &str) -> Verdict {
    let log = logged();
    let is_told = log.iter().any(|(level, text)| *level == 2 && text.contains(words));
    ensure!(is_told, "the log does not say `{words}`: {log:?}");
    Ok(())
}

fn refused(call: &str, code: Code, expected: Code, words: &str) -> Verdict {
    returns(call, code, expected)?;
    told(words)
}

fn out_of_range(rank: &Rank) -> Verdict {
    let table = &rank.table;
    let group = Group::new(rank)?;
    let contexts = group.contexts(1)?;
    let memory = RankMemory::new(&group, 4096)?;
    let mut put = contexts.put(0, 1);
    (put.from, put.to, put.size) = (memory.at(0), memory.at(0), 4096);
    let signal = Signal { at: memory.at(0), value: 1, operation: 2, is_strong: true };
    let mut request = NULL;
    let place = &raw mut request;
    for (changed, words) in [
        (Transfer { from: memory.at(1), ..put }, "`srcOff` is 1"),
        (Transfer { to: memory.at(4096), ..put }, "`dstOff` is 4096"),
        (Transfer { rank: 2, ..put }, "rank 2 does not exist"),
        (Transfer { context: 1, ..put }, "context 1 does not exist"),
        (Transfer { context: -1, ..put }, "context -1 does not exist"),
    ] {
        refused("iput", table.iput(&changed, place), INVALID_ARGUMENT, words)?;
        ensure!(request.is_null(), "a request of a refused call");
    }
    let get = Transfer { from: memory.at(8), ..put };
    refused("iget", table.iget(&get, place), INVALID_ARGUMENT, "`remoteOff` is 8")?;
    for (changed, words) in [
        (Signal { at: memory.at(4090), ..signal }, "`signalOff` is 4090"),
        (
            Signal { at: (memory.mhandle, u64::MAX), ..signal },
            "`signalOff` is 18446744073709551615",
        ),
        (Signal { at: memory.at(4), ..signal }, "multiple of 8"),
        (Signal { operation: 3, ..signal }, "signal operation 3"),
        (Signal { at: (NULL, 0), ..signal }, "`signalMhandle` is NULL"),
    ] {
        let code = table.iput_signal(&put, &changed, place);
        refused("iputSignal", code, INVALID_ARGUMENT, words)?;
    }
    let code = table.iflush(contexts.ctx, 0, NULL, 9, place);
    refused("iflush", code, INVALID_ARGUMENT, "rank 9 does not exist")?;
    ensure!(memory.word(0) == 0, "a refused signal has had an effect");
    // A put in range still works.
    contexts.iput(&put)?;
    contexts.finish()?;
    rank.barrier()?;
    contexts.destroy()?;
    drop(memory);
    let mut ctx = NULL;
    for count in [0, -1, 65_536] {
        let code = table.create_context(group.coll, count, 1, &raw mut ctx);
        refused("createContext", code, INVALID_ARGUMENT, &format!("{count} contexts"))?;
    }
    group.close()
}

fn null_arguments(rank: &Rank) -> Verdict {
    let table = &rank.table;
    let group = Group::new(rank)?;
    let contexts = group.contexts(1)?;
    let (put, mut request, mut done) = (contexts.put(0, 0), NULL, 0);
    let (place, nowhere) = (&raw mut request, std::ptr::null_mut());
    let whole = Transfer { size: 8, ..put };
    for (call, code) in [
        ("init", table.finalize(NULL)),
        ("listen", table.listen(NULL, NULL, nowhere)),
        ("connect", table.connect(&mut [NULL], 0, NULL, place)),
        ("createContext", table.create_context(NULL, 1, 1, place)),
        ("createContext", table.create_context(group.coll, 1, 1, nowhere)),
        ("regMrSym", table.reg_mr_sym(NULL, 8, 8, HOST, place)),
        ("regMrSym", table.reg_mr_sym(group.coll, 0, 8, HOST, place)),
        ("regMrSym", table.reg_mr_sym(group.coll, 8, 8, HOST, nowhere)),
        ("regMrSym", table.reg_mr_sym(group.coll, 8, 8, 4, place)),
        ("deregMrSym", table.dereg_mr_sym(group.coll, NULL)),
        ("destroyContext", table.destroy_context(NULL)),
        ("closeColl", table.close_coll(NULL)),
        ("closeListen", table.close_listen(NULL)),
        ("iput", table.iput(&put, nowhere)),
        ("iput", table.iput(&whole, place)),
        ("iget", table.iget(&whole, place)),
        ("iflush", table.iflush(NULL, 0, NULL, 0, place)),
        ("test", table.test(group.coll, NULL, &raw mut done)),
        ("test", table.test(NULL, 1 as Opaque, &raw mut done)),
        ("test", table.test(group.coll, 1 as Opaque, &raw mut done)),
        ("test", table.test(group.coll, u64::MAX as Opaque, &raw mut done)),
        ("progress", table.progress(NULL)),
    ] {
        returns(call, code, INVALID_ARGUMENT)?;
    }
    let query = table.query_last_error(NULL);
    ensure!(query.is_none_or(|it| it == Err(INVALID_ARGUMENT)), "queryLastError takes NULL");
    contexts.destroy()?;
    group.close()
}

/// Rank 1 registers an address that is not one of device memory.
fn unknown_pointer(rank: &Rank) -> Verdict {
    let group = Group::new(rank)?;
    let host = vec![0u64; 512];
    let (addr, expected, words) = match rank.rank {
        0 => (rank.gpu().allocate(4096)?, REMOTE_ERROR, "regMrSym failed at rank 1"),
        _ => (host.as_ptr() as u64, INVALID_ARGUMENT, "CUDA does not know device memory"),
    };
    let mut mhandle = NULL;
    let code = rank.table.reg_mr_sym(group.coll, addr, 4096, CUDA, &raw mut mhandle);
    refused("regMrSym", code, expected, words)?;
    ensure!(mhandle.is_null(), "memory is registered at one rank only");
    // The group goes on.
    drop(RankMemory::new(&group, 4096)?);
    group.close()
}

fn dma_buf(rank: &Rank) -> Verdict {
    let group = Group::new(rank)?;
    let mut mhandle = NULL;
    let code = rank.table.reg_mr_sym_dma_buf(group.coll, &raw mut mhandle);
    refused("regMrSymDmaBuf", code, INVALID_USAGE, "DMA-BUF memory is not supported")?;
    drop(RankMemory::new(&group, 4096)?);
    group.close()
}

fn unequal_tables(rank: &Rank) -> Verdict {
    let mut listening = Listening::new(rank)?;
    let mut coll = NULL;
    let code = listening.connect(&raw mut coll);
    refused("connect", code, INVALID_USAGE, "of the RMA table, this rank version")?;
    let ctx = listening.ctx;
    listening.close()?;
    returns("finalize", rank.table.finalize(ctx), SUCCESS)
}

fn unequal_contexts(rank: &Rank) -> Verdict {
    let group = Group::new(rank)?;
    let (contexts, mut ctx) = (2 + rank.rank as c_int, NULL);
    let code = rank.table.create_context(group.coll, contexts, 1, &raw mut ctx);
    refused("createContext", code, INVALID_USAGE, "creates a context with contexts")?;
    drop(RankMemory::new(&group, 64)?);
    group.close()
}

fn unequal_calls(rank: &Rank) -> Verdict {
    let group = Group::new(rank)?;
    let (memory, mut place) = (vec![0u64; 8], NULL);
    let (call, code) = match rank.rank {
        0 => ("createContext", rank.table.create_context(group.coll, 1, 1, &raw mut place)),
        _ => {
            let addr = memory.as_ptr() as u64;
            ("regMrSym", rank.table.reg_mr_sym(group.coll, addr, 64, HOST, &raw mut place))
        }
    };
    refused(call, code, INVALID_USAGE, "in the same order on all ranks")?;
    // The group goes on.
    drop(RankMemory::new(&group, 4096)?);
    group.close()
}

/// The request is an error afterwards, and no crash.
fn destroyed_in_flight(rank: &Rank) -> Verdict {
    let group = Group::new(rank)?;
    let contexts = group.contexts(1)?;
    let memory = RankMemory::new(&group, 4096)?;
    rank.barrier()?;
    if rank.rank == 0 {
        let mut put = contexts.put(0, 1);
        (put.from, put.to, put.size) = (memory.at(0), memory.at(0), 4096);
        contexts.iput(&put)?;
        let request = contexts.last_request();
        let code = rank.table.destroy_context(contexts.ctx);
        refused("destroyContext", code, INVALID_USAGE, "1 requests were in flight")?;
        ensure!(contexts.test(request) == Err(INVALID_ARGUMENT), "the request is known");
        rank.barrier()?;
    } else {
        rank.barrier()?;
        contexts.destroy()?;
    }
    drop(memory);
    group.close()
}

/// Rank 1 ends without a word. Rank 0 puts until that fails.
fn rank_dies(rank: &Rank) -> Verdict {
    let table = &rank.table;
    let group = Group::new(rank)?;
    let contexts = group.contexts(1)?;
    let memory = RankMemory::new(&group, 4096)?;
    rank.barrier()?;
    if rank.rank == 1 {
        std::process::abort();
    }
    let mut put = contexts.put(0, 1);
    (put.from, put.to, put.size) = (memory.at(0), memory.at(0), 4096);
    let (begun, mut request) = (Instant::now(), NULL);
    let code = loop {
        let code = table.iput(&put, &raw mut request);
        if code != SUCCESS {
            break code;
        }
        let ended = loop {
            match contexts.test(request) {
                Ok(false) => std::thread::yield_now(),
                Ok(true) => break SUCCESS,
                Err(code) => break code,
            }
        };
        if ended != SUCCESS {
            break ended;
        }
        ensure!(begun.elapsed() < Duration::from_secs(10), "puts to a dead rank succeed");
    };
    refused("a put", code, REMOTE_ERROR, "rank 1: ")?;
    let query = table.query_last_error(contexts.ctx);
    ensure!(query.is_none_or(|it| it == Ok(true)), "queryLastError sees no error");
    contexts.destroy()?;
    drop(memory);
    group.close()
}

/// No request is outstanding, so only the progress call and the query can tell.
fn idle_rank_dies(rank: &Rank) -> Verdict {
    let table = &rank.table;
    let group = Group::new(rank)?;
    let contexts = group.contexts(1)?;
    rank.barrier()?;
    if rank.rank == 1 {
        std::process::abort();
    }
    until("an error", || match table.progress(contexts.ctx) {
        SUCCESS => Ok(None),
        code => refused("progress", code, REMOTE_ERROR, "rank 1: ").map(Some),
    })?;
    let query = table.query_last_error(contexts.ctx);
    ensure!(query.is_none_or(|it| it == Ok(true)), "queryLastError sees no error");
    contexts.destroy()?;
    group.close()
}

/// Rank 1 never connects.
fn rank_missing(rank: &Rank) -> Verdict {
    let mut listening = Listening::new(rank)?;
    if rank.rank == 0 {
        let mut coll = NULL;
        let code = listening.connect(&raw mut coll);
        refused("connect", code, REMOTE_ERROR, "rank 1 did not take part within 1 s")?;
        ensure!(coll.is_null(), "there is a group of one rank");
    }
    rank.barrier()?;
    let ctx = listening.ctx;
    listening.close()?;
    returns("finalize", rank.table.finalize(ctx), SUCCESS)
}
