//! The applications of a host that runs: they post, pause, look at completions and clean up.

use std::time::Duration;

use braid_transport::{Event, EventKind, PostError, QpState};
use braid_wire::Time;
use rand::RngExt;

use super::memory::State;
use super::queue::{Drain, Fate};
use super::trace::What;
use super::world::World;

/// Longest wait before the application tries again to post to a full queue.
const RETRY: Duration = Duration::from_micros(300);
/// Longest stay in SQD once everything that was begun has ended.
pub(crate) const LONGEST_DRAIN: Duration = Duration::from_millis(20);

impl World {
    pub(crate) fn act(&mut self, host: usize) {
        for qp in 0..self.queues[host].len() {
            if self.hosts[host].links[qp].slot.is_none() {
                continue;
            }
            self.pause_or_resume(host, qp);
            self.post_recvs(host, qp);
            self.post_sends(host, qp);
            if self.queues[host][qp].destroy_at <= self.now {
                self.destroy(host, qp);
            }
        }
    }

    fn wait(&mut self, most: Duration) -> Time {
        self.now + most.mul_f64(self.rng.random())
    }

    fn post_sends(&mut self, host: usize, qp: usize) {
        loop {
            let queue = &self.queues[host][qp];
            let Some(send) = queue.sends.get(queue.posted).filter(|_| !queue.stopped) else {
                return;
            };
            if queue.send_at > self.now {
                return;
            }
            let (wr, local, target) = (send.wr.clone(), send.local.clone(), send.target);
            let id = wr.id;
            let link = &self.hosts[host].links[qp];
            let slot = link.slot.expect("a queue pair that lives");
            if let Err(error) = self.hosts[host].inner.endpoint.post_send(self.now, slot, wr) {
                self.check_full(host, qp, &error, false);
                self.queues[host][qp].send_at = self.wait(RETRY);
                return;
            }
            self.trace.record(self.now, host, What::PostSend(qp, id));
            local.iter().for_each(|area| self.hosts[host].memory.set_state(*area, State::Open));
            if let Some(target) = target {
                self.hosts[1 - host].memory.set_state(target, State::Open);
            }
            let pace = self.queues[host][qp].pace;
            let next = if self.rng.random_bool(0.3) { self.wait(pace) } else { self.now };
            let queue = &mut self.queues[host][qp];
            queue.posted += 1;
            queue.send_at = next;
        }
    }

    fn post_recvs(&mut self, host: usize, qp: usize) {
        loop {
            let queue = &self.queues[host][qp];
            let next = queue.recvs.get(queue.recv_offered).filter(|_| !queue.stopped);
            let Some(recv) = next.filter(|_| queue.recv_at <= self.now) else { return };
            let (wr, areas) = (recv.wr.clone(), recv.areas.clone());
            let (id, lag) = (wr.id, queue.recvs.get(queue.recv_offered + 1).map(|next| next.lag));
            if let Some(shared) = &mut self.hosts[host].shared {
                if !shared.post() {
                    self.queues[host][qp].recv_at = self.wait(RETRY);
                    return;
                }
                let queue = &mut self.queues[host][qp];
                queue.recv_offered += 1;
                queue.recv_at = self.now + lag.unwrap_or_default();
                continue;
            }
            let slot = self.hosts[host].links[qp].slot.expect("a queue pair that lives");
            if let Err(error) = self.hosts[host].inner.endpoint.post_recv(self.now, slot, wr) {
                self.check_full(host, qp, &error, true);
                self.queues[host][qp].recv_at = self.wait(RETRY);
                return;
            }
            self.trace.record(self.now, host, What::PostRecv(qp, id));
            areas.iter().for_each(|area| self.hosts[host].memory.set_state(*area, State::Open));
            let queue = &mut self.queues[host][qp];
            (queue.recv_posted, queue.recv_offered) =
                (queue.recv_posted + 1, queue.recv_offered + 1);
            queue.recv_at = self.now + lag.unwrap_or_default();
        }
    }

    /// A queue may say that it is full only if it can be, as far as the application can know.
    fn check_full(&self, host: usize, qp: usize, error: &PostError, recv: bool) {
        let (queue, config) = (&self.queues[host][qp], &self.settings.qp[host]);
        let (outstanding, most) = match recv {
            true => (queue.recv_posted - queue.recv_done, config.max_recv_wr),
            false => (queue.posted - queue.retired, config.max_send_wr),
        };
        assert!(matches!(error, PostError::QueueFull { .. }), "host {host} QP {qp}: {error}");
        assert!(outstanding >= most as usize, "{error}, but only {outstanding} are outstanding");
    }

    fn pause_or_resume(&mut self, host: usize, qp: usize) {
        let queue = &self.queues[host][qp];
        let (drain, alive) = (queue.drain, queue.is_alive());
        let next = match drain {
            Drain::Next(at) if alive && at <= self.now => QpState::SendQueueDrained,
            Drain::Drained(at) if alive && at <= self.now => QpState::ReadyToSend,
            _ => return,
        };
        let link = &mut self.hosts[host].links[qp];
        let slot = link.slot.expect("a queue pair that lives");
        link.quiet = false;
        // It may have failed without the application having heard of it.
        if let Err(error) = self.hosts[host].inner.endpoint.modify(self.now, slot, next) {
            assert_eq!(self.queues[host][qp].fate, Fate::Dies, "{error}");
            self.queues[host][qp].drain = Drain::Never;
            return;
        }
        self.trace.record(self.now, host, What::State(qp, next));
        let until = self.wait(Duration::from_millis(50));
        self.queues[host][qp].drain = match next {
            QpState::SendQueueDrained => Drain::Draining,
            _ if self.rng.random_bool(0.5) => Drain::Next(until),
            _ => Drain::Never,
        };
    }

    pub(crate) fn on_event(&mut self, host: usize, event: Event) {
        let qp = self.hosts[host].link_of(event.qp);
        assert_eq!(self.hosts[host].links[qp].slot, Some(event.slot));
        self.trace.record(self.now, host, What::Note(format!("qp {qp}: {:?}", event.kind)));
        self.queues[host][qp].events.push(event.kind);
        match event.kind {
            EventKind::PathMtu(_)
            | EventKind::PathsBlocked
            | EventKind::PathsOpen
            | EventKind::Ecn(_) => {}
            EventKind::Drained => self.on_drained(host, qp),
            EventKind::Ended(error) => {
                assert_eq!(self.queues[host][qp].fate, Fate::Dies, "QP {qp} ends: {error}");
                self.plan_destruction(host, qp);
            }
        }
    }

    fn on_drained(&mut self, host: usize, qp: usize) {
        let queue = &self.queues[host][qp];
        if queue.is_alive() {
            assert_eq!(queue.drain, Drain::Draining, "drained, though nobody waits for it");
            self.queues[host][qp].drain = Drain::Drained(self.wait(LONGEST_DRAIN));
            self.hosts[host].links[qp].quiet = true;
        }
    }

    /// Host 0 cleans up soon. Host 1 takes its time, so that the peer can hear why it failed.
    fn plan_destruction(&mut self, host: usize, qp: usize) {
        let soon = self.wait(Duration::from_millis(10));
        let late = self.now.max(self.settings.faults.calm_at) + Duration::from_secs(1);
        if self.settings.lazy {
            return;
        }
        let queue = &mut self.queues[host][qp];
        queue.destroy_at = queue.destroy_at.min(if host == 0 { soon } else { late });
    }

    /// Ends a queue pair as an application does that does not need it any more.
    pub(crate) fn destroy(&mut self, host: usize, qp: usize) {
        let slot = self.hosts[host].links[qp].slot.expect("a queue pair that lives");
        self.trace.record(self.now, host, What::Note(format!("qp {qp}: destroys it")));
        self.hosts[host].inner.end(self.now, slot);
        self.hosts[host].transmit(self.now, &mut self.network, &mut self.trace);
        self.collect(host, usize::MAX);
        let mut queue_pair = self.hosts[host].inner.release(self.now, slot);
        assert_eq!(queue_pair.state(), QpState::Error);
        assert_eq!(queue_pair.poll_ended(), None, "a completion is left behind");
        queue_pair.modify(QpState::Reset).expect("every queue pair can be reset");
        self.hosts[host].links[qp].slot = None;
        let queue = &mut self.queues[host][qp];
        queue.destroy_at = Time::FAR_FUTURE;
        queue.stopped = true;
        queue.drain = Drain::Never;
        assert!(queue.is_settled(), "the flush has left out a work request");
    }

    /// Looks at completions, `most` of them, and at all events.
    pub(crate) fn collect(&mut self, host: usize, most: usize) {
        for done in self.hosts[host].completions(most) {
            self.trace.record(self.now, host, What::Done(done));
            self.on_completion(host, &done);
        }
        for event in self.hosts[host].events() {
            self.on_event(host, event);
        }
    }
}
