//! Receives of several buffers: one request, a tag for each buffer.

use std::ptr;

use super::check::{Check, Stage};
use crate::net::SUCCESS;
use crate::pair::{Memory, Pair, Request, Verdict, ensure, returns};

pub(super) const CHECKS: &[Check] = &[
    Check::new("groups of 8, sent in any order", any_order),
    Check::new("tags choose within the oldest group", oldest_group),
    Check::new("equal tags keep their order", equal_tags),
    Check::new("an empty `*request`, and one that is 1", optional_completion),
    Check::new("groups under load", under_load)
        .with(&[("BRAID_DROP", "0.01"), ("BRAID_REORDER", "0.02")])
        .udp_only(),
];

const SLOT: usize = 3000;

/// The parts of a group of 8 that begins at slot `first`, tags from `tag` on.
fn parts(first: usize, tag: i32) -> Vec<(usize, usize, i32)> {
    (0..8).map(|i| ((first + i) * SLOT, SLOT, tag + i as i32)).collect()
}

/// Sends slot `slot` with its own size, which differs from slot to slot.
fn send(pair: &Pair<'_>, from: &mut Memory<'_>, slot: usize, tag: i32) -> Verdict<Request> {
    from.fill(slot * SLOT, len(slot), slot as u64);
    pair.isend(from, slot * SLOT, len(slot), tag)
}

fn len(slot: usize) -> usize {
    SLOT - 100 * (slot % 8)
}

fn arrived(pair: &Pair<'_>, to: &Memory<'_>, group: Request, first: usize) -> Verdict {
    let sizes = pair.wait(group)?;
    for (i, size) in sizes.iter().enumerate() {
        let slot = first + i;
        ensure!(*size as usize == len(slot), "buffer {i}: {size} bytes, not {}", len(slot));
        ensure!(to.holds(slot * SLOT, len(slot), slot as u64), "buffer {i} has another's bytes");
    }
    Ok(())
}

fn any_order(stage: &Stage) -> Verdict {
    stage.connected(|pair| {
        let (mut from, mut to) = pair.memory(8 * SLOT)?;
        let group = pair.irecv(&mut to, &parts(0, 40))?;
        let order = [5, 0, 7, 2, 1, 6, 3, 4];
        let mut sent = Vec::new();
        for (n, slot) in order.into_iter().enumerate() {
            ensure!(pair.test(group)?.is_none(), "the group was done after {n} of 8 messages");
            sent.push(send(pair, &mut from, slot, 40 + slot as i32)?);
        }
        arrived(pair, &to, group, 0)?;
        sent.into_iter().try_for_each(|request| pair.wait(request).map(|_| ()))
    })
}

/// The second group's messages are sent first; they wait for the first group to fill.
fn oldest_group(stage: &Stage) -> Verdict {
    stage.connected(|pair| {
        let (mut from, mut to) = pair.memory(16 * SLOT)?;
        let first = pair.irecv(&mut to, &parts(0, 0))?;
        let second = pair.irecv(&mut to, &parts(8, 100))?;
        let mut sent = Vec::new();
        for slot in (8..16).rev() {
            sent.push(send(pair, &mut from, slot, 100 + slot as i32 - 8)?);
        }
        for request in &sent {
            ensure!(pair.test(*request)?.is_none(), "a send passed the oldest group");
        }
        ensure!(pair.test(second)?.is_none(), "the second group passed the first");
        for slot in 0..8 {
            sent.push(send(pair, &mut from, slot, slot as i32)?);
        }
        arrived(pair, &to, second, 8)?;
        arrived(pair, &to, first, 0)?;
        sent.into_iter().try_for_each(|request| pair.wait(request).map(|_| ()))
    })
}

fn equal_tags(stage: &Stage) -> Verdict {
    stage.connected(|pair| {
        let (mut from, mut to) = pair.memory(8 * SLOT)?;
        let parts: Vec<_> = (0..8).map(|i| (i * SLOT, SLOT, 6)).collect();
        let sent: Vec<_> =
            (0..8).map(|slot| send(pair, &mut from, slot, 6)).collect::<Verdict<_>>()?;
        let group = pair.irecv(&mut to, &parts)?;
        arrived(pair, &to, group, 0)?;
        sent.into_iter().try_for_each(|request| pair.wait(request).map(|_| ()))
    })
}

fn optional_completion(stage: &Stage) -> Verdict {
    stage.connected(|pair| {
        let (mut from, mut to) = pair.memory(SLOT)?;
        for before in [ptr::null_mut(), 0x1 as crate::net::Opaque] {
            let mut request = before;
            let mut recv = pair.receive(&mut to, &[(0, SLOT, 0)]);
            returns("irecv", pair.net.irecv(&mut recv, &raw mut request), SUCCESS)?;
            let given = !request.is_null() && request as usize != 1;
            ensure!(given, "irecv left {request:?} where {before:?} was");
            let request = pair.adopt(request);
            let sent = send(pair, &mut from, 0, 0)?;
            let sizes = pair.wait(request)?;
            ensure!(sizes[0] as usize == len(0), "{} bytes were reported", sizes[0]);
            pair.wait(sent)?;
        }
        Ok(())
    })
}

/// 100 groups of 1 to 8, each sent in another order.
fn under_load(stage: &Stage) -> Verdict {
    stage.connected(|pair| {
        let (mut from, mut to) = pair.memory(8 * SLOT)?;
        for round in 0..100usize {
            let count = round % 8 + 1;
            let parts: Vec<_> = (0..count).map(|i| (i * SLOT, SLOT, i as i32)).collect();
            let group = pair.irecv(&mut to, &parts)?;
            let mut sent = Vec::new();
            for n in 0..count {
                let slot = (n * [1, 3, 5, 7][round % 4] + round) % count;
                let slot = if sent.iter().any(|(known, _)| *known == slot) {
                    (0..count).find(|s| sent.iter().all(|(known, _)| known != s)).unwrap_or(0)
                } else {
                    slot
                };
                sent.push((slot, send(pair, &mut from, slot, slot as i32)?));
            }
            let sizes = pair.wait(group)?;
            for (slot, size) in sizes.iter().enumerate().take(count) {
                let intact = to.holds(slot * SLOT, len(slot), slot as u64);
                ensure!(*size as usize == len(slot) && intact, "round {round}, buffer {slot}");
            }
            sent.into_iter().try_for_each(|(_, request)| pair.wait(request).map(|_| ()))?;
        }
        Ok(())
    })
}
