//! A run: what happens next happens, until everything is delivered and the network is empty.

use crate::events::{Event, Events};
use crate::fabric::{Fabric, NetworkConfig, Step};
use crate::host::{Failed, HostConfig, Hosts, News, Recovery};
use crate::packet::Packet;
use crate::time::{Ps, Rate};
use crate::topology::{Node, PortId, Topology};
use crate::workload::{Start, Workload};

/// Something that is done to the fabric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// A cable is cut or mended, both directions, and nobody is told.
    Cable {
        /// The cable.
        cable: u32,
        /// Whether it works from now on.
        up: bool,
    },
    /// A cable's speed changes, both directions.
    Speed {
        /// The cable.
        cable: u32,
        /// From now on.
        rate: Rate,
    },
    /// Routing knows which cables work.
    Converge,
}

/// All that a run is made of.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// What is wired to what.
    pub topology: Topology,
    /// How the network behaves.
    pub network: NetworkConfig,
    /// How the hosts behave.
    pub host: HostConfig,
    /// What is sent.
    pub workload: Workload,
    /// What is done to the fabric, and when.
    pub changes: Vec<(Ps, Change)>,
    /// All chance comes from it.
    pub seed: u64,
    /// A run that takes longer has failed.
    pub limit: Ps,
}

/// Why a run has no result.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RunError {
    /// A queue pair gave up.
    #[error(transparent)]
    Failed(#[from] Failed),
    /// Messages were not delivered in time.
    #[error(
        "{missing} of {messages} messages are not delivered after {limit}; raise `limit`, or see whether the fabric can carry them"
    )]
    TimeLimit {
        /// Undelivered messages.
        missing: usize,
        /// All of them.
        messages: usize,
        /// The limit.
        limit: Ps,
    },
    /// Nothing more can happen, and messages are not delivered.
    #[error(
        "nothing happens any more at {at}, and {missing} of {messages} messages are not delivered: a defect of the simulator"
    )]
    Stuck {
        /// Undelivered messages.
        missing: usize,
        /// All of them.
        messages: usize,
        /// When.
        at: Ps,
    },
}

/// When a message began and ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// It was handed to the protocol.
    pub posted: Ps,
    /// The receiver got its completion.
    pub delivered: Ps,
    /// The sender got its own.
    pub acknowledged: Ps,
}

/// A run under way or done.
#[derive(Debug)]
pub struct Simulation {
    /// What comes next.
    pub events: Events<Event>,
    /// The network.
    pub fabric: Fabric,
    /// The hosts.
    pub hosts: Hosts,
    workload: Workload,
    changes: Vec<(Ps, Change)>,
    limit: Ps,
    /// By message.
    spans: Vec<Span>,
    /// By message: those that it lets go when it is delivered, and how many each still waits for.
    waiting: Waiting,
    unfinished: usize,
    /// Events handled.
    handled: u64,
}

#[derive(Debug)]
struct Waiting {
    followers: Vec<Vec<u32>>,
    open: Vec<u32>,
}

impl Simulation {
    /// A run at its start.
    pub fn new(plan: Plan) -> Simulation {
        let Plan { topology, network, host, workload, changes, seed, limit } = plan;
        let hosts = Hosts::new(&topology, &workload, host, network.frames.payload, seed);
        let fabric = Fabric::new(topology, network, seed.wrapping_add(1));
        let never = Span { posted: Ps::NEVER, delivered: Ps::NEVER, acknowledged: Ps::NEVER };
        let count = workload.messages.len();
        let mut run = Simulation {
            events: Events::new(),
            fabric,
            hosts,
            waiting: Waiting::new(&workload),
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
        self.fabric.check_books();
        Ok(())
    }

    /// Whether everything is delivered and the network is empty.
    pub fn is_done(&self) -> bool {
        self.unfinished == 0 && self.fabric.is_empty()
    }

    /// The next event happens.
    ///
    /// # Errors
    /// As [`Simulation::run`].
    pub fn step(&mut self) -> Result<(), RunError> {
        let (missing, messages) = (self.unfinished, self.workload.messages.len());
        let Some(event) = self.events.pop() else {
            return Err(RunError::Stuck { missing, messages, at: self.events.now() });
        };
        if self.events.now() > self.limit {
            return Err(RunError::TimeLimit { missing, messages, limit: self.limit });
        }
        self.handled += 1;
        self.handle(event)?;
        self.look_after_dropped()?;
        self.spread_news();
        Ok(())
    }

    fn handle(&mut self, event: Event) -> Result<(), RunError> {
        let (fabric, events) = (&mut self.fabric, &mut self.events);
        match event {
            Event::Sent { port } => match fabric.ports[port.index()].from {
                Node::Switch(_) => fabric.on_sent(port, events),
                Node::Nic(nic) => {
                    fabric.on_sent(port, events);
                    self.hosts.kick(nic, fabric, events);
                }
            },
            Event::Arrived { packet } => match fabric.on_arrived(&packet, events) {
                Step::Under => {}
                Step::Reached { nic } => {
                    match self.hosts.on_its_way(&packet, fabric, events.now()) {
                        Some(at) => events.at(at, Event::Entered { packet }),
                        None => self.receive(nic, &packet)?,
                    }
                }
            },
            Event::Entered { packet } => self.receive(packet.dst, &packet)?,
            Event::Pause { port, stop } => {
                fabric.on_pause(port, stop, events);
                if let Node::Nic(nic) = fabric.ports[port.index()].from {
                    self.hosts.kick(nic, fabric, events);
                }
            }
            Event::Timer { end } => self.hosts.on_timer(end, fabric, events)?,
            Event::Gate { switch, token } => fabric.on_wake(switch, token, events),
            Event::Wake { nic } => self.hosts.kick(nic, fabric, events),
            Event::Post { message } => {
                self.spans[message as usize].posted = events.now();
                let of = &self.workload.messages[message as usize];
                self.hosts.post(message, of, fabric, events);
            }
            Event::Change { index } => self.change(self.changes[index as usize].1),
        }
        Ok(())
    }

    fn receive(&mut self, nic: u32, packet: &Packet) -> Result<(), RunError> {
        let body = self.fabric.bodies.unload(packet);
        assert!(packet.dst == nic, "a packet for interface {} has come to {nic}", packet.dst);
        self.hosts.receive(packet, body, &mut self.fabric, &mut self.events)?;
        Ok(())
    }

    fn look_after_dropped(&mut self) -> Result<(), RunError> {
        while let Some((packet, body, _)) = self.fabric.next_dropped() {
            if self.hosts.config.recovery == Recovery::Ideal {
                self.hosts.make_up_for(&packet, body, &mut self.fabric, &mut self.events)?;
            }
        }
        Ok(())
    }

    fn spread_news(&mut self) {
        while let Some(news) = self.hosts.news.pop() {
            let now = self.events.now();
            match news {
                News::Delivered(message) => {
                    self.spans[message as usize].delivered = now;
                    self.let_go(message);
                }
                News::Acknowledged(message) => {
                    self.spans[message as usize].acknowledged = now;
                    self.unfinished -= 1;
                }
            }
        }
    }

    /// Those that waited for a message may leave, if they wait for no other.
    fn let_go(&mut self, message: u32) {
        for follower in std::mem::take(&mut self.waiting.followers[message as usize]) {
            let open = &mut self.waiting.open[follower as usize];
            *open -= 1;
            let Start::After { pause, .. } = self.workload.messages[follower as usize].start else {
                continue;
            };
            if *open == 0 {
                self.events.after(pause, Event::Post { message: follower });
            }
        }
    }

    fn change(&mut self, change: Change) {
        let (fabric, events) = (&mut self.fabric, &mut self.events);
        let both = |cable: u32| [PortId(2 * cable), PortId(2 * cable + 1)];
        match change {
            Change::Cable { cable, up } => {
                both(cable).into_iter().for_each(|port| fabric.set_up(port, up, events));
            }
            Change::Speed { cable, rate } => {
                both(cable).into_iter().for_each(|port| fabric.set_rate(port, rate));
            }
            Change::Converge => fabric.converge(),
        }
    }

    /// When each message began and ended.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// What is sent.
    pub fn workload(&self) -> &Workload {
        &self.workload
    }

    /// Events handled so far.
    pub fn handled(&self) -> u64 {
        self.handled
    }

    /// Messages whose sender has not got its completion yet.
    pub fn unfinished(&self) -> usize {
        self.unfinished
    }

    /// When the last sender got its last completion; the run has to be done.
    pub fn completion_time(&self) -> Ps {
        self.spans.iter().map(|span| span.acknowledged).max().unwrap_or(Ps::ZERO)
    }
}

impl Waiting {
    fn new(workload: &Workload) -> Self {
        let count = workload.messages.len();
        let (mut followers, mut open) = (vec![Vec::new(); count], vec![0; count]);
        for (message, number) in workload.messages.iter().zip(0_u32..) {
            if let Start::After { messages, .. } = &message.start {
                open[number as usize] = messages.len() as u32;
                messages.iter().for_each(|before| followers[*before as usize].push(number));
            }
        }
        Waiting { followers, open }
    }
}
