//! The profiler and the log.

use std::ffi::c_int;
use std::ptr;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use super::check::{Check, Stage};
use crate::logger::logged;
use crate::net::{NULL, Opaque, SUCCESS, Send};
use crate::pair::{Pair, Verdict, ensure, returns};

pub(super) const CHECKS: &[Check] = &[
    Check::new("profiler events", profiler).since(10),
    Check::new("statistics in the log", statistics),
];

static STARTED: AtomicUsize = AtomicUsize::new(0);
static STOPPED: AtomicUsize = AtomicUsize::new(0);
static STRANGE: AtomicUsize = AtomicUsize::new(0);
static PLUGIN: AtomicI64 = AtomicI64::new(0);

/// Gives every event a handle of its own, and wants it back.
unsafe extern "C" fn callback(
    event: *mut Opaque,
    kind: c_int,
    parent: Opaque,
    plugin: i64,
    description: Opaque,
) -> c_int {
    PLUGIN.store(plugin, Ordering::Relaxed);
    // SAFETY: the plugin gives a place for the event's handle.
    let place = unsafe { &mut *event };
    match kind {
        0 if place.is_null() && !parent.is_null() && !description.is_null() => {
            *place = (0x1000 + STARTED.fetch_add(1, Ordering::Relaxed)) as Opaque;
        }
        1 if !place.is_null() => {
            STOPPED.fetch_add(1, Ordering::Relaxed);
        }
        _ => {
            STRANGE.fetch_add(1, Ordering::Relaxed);
        }
    }
    0
}

fn profiler(stage: &Stage) -> Verdict {
    let net = &stage.net;
    let ctx = net.init(Some(callback)).map_err(|code| format!("init returned {code}"))?;
    let pair = Pair::new(net, ctx, 0)?;
    // Without handles there are no events.
    pair.exchange(1000, 1)?;
    ensure!(STARTED.load(Ordering::Relaxed) == 0, "there are events without a profiler handle");
    let (mut from, mut to) = pair.memory(2000)?;
    let mut parent = 7u64;
    let parent: Opaque = (&raw mut parent).cast();
    let mut recv = pair.receive(&mut to, &[(0, 1000, 0), (1000, 1000, 1)]);
    // Only the second of two buffers has a handle.
    recv.phandles = vec![ptr::null_mut(), parent];
    let mut received = NULL;
    returns("irecv", net.irecv(&mut recv, &raw mut received), SUCCESS)?;
    let received = pair.adopt(received);
    let mut sent = Vec::new();
    for tag in [0, 1] {
        let (data, mhandle) = (from.at(0), from.mhandle);
        let send = Send { comm: pair.send, data, size: 1000, tag, mhandle, phandle: parent };
        let mut request = ptr::null_mut();
        returns("isend", net.isend(&send, &raw mut request), SUCCESS)?;
        sent.push(pair.adopt(request));
    }
    pair.wait(received)?;
    sent.into_iter().try_for_each(|request| pair.wait(request).map(|_| ()))?;
    let counts = [&STARTED, &STOPPED, &STRANGE].map(|count| count.load(Ordering::Relaxed));
    ensure!(counts == [3, 3, 0], "started, stopped, strange events: {counts:?} instead of 3, 3, 0");
    let id = PLUGIN.load(Ordering::Relaxed);
    // 1 and 2 are NCCL's own transports, whose descriptions look different.
    ensure!(id >> 16 > 2 && id & 0xFFFF == 1, "the plugin calls itself {id:#x}");
    drop((from, to));
    pair.close()?;
    returns("finalize", net.finalize(ctx), SUCCESS)
}

fn statistics(stage: &Stage) -> Verdict {
    stage.connected(|pair| (0..3).try_for_each(|seed| pair.exchange(5000, seed)))?;
    let log = logged();
    for words in
        [["sent to", "3 messages, 15000 bytes"], ["received from", "3 messages, 15000 bytes"]]
    {
        let told = |(_, text): &(c_int, String)| words.iter().all(|word| text.contains(word));
        ensure!(log.iter().any(told), "no line has {words:?}: {log:?}");
    }
    let warnings: Vec<_> = log.iter().filter(|(level, _)| *level <= 2).collect();
    ensure!(warnings.is_empty(), "a clean run has warnings: {warnings:?}");
    Ok(())
}
