//! The simulation: handles events in order until everything is delivered and the network is empty.

use std::fmt;

use crate::events::{Due, Event, Events, Taken};
use crate::fabric::{Advance, Fabric, NetworkConfig};
use crate::host::{Failed, HostConfig, Hosts, News};
use crate::look_ahead::LookAhead;
use crate::packet::Packet;
use crate::progress::Progress;
use crate::time::{Ps, Rate};
use crate::topology::{Node, PortId, Topology};
use crate::workload::{Occurrence, Start, Workload};

/// A change of the fabric during a run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Change {
    /// A cable is cut or repaired, both directions, silently.
    Cable {
        /// The cable.
        cable: u32,
        /// Whether the cable works from now on.
        up: bool,
    },
    /// The speed of one direction of a cable changes.
    Speed {
        /// The direction.
        port: PortId,
        /// The new speed.
        rate: Rate,
    },
    /// One direction of a cable loses packets at random from now on.
    Loss {
        /// The direction.
        port: PortId,
        /// The probability that a packet is lost, 0 to 1.
        share: f32,
    },
    /// Routing learns which cables work.
    Converge,
}

impl Change {
    /// Returns the changes that give both directions of a cable the same speed.
    pub const fn speed_of_cable(cable: u32, rate: Rate) -> [Change; 2] {
        let [up, down] = PortId::of_cable(cable);
        [Change::Speed { port: up, rate }, Change::Speed { port: down, rate }]
    }
}

/// The parts of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// The topology.
    pub topology: Topology,
    /// The configuration of the network.
    pub network: NetworkConfig,
    /// The configuration of the hosts.
    pub host: HostConfig,
    /// The messages.
    pub workload: Workload,
    /// The changes of the fabric, and their times.
    pub changes: Vec<(Ps, Change)>,
    /// The seed of all random choices.
    pub seed: u64,
    /// The run fails if it takes longer.
    pub limit: Ps,
}

/// The reason for a run without a result.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RunError {
    /// A queue pair failed.
    #[error(transparent)]
    Failed(#[from] Failed),
    /// Messages were not delivered, or steps were not done in time.
    #[error("{unfinished} after {limit}; raise `limit`, or check that the fabric can carry them")]
    TimeLimit {
        /// The rest of the workload.
        unfinished: Unfinished,
        /// The limit.
        limit: Ps,
    },
    /// No event is left, and messages are not delivered or steps not done.
    #[error("no event is left at {at}, and {unfinished}: a defect of the simulator")]
    Stuck {
        /// The rest of the workload.
        unfinished: Unfinished,
        /// The time of the last event.
        at: Ps,
    },
}

/// The part of a workload that is not done when a run fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unfinished {
    /// Number of undelivered messages.
    pub missing: usize,
    /// Number of all messages.
    pub messages: usize,
    /// Number of steps that are not done.
    pub steps: usize,
}

impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unfinished { missing, messages, steps } = self;
        match (missing, steps) {
            (0, steps) => write!(f, "{steps} computations or joins of messages are not done"),
            _ => write!(f, "{missing} of {messages} messages are not delivered"),
        }
    }
}

/// The times at which a message began and ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MessageSpan {
    /// The message was posted to the protocol.
    pub posted: Ps,
    /// The receiver got its completion.
    pub delivered: Ps,
    /// The sender got its completion.
    pub acknowledged: Ps,
}

impl MessageSpan {
    /// Returns the time in microseconds from the start to the completion at the sender.
    pub fn took_us(&self) -> f64 {
        self.acknowledged.since(self.posted).as_micros_f64()
    }
}

/// A run in progress or finished.
#[derive(Debug)]
pub struct Simulation {
    /// The event queue.
    pub events: Events,
    /// The network.
    pub fabric: Fabric,
    /// The hosts.
    pub hosts: Hosts,
    workload: Workload,
    changes: Vec<(Ps, Change)>,
    limit: Ps,
    /// The times of each message.
    spans: Vec<MessageSpan>,
    progress: Progress,
    /// Number of messages whose sender has no completion.
    unfinished: usize,
    /// Number of events handled.
    handled: u64,
    pub(crate) look_ahead: LookAhead,
}

impl Simulation {
    /// Creates a run at its start.
    pub fn new(plan: Plan) -> Simulation {
        let Plan { topology, network, host, workload, changes, seed, limit } = plan;
        let hosts = Hosts::new(&topology, &workload, host, network.frames.payload, seed);
        let fabric = Fabric::new(topology, network, seed.wrapping_add(1));
        let never =
            MessageSpan { posted: Ps::NEVER, delivered: Ps::NEVER, acknowledged: Ps::NEVER };
        let count = workload.messages.len();
        let mut run = Simulation {
            look_ahead: LookAhead::new(&fabric, &hosts),
            events: Events::new(),
            fabric,
            hosts,
            progress: Progress::new(&workload),
            workload,
            changes,
            limit,
            spans: vec![never; count],
            unfinished: count,
            handled: 0,
        };
        run.schedule_starts();
        run
    }

    fn schedule_starts(&mut self) {
        for ((at, _), index) in self.changes.iter().zip(0..) {
            self.events.at(*at, Event::Change { index });
        }
        for (message, number) in self.workload.messages.iter().zip(0..) {
            if let Start::At(at) = message.start {
                self.events.at(at, Event::Post { message: number });
            }
        }
        self.progress.begin(&self.workload, &mut self.events);
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// A queue pair failed, or the limit was passed.
    ///
    /// # Panics
    /// If an invariant of the protocol or of the fabric is broken.
    pub fn run(&mut self) -> Result<(), RunError> {
        while !self.is_done() {
            self.step()?;
        }
        self.fabric.check_conservation();
        Ok(())
    }

    /// Returns whether everything is delivered, all steps are done and the network is empty.
    pub fn is_done(&self) -> bool {
        self.unfinished == 0 && self.progress.unfinished() == 0 && self.fabric.is_empty()
    }

    /// Handles the next event.
    ///
    /// # Errors
    /// As [`Simulation::run`].
    #[inline(always)]
    pub fn step(&mut self) -> Result<(), RunError> {
        let Some(due) = self.events.advance() else {
            return Err(RunError::Stuck { unfinished: self.left(), at: self.events.now() });
        };
        if self.events.now() > self.limit {
            return Err(RunError::TimeLimit { unfinished: self.left(), limit: self.limit });
        }
        self.handled += 1;
        self.look_ahead.look(due, &self.events, &self.fabric, &self.hosts);
        match due {
            Due::Sent(frame) => {
                let packet = *self.events.frame(frame);
                self.on_sent(&packet);
                return Ok(()); // it loses no packet and completes no message
            }
            Due::Arrived(frame) => {
                let packet = *self.events.frame(frame);
                self.arrive(&packet)?;
            }
            Due::Other => self.handle_other()?,
        }
        if self.fabric.has_unreported() {
            self.handle_packets_of_switches()?;
        }
        if !self.hosts.news.is_empty() {
            self.handle_news();
        }
        Ok(())
    }

    #[inline(never)]
    fn handle_other(&mut self) -> Result<(), RunError> {
        match self.events.take() {
            Some(Taken::Sent(packet)) => self.on_sent(&packet),
            Some(Taken::Arrived(packet)) => self.arrive(&packet)?,
            Some(Taken::Event(event)) => self.handle(event)?,
            None => {}
        }
        Ok(())
    }

    /// Handles the end of a packet's transmission.
    #[inline(always)]
    fn on_sent(&mut self, packet: &Packet) {
        let (fabric, events) = (&mut self.fabric, &mut self.events);
        if let Node::Nic(nic) = fabric.on_sent(packet, events) {
            self.hosts.kick(nic, fabric, events);
        }
    }

    /// Handles a packet that has reached the far end of a link.
    #[inline(always)]
    fn arrive(&mut self, packet: &Packet) -> Result<(), RunError> {
        let (fabric, events) = (&mut self.fabric, &mut self.events);
        let Advance::Reached { nic } = fabric.on_arrived(packet, events) else { return Ok(()) };
        match self.hosts.memory_arrival(packet, fabric, events.now()) {
            Some(at) => events.at(at, Event::Entered { packet: *packet }),
            None => self.receive(nic, packet)?,
        }
        Ok(())
    }

    fn handle(&mut self, event: Event) -> Result<(), RunError> {
        let (fabric, events) = (&mut self.fabric, &mut self.events);
        match event {
            Event::Entered { packet } => self.receive(packet.dst, &packet)?,
            Event::Pause { port, stop } => {
                fabric.on_pause(port, stop, events);
                if let Node::Nic(nic) = fabric.ports[port.index()].from {
                    self.hosts.kick(nic, fabric, events);
                }
            }
            Event::Timer { end } => self.hosts.on_timer(end, fabric, events)?,
            Event::Gate { switch, token } => fabric.on_wake(switch, token, events),
            Event::Credit { nic } => self.hosts.grant_credit(nic, fabric, events)?,
            Event::Wake { nic } => self.hosts.kick(nic, fabric, events),
            Event::Post { message } => {
                self.spans[message as usize].posted = events.now();
                let of = &self.workload.messages[message as usize];
                self.hosts.post(message, of, fabric, events);
                self.happened(Occurrence::Posted(message));
            }
            Event::Ready { step } => self.progress.on_ready(step, &self.workload, events),
            Event::Start { step } => self.progress.on_start(step, &self.workload, events),
            Event::Done { step } => self.progress.on_done(step, &self.workload, events),
            Event::Change { index } => self.change(self.changes[index as usize].1),
        }
        Ok(())
    }

    #[inline(never)]
    fn receive(&mut self, nic: u32, packet: &Packet) -> Result<(), RunError> {
        assert!(packet.dst == nic, "a packet for interface {} has come to {nic}", packet.dst);
        self.hosts.receive(packet, &mut self.fabric, &mut self.events)?;
        Ok(())
    }

    /// Tells the hosts which packets switches have added and dropped.
    #[inline(never)]
    fn handle_packets_of_switches(&mut self) -> Result<(), RunError> {
        while let Some(to) = self.fabric.next_added() {
            self.hosts.count_sent(to);
        }
        while let Some((packet, body, _)) = self.fabric.next_dropped() {
            self.hosts.on_dropped(&packet, body, &mut self.fabric, &mut self.events)?;
        }
        Ok(())
    }

    #[inline(never)]
    fn handle_news(&mut self) {
        while let Some(news) = self.hosts.news.pop() {
            let now = self.events.now();
            match news {
                News::Delivered(message) => {
                    self.spans[message as usize].delivered = now;
                    self.happened(Occurrence::Delivered(message));
                }
                News::Acknowledged(message) => {
                    self.spans[message as usize].acknowledged = now;
                    self.unfinished -= 1;
                    self.happened(Occurrence::Acknowledged(message));
                }
            }
        }
    }

    /// Passes an occurrence to the steps that wait for it.
    fn happened(&mut self, occurrence: Occurrence) {
        self.progress.on(occurrence, &self.workload, &mut self.events);
    }

    fn change(&mut self, change: Change) {
        let (fabric, events) = (&mut self.fabric, &mut self.events);
        match change {
            Change::Cable { cable, up } => {
                let both = PortId::of_cable(cable);
                both.into_iter().for_each(|port| fabric.set_up(port, up, events));
            }
            Change::Speed { port, rate } => fabric.set_rate(port, rate),
            Change::Loss { port, share } => fabric.set_loss(port, share),
            Change::Converge => {
                fabric.converge();
                self.hosts.follow_routes(fabric);
            }
        }
    }

    /// Returns the times of each message.
    pub fn spans(&self) -> &[MessageSpan] {
        &self.spans
    }

    /// Returns the workload.
    pub fn workload(&self) -> &Workload {
        &self.workload
    }

    /// Returns the number of events handled.
    pub fn handled(&self) -> u64 {
        self.handled
    }

    /// Returns the number of messages whose sender has no completion yet.
    pub fn unfinished(&self) -> usize {
        self.unfinished
    }

    fn left(&self) -> Unfinished {
        let (missing, messages) = (self.unfinished, self.workload.messages.len());
        Unfinished { missing, messages, steps: self.progress.unfinished() }
    }

    /// Returns the payload bytes that have reached their receivers.
    pub fn delivered_bytes(&self) -> u64 {
        self.hosts.deliveries.placed()
    }

    /// Returns the start and the end of a step. The run must be done.
    ///
    /// # Panics
    /// Panics if there is no such step.
    pub fn step_span(&self, step: u32) -> (Ps, Ps) {
        self.progress.span(step)
    }

    /// Returns the time of the last completion at a sender, or of the end of the last step if that
    /// is later. The run must be done.
    pub fn completion_time(&self) -> Ps {
        let acknowledged = self.spans.iter().map(|span| span.acknowledged).max();
        acknowledged.unwrap_or(Ps::ZERO).max(self.progress.last())
    }
}
