//! A worker: its rails, the endpoints and queue pairs that use them, and the loop that drives them.

mod accepting;
mod announce;
mod arrivals;
mod attempt;
mod attendant;
mod cell;
mod control;
mod credit;
mod degradations;
mod device;
mod departures;
mod exchange;
mod held_sends;
mod initiators;
mod landing;
mod listening;
mod metrics;
mod neighbours;
mod outbox;
mod peers;
mod qps;
mod rails;
mod reachability;
mod reassembly;
mod roce;
mod roce_arrivals;
mod roce_qp;
mod sessions;
mod set_up;
mod sleep_end;
#[cfg(test)]
mod tests;

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use braid_transport::{Disconnects, EndCause, EventKind, Initiators};
use braid_wire::{QpId, Time};

use self::announce::announce;
use self::arrivals::{ArrivalEffects, ArrivalSource, Arrivals};
use self::attempt::AttemptState;
use self::device::Copied;
use self::landing::ArrivalMemory;
use self::listening::ListenState;
use self::outbox::Outbox;
use self::peers::Peers;
use self::qps::{QpEntry, QpTable};
use self::rails::egress;
use self::roce::RoceMembers;
use self::sessions::{DisconnectAddress, Sessions};
use self::sleep_end::SleepEnd;
use crate::clock::Clock;
use crate::counters::WorkerCounters;
use crate::cuda::{Context, Lane};
use crate::datapath::{Caps, PortRefused, Taken};
use crate::events::AsyncEvents;
use crate::fork::Origin;
use crate::memory::{Checked, RegionCache};
use crate::qp::WorkerRequest;
use crate::security::Security;
use crate::signals::Signals;

pub(crate) use attendant::{PollActivity, attend};
pub(crate) use cell::{WorkerCell, WorkerControl};
pub(crate) use peers::PathPlan;
pub(crate) use rails::{LocalRails, PeerAddrs};
pub(crate) use roce::RoceAddrs;
pub(crate) use set_up::SetUpPlan;

/// Batches of arrivals, 64 KiB each, that are taken before the worker sends again.
const BATCHES: usize = 4;
/// Looks for arrivals in an idle round of a thread that spins. Over UDP an empty look takes 0.3 us.
/// The rest of an idle round takes 0.15 us, and an arrival waits meanwhile.
const LOOKS: usize = 2;
/// Time between two looks for copies from or to device memory that have ended.
const COPY_INTERVAL: Duration = Duration::from_micros(20);
/// Arrivals in a round after which the acknowledgement does not wait for the application. The
/// application may take long to process completions, and the peer can prepare its next messages
/// meanwhile.
const MANY_ARRIVALS: usize = 16;

/// The state that one thread at a time owns. The holder of the lock of its [`WorkerCell`] runs it.
pub(crate) struct Worker {
    /// The process of the worker. A forked child has a copy of the state and sends nothing.
    origin: Origin,
    rails: LocalRails,
    /// The capabilities of the rails by carrier.
    caps: Vec<Caps>,
    clock: Clock,
    plan: SetUpPlan,
    signals: Arc<Signals>,
    /// The polling activity of an application that drives the engine.
    activity: Arc<PollActivity>,
    counters: Arc<WorkerCounters>,
    /// The events of the engine.
    events: Arc<AsyncEvents>,
    regions: RegionCache,
    /// The contexts of device memory, by index.
    contexts: Vec<Arc<Context>>,
    /// The copies from and to device memory. `None`: there is none.
    lane: Option<Box<Lane>>,
    qps: QpTable,
    peers: Peers,
    listening: ListenState,
    initiators: Initiators<AttemptState>,
    outbox: Outbox,
    roce: RoceMembers,
    /// Ended queue pairs, by the receiving addresses of their peers.
    disconnects: Disconnects<DisconnectAddress>,
    /// `None`: no connection is keyed.
    security: Option<Arc<Security>>,
    sessions: Sessions,
    /// The buffer in which short packets are encoded.
    scratch: Vec<u8>,
    /// The peer that sends first.
    turn: usize,
    /// Whether a datapath had no room for everything to send.
    is_full: bool,
    /// Whether an application that polls runs this round.
    is_polled: bool,
    sleep_end: SleepEnd,
}

/// The parts of a new worker.
pub(crate) struct WorkerParts {
    pub(crate) rails: LocalRails,
    pub(crate) clock: Clock,
    pub(crate) plan: SetUpPlan,
    pub(crate) security: Option<Arc<Security>>,
    pub(crate) paths: PathPlan,
    pub(crate) signals: Arc<Signals>,
    pub(crate) activity: Arc<PollActivity>,
    pub(crate) counters: Arc<WorkerCounters>,
    pub(crate) events: Arc<AsyncEvents>,
    pub(crate) regions: RegionCache,
    pub(crate) roce: RoceAddrs,
}

/// The result of receiving in one round.
#[derive(Clone, Copy, Default)]
struct Intake {
    packets: usize,
    /// Whether an acknowledgement should leave before the application learns of the arrivals.
    is_ack_due: bool,
}

impl Worker {
    pub(crate) fn new(parts: WorkerParts) -> Self {
        Worker {
            origin: Origin::here(),
            caps: parts.rails.caps(),
            rails: parts.rails,
            clock: parts.clock,
            plan: parts.plan,
            signals: parts.signals,
            activity: parts.activity,
            outbox: Outbox::default(),
            roce: RoceMembers::new(parts.roce),
            counters: parts.counters,
            events: parts.events,
            regions: parts.regions,
            contexts: Vec::new(),
            lane: None,
            qps: QpTable::default(),
            disconnects: Disconnects::new(parts.paths.count),
            peers: Peers::new(parts.paths),
            listening: ListenState::new(parts.security.clone()),
            security: parts.security,
            sessions: Sessions::default(),
            initiators: Initiators::default(),
            scratch: Vec::new(),
            turn: 0,
            is_full: false,
            is_polled: false,
            sleep_end: SleepEnd::default(),
        }
    }

    /// Runs one round: takes posted work, sends, receives, runs timers, and reports ends. Returns
    /// whether there was anything to do.
    ///
    /// Sending comes first. So the completions of a round's arrivals are delivered before the next
    /// round spends time on acknowledging them. A reply that the application posts at once leaves
    /// together with the acknowledgement. The acknowledgement of many packets leaves at once. So
    /// does one for which no reply is expected: the application may end its process as soon as it
    /// has the message, and its peer would consider the message lost.
    pub(crate) fn progress(&mut self) -> bool {
        let now = self.clock.now();
        self.activity.round(now);
        let mut worked = self.take_posts(now);
        worked |= self.transmit(now);
        // Reading the clock costs as much as an idle look at everything else.
        let now = if worked { self.clock.now() } else { now };
        let intake = self.receive(now);
        self.finish(now, intake) || worked
    }

    /// Ends a round, after its arrivals. Returns whether they or the timers were work.
    fn finish(&mut self, now: Time, intake: Intake) -> bool {
        let Intake { packets: arrived, is_ack_due } = intake;
        if arrived > 0 {
            self.activity.has_taken(arrived, self.is_polled);
        }
        // Acknowledgements of RoCEv2 are packets of their own, so they wait for no reply. The
        // completions of an application that polls precede them.
        let is_roce = arrived > 0 && !self.is_polled && !self.roce.is_empty();
        if is_ack_due || is_roce || arrived >= MANY_ARRIVALS {
            self.transmit(self.clock.now());
        }
        let was_due = self.run_timers(now);
        self.settle();
        self.peers.end_turn();
        arrived > 0 || was_due
    }

    /// Runs one round for a thread that spins, see [`Worker::progress`]. If there was nothing to
    /// do, the thread looks for arrivals again, unless work was posted or the worker `is_wanted`.
    pub(crate) fn spin(&mut self, is_wanted: impl Fn() -> bool) -> bool {
        let mut worked = self.progress();
        for _ in 1..LOOKS {
            if worked || self.has_posts() || is_wanted() {
                break;
            }
            let now = self.clock.now();
            let intake = self.receive(now);
            worked = intake.packets > 0 && self.finish(now, intake);
        }
        worked
    }

    /// Spins for an application that polls, see [`Worker::spin`].
    pub(crate) fn poll(&mut self, is_wanted: impl Fn() -> bool) -> bool {
        self.is_polled = true;
        let worked = self.spin(is_wanted);
        self.is_polled = false;
        worked
    }

    /// Takes and sends posted work, for a thread that has just posted some. Returns whether there
    /// was any.
    pub(crate) fn send_posts(&mut self) -> bool {
        let now = self.clock.now();
        self.activity.round(now);
        let worked = self.take_posts(now);
        // A budget may end a turn early, and no driver goes on afterwards.
        while self.transmit(self.clock.now()) {}
        self.settle();
        self.peers.end_turn();
        worked
    }

    /// Whether sleeping drivers have to learn of the work of a round: a thread waits for its
    /// results, or they would sleep beyond a deadline.
    fn needs_drivers(&self) -> bool {
        self.activity.is_awaited() || !self.sleep_end.is_in_time(self.next_deadline())
    }

    /// Whether peers have yet to confirm the end of queue pairs.
    pub(crate) fn is_disconnecting(&self) -> bool {
        !self.disconnects.is_empty()
    }

    /// Whether posted work waits.
    pub(crate) fn has_posts(&self) -> bool {
        self.signals.doorbells().any()
    }

    /// Copies the datapath's losses to the counters.
    pub(crate) fn publish_losses(&self) {
        let mut losses = self.rails.losses();
        if let Some(port) = self.roce.port() {
            losses = losses.and(port.losses());
        }
        self.counters.overflowed.set(losses.overflowed);
        self.counters.unreachable.set(losses.unreachable);
        self.counters.injected.set(losses.injected);
    }

    /// The next time at which the worker has to run without an arrival or a post.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        if !self.outbox.is_empty() || self.roce.can_send() {
            return Some(Time::ZERO);
        }
        let due = self.rails.next_due().map(|due| self.clock.time_of(due));
        let copies = self.lane.as_ref().filter(|lane| lane.is_busy());
        let due = due.into_iter().chain(copies.map(|_| self.clock.now() + COPY_INTERVAL));
        let timeouts = [
            self.peers.next_timeout(!self.is_full),
            self.initiators.next_timeout(),
            self.disconnects.next_timeout(),
            self.sessions.next_timeout(),
        ];
        let earliest = timeouts.into_iter().flatten().chain(due).min();
        if self.roce.is_empty() {
            return earliest;
        }
        let due = self.roce.port().and_then(|port| port.next_due());
        let due = due.map(|due| self.clock.time_of(due));
        let timeout = self.roce.next_timeout(&self.qps);
        timeout.into_iter().chain(due).chain(earliest).min()
    }

    /// Descriptors that become readable when a packet arrives. `None`: the worker has to poll.
    pub(crate) fn readiness(&self) -> Option<Vec<BorrowedFd<'_>>> {
        self.rails.readiness()
    }

    /// Prepares for sleep: from now on every arrival makes a descriptor readable. Returns whether
    /// there was something to do, because earlier arrivals make no descriptor readable.
    pub(crate) fn prepare_sleep(&mut self) -> bool {
        self.rails.arm() && self.progress()
    }

    /// Fails the queue pairs without a working rail, and their outstanding work requests.
    fn fail_lost(&mut self) {
        let is_lost = |entry: &&QpEntry| {
            let rails = entry.remote_addrs.as_ref().map(PeerAddrs::len);
            self.rails.have_failed(rails)
        };
        let lost: Vec<QpId> =
            self.qps.iter().filter(is_lost).map(|entry| entry.shared.id).collect();
        for id in lost {
            self.rails.retire(id);
            if let Some(entry) = self.qps.get(id) {
                entry.end(&mut self.peers, &self.events, EndCause::DeviceGone);
                entry.check_attempt(&mut self.initiators);
                entry.deliver_unbound();
            }
        }
    }

    fn take_posts(&mut self, now: Time) -> bool {
        let mut worked = false;
        let (qps, peers, outbox) = (&mut self.qps, &mut self.peers, &mut self.outbox);
        let regions = &mut self.regions;
        let mut copying = self.lane.as_deref_mut().map(|lane| (lane, &**regions.load()));
        let (initiators, events) = (&mut self.initiators, &self.events);
        self.signals.doorbells().answer(|index| {
            worked = true;
            if let Some(entry) = qps.at(index) {
                let requests = entry.shared.take_requests();
                if requests.contain(WorkerRequest::Repeat) {
                    entry.answer_connect(outbox);
                }
                if requests.contain(WorkerRequest::Overrun) {
                    entry.end(peers, events, EndCause::CompletionQueueOverrun);
                    entry.check_attempt(initiators);
                }
                match &mut copying {
                    None => entry.take_posts(now, peers),
                    Some((lane, regions)) => {
                        let copied = entry.take_posts_copying(now, peers, lane, regions);
                        entry.end_if_failed(peers, events, copied);
                    }
                }
                entry.deliver_unbound();
            }
        });
        worked
    }

    /// Takes arrived packets within a budget.
    fn receive(&mut self, now: Time) -> Intake {
        let mut intake = Intake::default();
        for batch in 0..BATCHES {
            if self.lane.as_ref().is_some_and(|lane| lane.is_nearly_full()) {
                break;
            }
            let now = if batch == 0 { now } else { self.clock.now() };
            let regions = self.regions.load();
            let mut arrivals = Arrivals {
                now,
                may_be_replied_to: self.activity.is_new(),
                source: ArrivalSource::default(),
                qps: &mut self.qps,
                peers: &mut self.peers,
                listening: &mut self.listening,
                initiators: &mut self.initiators,
                outbox: &mut self.outbox,
                disconnects: &mut self.disconnects,
                sessions: &mut self.sessions,
                memory: ArrivalMemory {
                    checked: Checked { regions, contexts: &self.contexts },
                    lane: self.lane.as_deref_mut(),
                },
                counters: &self.counters,
                events: &self.events,
                effects: ArrivalEffects { is_ack_due: intake.is_ack_due, has_failed: false },
            };
            let mut taken =
                self.rails.receive(now, regions, &mut |rail, arrived| arrivals.take(rail, arrived));
            if let Some(port) = self.roce.port_mut() {
                let roce = port.receive(now, regions, &mut |arrived| arrivals.take_roce(&arrived));
                taken = taken.and_then(|taken| Ok(taken.and(roce?)));
            }
            let Taken { packets, is_more } = taken.unwrap_or_else(|error| {
                tracing::warn!(%error, "receiving failed");
                Taken::default()
            });
            let ArrivalEffects { is_ack_due, has_failed } = arrivals.effects;
            intake = Intake { packets: intake.packets + packets, is_ack_due };
            if has_failed {
                self.fail_lost();
                return Intake { packets: intake.packets.max(1), ..intake };
            }
            if !is_more {
                break;
            }
        }
        if let Some(lane) = &mut self.lane {
            let mut copied = Copied {
                now,
                lane,
                memory: Checked { regions: self.regions.load(), contexts: &self.contexts },
                qps: &mut self.qps,
                peers: &mut self.peers,
                events: &self.events,
                counters: &self.counters,
            };
            let taken = copied.follow();
            intake.packets += taken.packets;
            intake.is_ack_due |= taken.is_ack_due;
        }
        intake
    }

    fn run_timers(&mut self, now: Time) -> bool {
        self.peers.wake_due(now);
        self.sessions.forget_due(now);
        let mut worked = self.peers.grant_credit(now);
        for step in 0..self.peers.active().len() {
            let index = self.peers.active()[step];
            let was_due = self.peers.run_timer(now, index);
            if was_due {
                self.survey_if_due(now, index);
            }
            worked |= was_due;
        }
        if self.peers.poll_silence() {
            self.read_refusals(now);
        }
        worked |= self.roce.run_timers(now, &mut self.qps);
        worked | self.run_initiators(now)
    }

    /// Reads reports of closed ports for a peer that is silent or does not confirm an end. Its
    /// process may have died, and its host then reports that.
    #[cold]
    fn read_refusals(&mut self, now: Time) {
        let Worker { rails, peers, disconnects, .. } = self;
        rails.take_refused(&mut |rail, carrier, PortRefused { to, via }| {
            peers.on_unreachable(now, (to, carrier), egress(via, rail));
            disconnects.on_unreachable(now, |ended| ended.addrs.receives_at(to, rail, carrier));
        });
    }

    /// Delivers the endpoints' news: first states, then the completions that follow from them.
    fn settle(&mut self) {
        let lane = self.lane.as_deref_mut();
        self.roce.settle(&mut self.qps, &self.peers, &self.events, lane);
        for step in 0..self.peers.active().len() {
            let index = self.peers.active()[step];
            let Some((endpoint, to)) = self.peers.endpoint_without_waking(index) else { continue };
            let mut has_news = false;
            while let Some(disconnect) = endpoint.poll_disconnect() {
                let entry = self.qps.get(disconnect.of());
                let keyed = entry.and_then(|entry| entry.keyed());
                let ended = DisconnectAddress { addrs: to.clone(), keyed };
                self.disconnects.insert(self.clock.now(), ended, disconnect);
            }
            while let Some(event) = endpoint.poll_event() {
                let qp = endpoint.qp(event.slot);
                let (state, error) = (qp.state(), qp.error());
                if let EventKind::Ecn(rail) = event.kind
                    && let Some(to) = to.on(rail)
                {
                    self.rails.of(rail).use_ecn(to.remote, endpoint.sends_ecn(rail));
                }
                if event.kind == EventKind::PathsBlocked {
                    self.counters.paths_blocked.add(1);
                }
                has_news = true;
                // This precedes the completions that follow, because nothing may be placed after
                // those.
                if !state.receives() {
                    self.rails.retire(event.qp);
                    if let (Some(lane), Some(entry)) = (&mut self.lane, self.qps.get(event.qp)) {
                        if lane.stop(event.qp) {
                            self.rails.forget_memory();
                        }
                        entry.flush_held(self.clock.now(), endpoint, event.slot);
                    }
                }
                if let Some(entry) = self.qps.get(event.qp) {
                    entry.shared.set_state(state, error);
                }
                // The state is set before the announcement, so that its readers see it.
                announce(&self.events, event.qp, event.kind);
            }
            while let Some(ended) = endpoint.poll_ended() {
                match self.qps.get(ended.completion.qp) {
                    Some(entry) => entry.deliver(ended),
                    None => debug_assert!(false, "work of no queue pair: {ended:?}"),
                }
            }
            if has_news {
                self.survey(self.clock.now(), index);
            }
        }
    }
}
