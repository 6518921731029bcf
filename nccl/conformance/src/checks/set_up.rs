//! Listening, connecting and accepting, none of which may block.

use std::ptr;
use std::thread;
use std::time::{Duration, Instant};

use super::check::{Check, Stage};
use crate::handle::Handle;
use crate::net::{INVALID_ARGUMENT, NULL, Net, Opaque, REMOTE_ERROR, SUCCESS};
use crate::pair::{Pair, Verdict, ensure, listen, returns, until};

pub(super) const CHECKS: &[Check] = &[
    Check::new("connection states", states),
    Check::new("slow accept", slow_accept),
    Check::new("bad handles", bad_handles),
    Check::new("many connections at once", many),
    Check::new("two communicators", two_communicators),
    Check::new("nobody answers", nobody_answers)
        .with(&[("BRAID_DROP", "1"), ("BRAID_CONNECT_TIMEOUT_MS", "700")])
        .udp_only(),
    Check::new("listener closed before accept", closed_before_accept),
    Check::new("abandoned connect", abandoned).since(11),
];

/// A call that does not block takes no longer than this, even on a busy machine.
const AT_ONCE: Duration = Duration::from_millis(500);

fn states(stage: &Stage) -> Verdict {
    stage.session(|net, ctx| {
        let (listener, mut handle) = listen(net, ctx, 0)?;
        let strange = 0x77 as Opaque;
        let mut recv = strange;
        returns("accept with nobody there", net.accept(listener, &raw mut recv), SUCCESS)?;
        ensure!(recv.is_null(), "accept gave a communicator with nobody there");
        let mut send = strange;
        let since = Instant::now();
        for _ in 0..100 {
            let code = net.connect(ctx, 0, &raw mut handle, &raw mut send);
            returns("connect before accept", code, SUCCESS)?;
            ensure!(send.is_null(), "connect was ready before accept");
        }
        ensure!(since.elapsed() < AT_ONCE, "100 calls of connect took {:?}", since.elapsed());
        let (send, recv) = finish(net, ctx, listener, &mut handle)?;
        ensure!(!ptr::eq(send, recv), "both ends are the same communicator");
        returns("closeListen", net.close_listen(listener), SUCCESS)?;
        let pair = Pair::of(net, send, recv);
        pair.exchange(10_000, 1)?;
        pair.close()
    })
}

/// Connects and accepts until both are ready.
fn finish(
    net: &Net,
    ctx: Opaque,
    listener: Opaque,
    handle: &mut Handle,
) -> Verdict<(Opaque, Opaque)> {
    let (mut send, mut recv) = (NULL, NULL);
    until("connect and accept", || {
        if send.is_null() {
            returns("connect", net.connect(ctx, 0, handle, &raw mut send), SUCCESS)?;
        }
        if recv.is_null() {
            returns("accept", net.accept(listener, &raw mut recv), SUCCESS)?;
        }
        Ok((!send.is_null() && !recv.is_null()).then_some((send, recv)))
    })
}

fn slow_accept(stage: &Stage) -> Verdict {
    stage.session(|net, ctx| {
        let (listener, mut handle) = listen(net, ctx, 0)?;
        let mut send = NULL;
        let since = Instant::now();
        while since.elapsed() < Duration::from_millis(1500) {
            returns("connect", net.connect(ctx, 0, &raw mut handle, &raw mut send), SUCCESS)?;
            ensure!(send.is_null(), "connect was ready before accept");
            thread::sleep(Duration::from_millis(5));
        }
        let (send, recv) = finish(net, ctx, listener, &mut handle)?;
        returns("closeListen", net.close_listen(listener), SUCCESS)?;
        let pair = Pair::of(net, send, recv);
        pair.exchange(10_000, 1)?;
        pair.close()
    })
}

fn bad_handles(stage: &Stage) -> Verdict {
    stage.session(|net, ctx| {
        let (listener, good) = listen(net, ctx, 0)?;
        let mut wrong = vec![("zeros", Handle([0; 128])), ("noise", Handle([0x5A; 128]))];
        // The version follows the name; then come address and number, which are checked.
        for (what, at) in
            [("another version", 8), ("a damaged address", 17), ("a damaged number", 41)]
        {
            let mut handle = good;
            handle.0[at] ^= 0x55;
            wrong.push((what, handle));
        }
        for (what, mut handle) in wrong {
            let mut send = 0x77 as Opaque;
            let code = net.connect(ctx, 0, &raw mut handle, &raw mut send);
            returns(&format!("connect with {what}"), code, INVALID_ARGUMENT)?;
            ensure!(send.is_null(), "connect with {what} gave a communicator");
        }
        returns("closeListen", net.close_listen(listener), SUCCESS)
    })
}

/// 24 connections to one listener and to another, accepted in whatever order they come.
fn many(stage: &Stage) -> Verdict {
    const EACH: usize = 12;
    stage.session(|net, ctx| {
        let listeners = [listen(net, ctx, 0)?, listen(net, ctx, 0)?];
        let mut ends: Vec<_> = (0..2 * EACH).map(|i| (listeners[i % 2].1, NULL)).collect();
        let mut accepted: [Vec<Opaque>; 2] = [vec![], vec![]];
        until("24 connections", || {
            for (handle, send) in ends.iter_mut().filter(|(_, send)| send.is_null()) {
                returns("connect", net.connect(ctx, 0, handle, send), SUCCESS)?;
            }
            for (listener, accepted) in listeners.iter().zip(&mut accepted) {
                let mut recv = NULL;
                returns("accept", net.accept(listener.0, &raw mut recv), SUCCESS)?;
                accepted.extend((!recv.is_null()).then_some(recv));
            }
            let ready = ends.iter().all(|(_, send)| !send.is_null());
            Ok((ready && accepted.iter().all(|accepted| accepted.len() == EACH)).then_some(()))
        })?;
        for (_, send) in ends {
            returns("closeSend", net.close_send(send), SUCCESS)?;
        }
        for recv in accepted.into_iter().flatten() {
            returns("closeRecv", net.close_recv(recv), SUCCESS)?;
        }
        listeners.iter().try_for_each(|l| returns("closeListen", net.close_listen(l.0), SUCCESS))
    })
}

/// NCCL initialises once per communicator from v11 on; the end of one does not touch the other.
fn two_communicators(stage: &Stage) -> Verdict {
    let net = &stage.net;
    let init = || net.init(None).map_err(|code| format!("init returned {code}"));
    let (first, second) = (init()?, init()?);
    let pairs = (Pair::new(net, first, 0)?, Pair::new(net, second, 0)?);
    for seed in 0..4 {
        pairs.0.exchange(200_000, seed)?;
        pairs.1.exchange(100_000, seed + 100)?;
    }
    pairs.0.close()?;
    returns("finalize", net.finalize(first), SUCCESS)?;
    pairs.1.exchange(1 << 20, 5)?;
    pairs.1.close()?;
    returns("finalize", net.finalize(second), SUCCESS)
}

fn nobody_answers(stage: &Stage) -> Verdict {
    stage.session(|net, ctx| {
        let (listener, mut handle) = listen(net, ctx, 0)?;
        let since = Instant::now();
        let mut send = NULL;
        let code = until("the end of connecting", || {
            let code = net.connect(ctx, 0, &raw mut handle, &raw mut send);
            Ok((code != SUCCESS).then_some(code))
        })?;
        returns("connect", code, REMOTE_ERROR)?;
        ensure!(since.elapsed() < Duration::from_secs(10), "it took {:?}", since.elapsed());
        returns("closeListen", net.close_listen(listener), SUCCESS)
    })
}

/// A connecting rank fails at once when its listener is closed, and so does one that connects
/// later.
fn closed_before_accept(stage: &Stage) -> Verdict {
    stage.session(|net, ctx| {
        let (closed, handle) = listen(net, ctx, 0)?;
        let (other, _) = listen(net, ctx, 0)?;
        let (mut waits, mut comes_later) = (handle, handle);
        let mut send = NULL;
        let since = Instant::now();
        while since.elapsed() < Duration::from_millis(200) {
            returns("connect", net.connect(ctx, 0, &raw mut waits, &raw mut send), SUCCESS)?;
            thread::sleep(Duration::from_millis(5));
        }
        returns("closeListen", net.close_listen(closed), SUCCESS)?;
        for handle in [&mut waits, &mut comes_later] {
            let code = until("the end of connecting", || {
                let code = net.connect(ctx, 0, handle, &raw mut send);
                Ok((code != SUCCESS).then_some(code))
            })?;
            returns("connect", code, REMOTE_ERROR)?;
        }
        returns("closeListen", net.close_listen(other), SUCCESS)
    })
}

/// NCCL may give up while it connects. The plugin only learns of it in `finalize`.
fn abandoned(stage: &Stage) -> Verdict {
    let threads = || std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count);
    let before = threads();
    stage.session(|net, ctx| {
        let (listener, mut handle) = listen(net, ctx, 0)?;
        let mut send = NULL;
        returns("connect", net.connect(ctx, 0, &raw mut handle, &raw mut send), SUCCESS)?;
        returns("closeListen", net.close_listen(listener), SUCCESS)
    })?;
    thread::sleep(Duration::from_millis(20));
    ensure!(threads() == before, "{} threads before, {} after finalize", before, threads());
    Ok(())
}
