//! Messages of all sizes, in all orders that NCCL uses, on clean and on bad links.

use std::collections::VecDeque;
use std::ptr;

use super::check::{Check, Stage};
use crate::net::SUCCESS;
use crate::pair::{Pair, Verdict, ensure, returns, until};

pub(super) const CHECKS: &[Check] = &[
    Check::new("sizes from 0 to 9 MiB", sizes),
    Check::new("32 requests in flight", in_flight),
    Check::new("sends before their receives", early_sends),
    Check::new("sizes may be NULL", null_sizes),
    Check::new("nothing to flush", flush),
    Check::new("words land whole", words),
    Check::new("memory registered twice", registered_twice),
    Check::new("loss 2 %, reordering 5 %", stream)
        .with(&[
            ("BRAID_DROP", "0.02"),
            ("BRAID_REORDER", "0.05"),
            ("BRAID_DUPLICATE", "0.01"),
            ("BRAID_CORRUPT", "0.002"),
            ("BRAID_SEED", "7"),
        ])
        .udp_only(),
    Check::new("small packets, one path", stream)
        .with(&[("BRAID_MTU", "1408"), ("BRAID_LB", "ecmp")]),
    Check::new("an engine thread", stream).with(&[("BRAID_THREADS", "1")]),
    Check::new("two engine threads, checks off", stream)
        .with(&[("BRAID_THREADS", "2"), ("BRAID_CRC", "off")]),
];

fn sizes(stage: &Stage) -> Verdict {
    stage.connected(|pair| {
        let sizes = [0, 1, 7, 8, 63, 64, 65, 4095, 4096, 65_535, 65_537, 1 << 20, (9 << 20) + 5];
        sizes.iter().enumerate().try_for_each(|(seed, size)| pair.exchange(*size, seed as u64))
    })
}

fn in_flight(stage: &Stage) -> Verdict {
    const EACH: usize = 70_000;
    const COUNT: usize = 32;
    stage.connected(|pair| {
        let (mut from, mut to) = pair.memory(EACH * COUNT)?;
        from.fill(0, EACH * COUNT, 9);
        let (mut received, mut sent) = (Vec::new(), Vec::new());
        for i in 0..COUNT {
            received.push(pair.irecv(&mut to, &[(i * EACH, EACH, 1)])?);
        }
        for i in 0..COUNT {
            sent.push(pair.isend(&mut from, i * EACH, EACH, 1)?);
        }
        let mut all = received.clone();
        all.extend(&sent);
        all.sort_by_key(|request| request.0 as usize);
        all.dedup();
        ensure!(all.len() == 2 * COUNT, "requests that are outstanding share an address");
        // The last one first: what it takes to finish it finishes the others, too.
        for request in received.iter().rev().chain(sent.iter().rev()) {
            pair.wait(*request)?;
        }
        ensure!(to.holds(0, EACH * COUNT, 9), "the messages arrived in the wrong places");
        Ok(())
    })
}

fn early_sends(stage: &Stage) -> Verdict {
    stage.connected(|pair| {
        let (mut from, mut to) = pair.memory(32 * 1000)?;
        from.fill(0, 32 * 1000, 4);
        let mut sent = Vec::new();
        for i in 0..32 {
            let taken = pair.try_isend(&mut from, i * 1000, 1000, 5)?;
            sent.push(taken.ok_or("an isend before its irecv was not taken")?);
        }
        for request in &sent {
            ensure!(pair.test(*request)?.is_none(), "a send was done before it was received");
        }
        for i in 0..32 {
            let received = pair.irecv(&mut to, &[(i * 1000, 1000, 5)])?;
            pair.wait(received)?;
        }
        sent.into_iter().try_for_each(|request| pair.wait(request).map(|_| ()))?;
        ensure!(to.holds(0, 32 * 1000, 4), "the messages arrived out of order");
        Ok(())
    })
}

fn null_sizes(stage: &Stage) -> Verdict {
    stage.connected(|pair| {
        let (mut from, mut to) = pair.memory(100)?;
        let requests = [pair.irecv(&mut to, &[(0, 100, 1)])?, pair.isend(&mut from, 0, 100, 1)?];
        let mut done = [0; 2];
        until("test", || {
            for (request, done) in requests.iter().zip(&mut done).filter(|(_, done)| **done == 0) {
                let code = pair.net.test(request.0, done, ptr::null_mut());
                returns("test(sizes NULL)", code, SUCCESS)?;
            }
            Ok((done == [1; 2]).then_some(()))
        })
    })
}

fn flush(stage: &Stage) -> Verdict {
    stage.connected(|pair| {
        let (_, mut to) = pair.memory(100)?;
        let mut request = 0x77 as crate::net::Opaque;
        let code = pair.net.iflush(pair.recv, to.at(0), to.mhandle, &raw mut request);
        returns("iflush", code, SUCCESS)?;
        ensure!(request.is_null(), "iflush of host memory gave a request");
        Ok(())
    })
}

/// NCCL's GPUs watch LL lines while they land: a word is there wholly or not at all.
fn words(stage: &Stage) -> Verdict {
    const WORDS: usize = 40_000;
    stage.connected(|pair| {
        let (mut from, mut to) = pair.memory(8 * WORDS)?;
        for round in 1..20u64 {
            let new = 0x0101_0101_0101_0101 * round;
            let old = 0x0101_0101_0101_0101 * (round - 1);
            for i in 0..WORDS {
                // SAFETY: the word lies in the sender's memory, which nobody reads now.
                unsafe { from.at(8 * i).cast::<u64>().write(new) };
            }
            let received = pair.irecv(&mut to, &[(0, 8 * WORDS, 1)])?;
            let sent = pair.isend(&mut from, 0, 8 * WORDS, 1)?;
            let mut at = 0;
            let mut sent_now = false;
            until("the words", || {
                sent_now = sent_now || pair.test(sent)?.is_some();
                while at < WORDS {
                    // SAFETY: the word lies in the receiver's memory; it may change at any time.
                    let word = unsafe { to.at(8 * at).cast::<u64>().read_volatile() };
                    ensure!(word == new || word == old, "a word was seen as {word:#x}");
                    if word == old {
                        break;
                    }
                    at += 1;
                }
                Ok((at == WORDS).then_some(()))
            })?;
            pair.wait(received)?;
            if !sent_now {
                pair.wait(sent)?;
            }
        }
        Ok(())
    })
}

fn registered_twice(stage: &Stage) -> Verdict {
    stage.connected(|pair| {
        let (_, mut to) = pair.memory(5000)?;
        let first = to.mhandle;
        let mut second = ptr::null_mut();
        let code = pair.net.reg_mr(pair.recv, to.at(0), 5000, crate::net::HOST, &raw mut second);
        returns("regMr of the same memory", code, SUCCESS)?;
        returns("deregMr", pair.net.dereg_mr(pair.recv, second), SUCCESS)?;
        ensure!(to.mhandle == first, "the first registration has changed");
        // The first one still holds.
        let mut from = crate::pair::Memory::new(pair.net, pair.send, 5000)?;
        from.fill(0, 5000, 2);
        let requests = [pair.irecv(&mut to, &[(0, 5000, 1)])?, pair.isend(&mut from, 0, 5000, 1)?];
        requests.into_iter().try_for_each(|request| pair.wait(request).map(|_| ()))?;
        ensure!(to.holds(0, 5000, 2), "the message arrived damaged");
        Ok(())
    })
}

/// 600 messages of all sizes, 8 outstanding, each of them checked.
fn stream(stage: &Stage) -> Verdict {
    stage.connected(|pair| stream_on(pair, 600))
}

pub(super) fn stream_on(pair: &Pair<'_>, count: usize) -> Verdict {
    const SLOT: usize = 100_000;
    const SLOTS: usize = 8;
    let size = |i: usize| (i * 7919) % SLOT + 8 * (i % 2);
    let (mut from, mut to) = pair.memory(SLOTS * (SLOT + 8))?;
    let mut outstanding = VecDeque::new();
    for i in 0..count + SLOTS {
        if outstanding.len() == SLOTS || i >= count {
            let Some((n, received, sent)) = outstanding.pop_front() else { break };
            let sizes = pair.wait(received)?;
            ensure!(sizes[0] as usize == size(n), "message {n}: {} bytes reported", sizes[0]);
            let intact = to.holds(n % SLOTS * (SLOT + 8), size(n), n as u64);
            ensure!(intact, "message {n} of {} bytes arrived damaged", size(n));
            pair.wait(sent)?;
        }
        if i < count {
            let offset = i % SLOTS * (SLOT + 8);
            from.fill(offset, size(i), i as u64);
            let received = pair.irecv(&mut to, &[(offset, SLOT + 8, 3)])?;
            outstanding.push_back((i, received, pair.isend(&mut from, offset, size(i), 3)?));
        }
    }
    ensure!(outstanding.is_empty(), "{} messages were not waited for", outstanding.len());
    Ok(())
}
