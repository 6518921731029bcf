//! Says of every completion whether it may come now, and looks at the memory it speaks of.

use braid_transport::{AtomicOp, Completion, LossRecovery, SendOp, Status, Work};
use braid_wire::{AtomicOperands, RailId};

use super::changes::Changes;
use super::host::Host;
use super::memory::{AreaId, HostMemory, State};
use super::pattern::{Content, differs};
use super::queue::{Fate, RECV_ID};
use super::world::World;

impl World {
    pub(crate) fn on_completion(&mut self, host: usize, done: &Completion) {
        let qp = self.hosts[host].link_of(done.qp);
        if done.wr_id >= RECV_ID {
            assert!(done.work.is_recv(), "{done:?}");
            self.on_recv_completion(host, qp, done);
        } else {
            assert!(!done.work.is_recv(), "{done:?}");
            self.on_send_completion(host, qp, done);
        }
    }

    fn on_send_completion(&mut self, host: usize, qp: usize, done: &Completion) {
        let (now, queue) = (self.now, &self.queues[host][qp]);
        let index = done.wr_id as usize;
        assert!(index < queue.posted, "{done:?} was never posted");
        assert!(index >= queue.retired, "{done:?} comes a second time, or out of order");
        assert_eq!(done.work, queue.sends[index].wr.op.work(), "{done:?}");
        let skipped = queue.retired..index;
        for i in skipped.clone() {
            assert!(!queue.sends[i].wr.signalled, "send {i} has no completion, {index} has");
        }
        if queue.failure.is_some() {
            assert_eq!(done.status, Status::Flushed, "{done:?} after a failure");
            assert!(skipped.is_empty(), "after a failure every work request completes");
        } else {
            skipped.for_each(|i| self.succeed(host, qp, i));
        }
        if done.status == Status::Success {
            let send = &self.queues[host][qp].sends[index];
            assert!(send.wr.signalled, "{done:?} for an unsignalled work request");
            assert_eq!(done.len, send.len, "{done:?}");
            self.succeed(host, qp, index);
        } else {
            self.fail(host, qp, index, done.status);
        }
        let queue = &mut self.queues[host][qp];
        queue.retired = index + 1;
        if done.status != Status::Success && queue.failure.is_none() {
            queue.failure = Some((index, done.status, now));
        }
    }

    /// A send has ended well: the application owns all its memory again.
    fn succeed(&mut self, host: usize, qp: usize, index: usize) {
        let send = self.queues[host][qp].sends[index].clone();
        match send.wr.op {
            SendOp::Send { .. } | SendOp::Write { .. } => {}
            SendOp::Read { .. } => {
                let changes = self.changes.as_ref();
                verify(changes, &self.hosts[host].memory, &send.local, send.content, send.len);
            }
            op => self.verify_atomic(host, op, send.local[0]),
        }
        send.local.iter().for_each(|area| self.take_back(host, *area));
        self.verify_writes(host, qp, index);
    }

    fn fail(&mut self, host: usize, qp: usize, index: usize, status: Status) {
        let now = self.now;
        let queue = &self.queues[host][qp];
        assert_eq!(queue.fate, Fate::Dies, "send {index} of QP {qp} fails at {now:?}: {status}");
        let send = queue.sends[index].clone();
        send.local.iter().for_each(|area| self.take_back(host, *area));
    }

    fn verify_atomic(&mut self, host: usize, op: SendOp, landing: AreaId) {
        let fetched = self.hosts[host].memory.read(landing);
        let fetched = u64::from_ne_bytes(fetched.try_into().expect("8 bytes"));
        let wanted = as_atomic(op).expect("an atomic");
        let log = self.hosts[1 - host].memory.atomics();
        let mut carried_out = log.iter().filter(|record| record.op == wanted);
        let record = carried_out.next().expect("an atomic completes that was never carried out");
        assert!(carried_out.next().is_none(), "{op:?} was carried out twice");
        assert_eq!(fetched, record.before, "{op:?} fetched a wrong value");
    }

    /// All WRITEs up to `through` are complete: at the initiator, or because the peer got a receive
    /// completion of something behind them.
    fn verify_writes(&mut self, host: usize, qp: usize, through: usize) {
        let from = self.queues[host][qp].verified;
        for index in from..=through {
            let send = &self.queues[host][qp].sends[index];
            let (content, len, keep) = (send.content, send.len, send.keep);
            let Some(target) = send.target else { continue };
            let memory = &mut self.hosts[1 - host].memory;
            verify(self.changes.as_ref(), memory, &[target], content, len);
            expect(memory, &[target], len);
            memory.set_state(target, State::Closed);
            if !keep {
                self.take_back(1 - host, target);
            }
        }
        self.queues[host][qp].verified = from.max(through + 1);
    }

    fn on_recv_completion(&mut self, host: usize, qp: usize, done: &Completion) {
        let queue = &self.queues[host][qp];
        let index = (done.wr_id - RECV_ID) as usize;
        assert!(index < queue.recv_posted, "{done:?} was never posted");
        assert_eq!(index, queue.recv_done, "{done:?} comes a second time, or out of order");
        if queue.recv_failure.is_some() {
            assert_eq!(done.status, Status::Flushed, "{done:?} after a failure");
        }
        if done.status == Status::Success {
            self.received(host, qp, index, done);
        } else {
            self.fail_recv(host, qp, index, done.status);
        }
        self.queues[host][qp].recv_done += 1;
        if let Some(shared) = &mut self.hosts[host].shared {
            shared.on_ended(qp);
        }
    }

    /// Nothing was lost: no path may have been taken out of use, whatever the applications did, and
    /// however long hosts paused. If none paused, nothing was declared lost either, by a method
    /// that does not guess.
    pub(crate) fn check_paths(&self) {
        // Its receiver drops what comes out of order, and paths differ.
        let recovery = self.settings.qp[0].recovery;
        if recovery == LossRecovery::GoBackN {
            return;
        }
        for (index, host) in self.hosts.iter().enumerate() {
            for report in host.inner.rails.paths() {
                let counters = report.counters;
                assert_eq!(counters.downs, 0, "host {index}: {:?} was taken down", report.path);
            }
            if self.settings.pause.is_zero() && recovery == LossRecovery::FifoPath {
                self.check_losses(index, host);
            }
            for rail in (0..host.inner.rails.count()).map(RailId::new) {
                assert_eq!(
                    host.inner.rails.downs(rail),
                    0,
                    "host {index}: {rail:?} was taken down"
                );
            }
        }
    }

    /// Checks that nothing was declared lost. The exception is a segment that the peer refused for
    /// lack of a receive: the acknowledgement of a later segment of its path may overtake the NAK.
    fn check_losses(&self, index: usize, host: &Host) {
        for (link, peers) in host.links.iter().zip(&self.hosts[1 - index].links) {
            let Some(slot) = link.slot else { continue };
            let lost = host.inner.endpoint.qp(slot).counters().lost;
            let refused = if self.settings.has_uneven_paths() { peers.unready } else { 0 };
            assert!(lost <= refused, "host {index}: {lost} segments were declared lost");
        }
    }

    fn received(&mut self, host: usize, qp: usize, index: usize, done: &Completion) {
        let peer = &self.queues[1 - host][qp];
        let sent = peer.consumers[index];
        assert!(sent < peer.posted, "{done:?} for a message that was never posted");
        let message = peer.sends[sent].clone();
        assert_eq!(done.len, message.len, "{done:?}");
        assert_eq!(done.imm, message.imm(), "{done:?}");
        assert_eq!(done.solicited, message.wr.solicited, "{done:?}");
        let areas = self.queues[host][qp].recvs[index].areas.clone();
        let is_send = matches!(message.wr.op, SendOp::Send { .. });
        assert_eq!(done.work, if is_send { Work::Recv } else { Work::RecvWriteImm }, "{done:?}");
        if is_send {
            let (changes, memory) = (self.changes.as_ref(), &self.hosts[host].memory);
            verify(changes, memory, &areas, message.content, message.len);
            // What lies behind the message must be untouched, and is compared at the end.
            expect(&mut self.hosts[host].memory, &areas, message.len);
        }
        self.hosts[host].memory.audit_areas(&areas);
        areas.iter().for_each(|area| self.take_back(host, *area));
        self.verify_writes(1 - host, qp, sent);
    }

    fn fail_recv(&mut self, host: usize, qp: usize, index: usize, status: Status) {
        let now = self.now;
        let queue = &mut self.queues[host][qp];
        assert_eq!(queue.fate, Fate::Dies, "receive {index} of QP {qp} fails at {now:?}: {status}");
        queue.recv_failure.get_or_insert((index, status, now));
        let areas = queue.recvs[index].areas.clone();
        areas.iter().for_each(|area| self.take_back(host, *area));
    }

    /// The application uses its buffer for something else; nothing may write to it any more.
    fn take_back(&mut self, host: usize, area: AreaId) {
        let memory = &mut self.hosts[host].memory;
        memory.set_state(area, State::Closed);
        let scribble = Content::of(3, self.trace.count() as usize & 0xFF, memory.addr(area));
        let len = memory.len(area);
        memory.write(area, scribble.bytes(len));
    }

    /// Looks at what can only be judged when all has ended.
    pub(crate) fn audit(&mut self) {
        self.check_atomics();
        self.settle_failures();
        for host in &self.hosts {
            host.memory.audit();
        }
    }

    /// Each atomic was carried out once if it succeeded, at most once if it did not, in the order
    /// of its queue. Nothing else was.
    fn check_atomics(&mut self) {
        for host in 0..2 {
            let log = self.hosts[1 - host].memory.atomics();
            let mut found = 0;
            for queue in &self.queues[host] {
                let mut last = None;
                for (index, send) in queue.sends.iter().enumerate() {
                    let Some(op) = as_atomic(send.wr.op) else { continue };
                    let at = log.iter().position(|record| record.op == op);
                    let must = index < queue.retired && queue.failure.is_none_or(|f| index < f.0);
                    assert!(at.is_some() || !must, "{op:?} was not carried out");
                    assert!(at.is_none() || at > last, "{op:?} was carried out before its turn");
                    found += usize::from(at.is_some());
                    last = last.max(at);
                }
            }
            assert_eq!(found, log.len(), "an atomic was carried out twice");
            self.expect_counters(host);
        }
    }

    /// The fake memory did the arithmetic; the model only has to agree about where.
    fn expect_counters(&mut self, host: usize) {
        let memory = &mut self.hosts[1 - host].memory;
        for record in memory.atomics() {
            memory.expect_value(record.addr, super::memory::outcome(record.before, record.op));
        }
    }

    /// Forgets the expected contents of memory of failed work requests, which are undefined.
    fn settle_failures(&mut self) {
        for host in 0..2 {
            for qp in 0..self.queues[host].len() {
                let queue = &self.queues[host][qp];
                let (targets, own) = (queue.unverified_targets(), queue.unfinished_areas());
                let open = !targets.is_empty() || !own.is_empty();
                assert!(queue.fate == Fate::Dies || !open, "not all was looked at");
                targets.iter().for_each(|area| self.hosts[1 - host].memory.forget(*area));
                own.iter().for_each(|area| self.hosts[host].memory.forget(*area));
            }
        }
    }
}

fn as_atomic(op: SendOp) -> Option<AtomicOp> {
    match op {
        SendOp::CompareSwap { compare, swap, .. } => {
            Some(AtomicOp::CompareSwap(AtomicOperands { swap_or_add: swap, compare }))
        }
        SendOp::FetchAdd { add, .. } => {
            Some(AtomicOp::FetchAdd(AtomicOperands { swap_or_add: add, compare: 0 }))
        }
        _ => None,
    }
}

/// The first `len` bytes of these areas, taken together, are this content, or what it has changed
/// to on the way.
fn verify(
    changes: Option<&Changes>,
    memory: &HostMemory,
    areas: &[AreaId],
    content: Content,
    len: u32,
) {
    let found: Vec<u8> = areas.iter().flat_map(|area| memory.read(*area)).collect();
    let found = &found[..len as usize];
    let wrong = match changes {
        Some(changes) => changes.first_wrong(content, found),
        None => differs(found, &content.bytes(len.into()).collect::<Vec<u8>>()),
    };
    if let Some(at) = wrong {
        panic!("byte {at} of {len} is wrong in memory that a completion has handed over");
    }
}

/// They stay as they have been found.
fn expect(memory: &mut HostMemory, areas: &[AreaId], len: u32) {
    let mut at = 0;
    for area in areas {
        let part = memory.len(*area).min(u64::from(len) - at);
        let found = memory.read(*area);
        memory.expect(*area, found[..part as usize].iter().copied());
        at += part;
    }
}
