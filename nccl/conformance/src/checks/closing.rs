//! Closing, in orders that lose data elsewhere.

use super::check::{Check, Stage};
use crate::net::{REMOTE_ERROR, SUCCESS};
use crate::pair::{Pair, Verdict, ensure, returns, until};

pub(super) const CHECKS: &[Check] = &[
    Check::new("what has arrived comes before the end", arrived_first),
    Check::new("close with data in flight", in_flight),
    Check::new("the receiver closes first", receiver_first),
    Check::new("receives that nobody fills", unfilled),
    Check::new("sends after the receiver has closed", sends_to_nobody),
    Check::new("receives after the sender has closed", receives_from_nobody),
];

/// Requests that nobody tests: more than a communicator has.
const TOO_MANY: usize = 1000;

fn arrived_first(stage: &Stage) -> Verdict {
    stage.session(|net, ctx| {
        let pair = Pair::new(net, ctx, 0)?;
        let (mut from, mut to) = pair.memory(8 * 50_000)?;
        from.fill(0, 8 * 50_000, 1);
        let mut received = Vec::new();
        for i in 0..8 {
            received.push(pair.irecv(&mut to, &[(i * 50_000, 50_000, 0)])?);
        }
        let one_more = pair.irecv(&mut to, &[(0, 8, 0)])?;
        for i in 0..8 {
            let sent = pair.isend(&mut from, i * 50_000, 50_000, 0)?;
            // Only the sender looks: what has arrived is left for the receiver to find.
            until("test", || pair.test(sent))?;
        }
        drop(from);
        returns("closeSend", net.close_send(pair.send), SUCCESS)?;
        std::thread::sleep(std::time::Duration::from_millis(50));
        returns("test", pair.wait_for_failure(one_more)?, REMOTE_ERROR)?;
        for request in received {
            pair.wait(request)?;
        }
        ensure!(to.holds(0, 8 * 50_000, 1), "messages arrived damaged");
        drop(to);
        returns("closeRecv", net.close_recv(pair.recv), SUCCESS)
    })
}

fn in_flight(stage: &Stage) -> Verdict {
    const SIZE: usize = 4 << 20;
    stage.session(|net, ctx| {
        let pair = Pair::new(net, ctx, 0)?;
        let (mut from, mut to) = pair.memory(SIZE)?;
        from.fill(0, SIZE, 1);
        let received = pair.irecv(&mut to, &[(0, SIZE, 0)])?;
        // Time for the sender to learn where the message shall go.
        std::thread::sleep(std::time::Duration::from_millis(100));
        pair.isend(&mut from, 0, SIZE, 0)?;
        returns("closeSend", net.close_send(pair.send), SUCCESS)?;
        pair.forget_requests();
        let received = pair.adopt(received.0);
        let sizes = pair.wait(received)?;
        ensure!(sizes[0] as usize == SIZE, "{} bytes arrived", sizes[0]);
        ensure!(to.holds(0, SIZE, 1), "the message arrived damaged");
        drop((from, to));
        returns("closeRecv", net.close_recv(pair.recv), SUCCESS)
    })
}

fn receiver_first(stage: &Stage) -> Verdict {
    stage.session(|net, ctx| {
        let pair = Pair::new(net, ctx, 0)?;
        pair.exchange(1000, 1)?;
        let (mut from, to) = pair.memory(1000)?;
        let waiting = pair.isend(&mut from, 0, 1000, 0)?;
        drop(to);
        returns("closeRecv", net.close_recv(pair.recv), SUCCESS)?;
        returns("test", pair.wait_for_failure(waiting)?, REMOTE_ERROR)?;
        // It stays so, and closing is all that is left to do.
        returns("test", pair.wait_for_failure(waiting)?, REMOTE_ERROR)?;
        drop(from);
        returns("closeSend", net.close_send(pair.send), SUCCESS)
    })
}

/// As aws-ofi-nccl's `inflight_close` has it: the receiver deregisters and closes with receives
/// outstanding, and the sender does not know yet.
fn sends_to_nobody(stage: &Stage) -> Verdict {
    const SIZE: usize = 1 << 20;
    stage.session(|net, ctx| {
        let pair = Pair::new(net, ctx, 0)?;
        let (mut from, mut to) = pair.memory(SIZE)?;
        for _ in 0..4 {
            pair.irecv(&mut to, &[(0, SIZE, 0)])?;
        }
        pair.forget_requests();
        drop(to);
        returns("closeRecv", net.close_recv(pair.recv), SUCCESS)?;
        for _ in 0..20 {
            let sent = pair.isend(&mut from, 0, SIZE, 0)?;
            returns("test", pair.wait_for_failure(sent)?, REMOTE_ERROR)?;
        }
        // A caller that only posts does not wait for a free request for ever.
        let refused = (0..TOO_MANY).find_map(|_| pair.isend(&mut from, 0, SIZE, 0).err());
        let refused = refused.ok_or("isend takes any number of requests")?;
        ensure!(refused.contains(&format!("returned {REMOTE_ERROR} ")), "at last: {refused}");
        drop(from);
        returns("closeSend", net.close_send(pair.send), SUCCESS)
    })
}

/// The same the other way round.
fn receives_from_nobody(stage: &Stage) -> Verdict {
    const SIZE: usize = 1 << 20;
    stage.session(|net, ctx| {
        let pair = Pair::new(net, ctx, 0)?;
        let (mut from, mut to) = pair.memory(SIZE)?;
        pair.isend(&mut from, 0, SIZE, 0)?;
        pair.forget_requests();
        drop(from);
        returns("closeSend", net.close_send(pair.send), SUCCESS)?;
        for _ in 0..20 {
            let received = pair.irecv(&mut to, &[(0, SIZE, 0), (0, SIZE, 1)])?;
            returns("test", pair.wait_for_failure(received)?, REMOTE_ERROR)?;
        }
        let refused = (0..TOO_MANY).find_map(|_| pair.irecv(&mut to, &[(0, SIZE, 0)]).err());
        let refused = refused.ok_or("irecv takes any number of requests")?;
        ensure!(refused.contains(&format!("returned {REMOTE_ERROR} ")), "at last: {refused}");
        drop(to);
        returns("closeRecv", net.close_recv(pair.recv), SUCCESS)
    })
}

fn unfilled(stage: &Stage) -> Verdict {
    stage.connected(|pair| {
        let (mut from, mut to) = pair.memory(64)?;
        pair.irecv(&mut to, &[(0, 64, 0)])?;
        pair.isend(&mut from, 0, 64, 99)?;
        Ok(())
    })
}
