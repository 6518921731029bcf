//! A connected peer that lies, in virtual time.
//!
//! A victim has several queue pairs to one peer. Some are honest: a real endpoint is at the other
//! end. Behind the others is a [`liar::Liar`], which sends anything with valid checks. These rules
//! have to hold:
//!
//! - Nothing panics.
//! - Memory is touched only as keys and posted work requests allow ([`memory`]).
//! - Each work request ends exactly once, and a success has all of its bytes ([`host`]).
//! - Honest queue pairs bring every byte to its place in a bounded time.

pub(crate) mod choices;
mod honest;
mod host;
#[path = "../../kit/mod.rs"]
pub(crate) mod kit;
mod liar;
mod memory;

use std::collections::HashMap;
use std::iter;
use std::time::Duration;

use braid_lb::{LbPolicy, PathSet};
use braid_transport::{
    EndpointConfig, QpConfig, QpState, Remote, RemoteAddr, SendOp, Status, Work,
};
use braid_wire::{QpId, Time, Token};

use self::choices::Choices;
use self::honest::Honest;
use self::host::{Host, LocalEnd};
use self::kit::Wire;
use self::liar::{Liar, Loot};
use self::memory::{BUFFER, HostMemory};

/// Connections that lie, and that do not.
const LIARS: usize = 2;
const HONEST: usize = 2;
const MTU: u16 = 128;
const DELAY: Duration = Duration::from_micros(10);
/// Time in which honest connections complete their posted work requests after the attack. Their
/// time-outs may have doubled during it.
const RECOVERY: Duration = Duration::from_secs(10);

pub(crate) struct Attack {
    now: Time,
    victim: Host,
    honest: Host,
    traffic: Honest,
    /// Packets to the victim and to the honest host.
    wires: [Wire<Vec<u8>>; 2],
    liars: Vec<Liar>,
    loot: Loot,
    config: QpConfig,
    serial: u32,
    /// Work requests of connections that lie, by how they have ended.
    reached: Reached,
}

/// Counts of work requests, by how they have ended.
pub(crate) type Reached = HashMap<(Work, Status), u64>;

impl Attack {
    pub(crate) fn new(choices: &mut impl Choices) -> Self {
        let now = Time::from_nanos(1_000_000_000);
        let endpoint = EndpointConfig {
            batch_segments: choices.pick(&[1, 16]),
            peer_receive_buffer: choices.pick(&[16 << 10, 1 << 20, u64::MAX]),
            search_path_mtu: choices.one_in(2),
            skip_key: choices.one_in(2).then_some([7; 16]),
            ..EndpointConfig::default()
        };
        let config = QpConfig {
            window: choices.pick(&[8, 64, 4096]),
            max_rd_atomic: choices.pick(&[1, 4, 16]),
            max_send_wr: 16,
            max_recv_wr: 16,
            ..QpConfig::default()
        };
        let mut hosts = [1, 2].map(|secret| {
            let paths = PathSet::new(LbPolicy::ROUND_ROBIN, 4, secret.into()).expect("four paths");
            Host::new(kit::Host::new(now, endpoint, paths), HostMemory::new(secret))
        });
        for index in 0..HONEST as u32 {
            let (ours, theirs) = (number(100 + index), number(200 + index));
            let [victim, honest] = &mut hosts;
            victim.connect(now, local_end(ours, remote(theirs, [7, 9], &config), &config));
            honest.connect(now, local_end(theirs, remote(ours, [9, 7], &config), &config));
        }
        let [victim, honest] = hosts;
        let loot = Loot::new(&victim.memory);
        let mut attack = Attack {
            now,
            victim,
            honest,
            traffic: Honest::new(HONEST),
            wires: Default::default(),
            liars: Vec::new(),
            loot,
            config,
            serial: 1000,
            reached: Reached::default(),
        };
        for _ in 0..LIARS {
            let (ours, liar) = attack.introduce(choices);
            attack.victim.connect(attack.now, ours);
            attack.liars.push(liar);
        }
        attack
    }

    /// The two ends of a new connection with a liar.
    fn introduce(&mut self, choices: &mut impl Choices) -> (LocalEnd, Liar) {
        self.serial += 2;
        let (ours, own) = (number(self.serial), number(self.serial + 1));
        let psns = [0, 1].map(|_| choices.pick(&[0, 5000, 0x7F_FFFF, 0xFF_FFFF]));
        let liar = Liar::new(ours, own, psns, MTU);
        let remote = remote(own, [psns[1], psns[0]], &self.config);
        (local_end(ours, remote, &self.config), liar)
    }

    /// A little of everything.
    pub(crate) fn step(&mut self, choices: &mut impl Choices) {
        let pause = choices.pick(&[0, 1, 1, 10, 10, 100, 1_000, 20_000]);
        let rare = choices.one_in(64);
        self.now += Duration::from_micros(if rare { 20 * pause } else { pause });
        for index in 0..LIARS {
            self.post(HONEST + index, choices);
            let lies: Vec<_> = (0..choices.below(6))
                .map(|_| self.liars[index].say(self.now, &self.loot, choices))
                .collect();
            self.victim.receive(self.now, &lies);
        }
        self.traffic.post(self.now, &mut self.victim, &mut self.honest);
        self.run();
        self.reconnect(choices);
    }

    /// Both hosts take in what has arrived, and send.
    fn run(&mut self) {
        for (wire, host) in self.wires.iter_mut().zip([&mut self.victim, &mut self.honest]) {
            let arrived: Vec<_> = iter::from_fn(|| wire.arrive(self.now)).collect();
            host.receive(self.now, &arrived);
        }
        for (to, bytes) in self.victim.transmit(self.now) {
            let honest = self.honest.pairs.iter().any(|pair| pair.id == to);
            if honest {
                self.wires[1].send(self.now + DELAY, bytes);
            } else {
                self.liars.iter_mut().for_each(|liar| liar.overhear(to, &bytes));
            }
        }
        for (_, bytes) in self.honest.transmit(self.now) {
            self.wires[0].send(self.now + DELAY, bytes);
        }
        for ended in self.victim.collect() {
            if ended.pair < HONEST {
                self.traffic.check(0, &ended);
            } else {
                let kind = (ended.completion.work, ended.completion.status);
                *self.reached.entry(kind).or_default() += 1;
            }
        }
        for ended in self.honest.collect() {
            self.traffic.check(1, &ended);
        }
    }

    /// The victim's application posts something to a liar.
    fn post(&mut self, pair: usize, choices: &mut impl Choices) {
        let victim = &mut self.victim;
        if victim.receives(pair) < 8 && choices.one_in(2) {
            victim.post_recv(self.now, pair, 1 + choices.below(BUFFER.into()) as u32);
        }
        if victim.sends(pair) >= 8 || !choices.one_in(4) {
            return;
        }
        let remote = RemoteAddr { addr: 8 * choices.below(1 << 20), rkey: choices.any_u32() };
        let imm = choices.one_in(2).then_some(7);
        let op = choices.pick(&[
            SendOp::Send { imm },
            SendOp::Write { remote, imm },
            SendOp::Read { remote },
            SendOp::FetchAdd { remote, add: 1 },
            SendOp::CompareSwap { remote, compare: 1, swap: 2 },
        ]);
        let len = if op.is_atomic() { 8 } else { 1 + choices.below(BUFFER.into()) as u32 };
        let buffer = match op.needs_response() {
            true => victim.memory.lend_landing(len),
            false => victim.memory.lend_source(&vec![7; len as usize]),
        };
        if let Some(buffer) = buffer {
            victim.post_send(self.now, pair, op, buffer);
        }
    }

    /// Replaces connections that have ended by new ones of the same peer, which still has the
    /// packets of the old ones.
    fn reconnect(&mut self, choices: &mut impl Choices) {
        for index in 0..LIARS {
            let pair = HONEST + index;
            if self.victim.state(pair) == QpState::Error && choices.one_in(8) {
                let (ours, mut liar) = self.introduce(choices);
                self.victim.replace(self.now, pair, ours);
                liar.inherit(&mut self.liars[index]);
                self.liars[index] = liar;
            }
        }
    }

    /// Ends the attack: honest connections complete their work requests, and nothing is left of
    /// the others.
    pub(crate) fn end(mut self) -> Reached {
        let until = self.now + RECOVERY;
        while !self.traffic.is_done() {
            assert!(self.now < until, "honest connections stand still: {:?}", self.traffic);
            let arrivals = self.wires.iter().map(Wire::next_arrival);
            let next = arrivals.fold(self.victim.due().min(self.honest.due()), Ord::min);
            self.now = next.max(self.now + Duration::from_nanos(100)).min(until);
            self.run();
        }
        for index in 0..LIARS {
            let pair = HONEST + index;
            self.victim.end(self.now, pair);
            self.run();
            self.victim.release(self.now, pair);
        }
        self.reached
    }
}

fn number(serial: u32) -> (QpId, Token) {
    (QpId::new(serial), Token(serial.wrapping_mul(0x9E37_79B9)))
}

fn local_end((id, token): (QpId, Token), remote: Remote, config: &QpConfig) -> LocalEnd {
    LocalEnd { id, token, config: config.clone(), remote }
}

/// `psns`: the first of the owner, the first of this remote.
fn remote(of: (QpId, Token), psns: [u32; 2], config: &QpConfig) -> Remote {
    Remote {
        send_psn: psns[0],
        recv_psn: psns[1],
        mtu: MTU,
        window: config.window,
        max_rd_atomic: config.max_rd_atomic,
        ..kit::remote(of, 0)
    }
}
