//! The hosts, the network and the clock.

use std::time::Duration;

use braid_wire::Time;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::host::{Context, Host, INITIATORS, Mood};
use crate::network::{Faults, Network};
use crate::record::Record;

/// The shortest time between two turns of a host; time has to pass, or nothing ends.
const TURN: Duration = Duration::from_micros(1);
/// After this nothing is left of what has ended: cookies are good for 16 s, and everything else is
/// over sooner.
const LINGERS: Duration = Duration::from_secs(25);

pub(crate) struct World {
    now: Time,
    mood: Mood,
    hosts: Vec<Host>,
    /// When each host runs next.
    wakes: Vec<Time>,
    /// A host that is dead comes back then, and remembers nothing.
    back_at: Vec<Option<Time>>,
    network: Network,
    rng: Pcg64Mcg,
    pub(crate) record: Record,
}

impl World {
    pub(crate) fn new(seed: u64, hosts: usize) -> Self {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let mut rate = |of: &[f64]| of[rng.random_range(0..of.len())];
        let faults = Faults {
            loss: rate(&[0.0, 0.02, 0.1, 0.3]),
            repeat: rate(&[0.0, 0.05, 0.3]),
            late: rate(&[0.0, 0.02, 0.2]),
            late_up_to: Duration::from_secs_f64(rate(&[0.05, 0.5, 4.0])),
            jitter: Duration::from_secs_f64(rate(&[0.000_01, 0.001, 0.03])),
        };
        let now = Time::from_nanos(1_000_000_000);
        World {
            now,
            mood: Mood::Wild,
            wakes: vec![now; hosts],
            back_at: vec![None; hosts],
            hosts: (0..hosts).map(|index| Host::new(index, now, &mut rng)).collect(),
            network: Network::new(seed, faults),
            rng,
            record: Record::default(),
        }
    }

    /// Plays until so many attempts were made and nothing is left of them. All attempts of one last
    /// round have to succeed.
    pub(crate) fn play(&mut self, attempts: u64) {
        while self.record.attempts < attempts {
            self.step(Time::FAR_FUTURE);
            if self.rng.random_bool(0.000_02) {
                self.kill();
            }
        }
        self.network.calm = true;
        self.close();
        let (before, all) = (self.record.whole, (self.hosts.len() * INITIATORS) as u64);
        self.mood = Mood::Orderly;
        for index in 0..self.hosts.len() {
            self.hosts[index].begin(self.now);
            self.wakes[index] = self.now;
        }
        self.run_for(Duration::from_secs(5));
        assert_eq!(self.record.whole - before, all, "not every connection carries everything");
        self.close();
    }

    /// Ends everything, and checks that nothing is left behind.
    fn close(&mut self) {
        self.mood = Mood::Closing;
        for index in 0..self.hosts.len() {
            if self.back_at[index].is_some() {
                self.revive(index);
            }
            self.run(index, |host, context| host.close_all(context));
        }
        self.run_for(LINGERS);
        for (index, host) in self.hosts.iter_mut().enumerate() {
            let left = host.left(self.now);
            assert!(left.iter().all(|count| *count == 0), "host {index}: {left:?} are left");
        }
    }

    fn run_for(&mut self, span: Duration) {
        let end = self.now + span;
        while self.step(end) {}
        self.now = end;
    }

    /// Lets the next event happen. Returns false if there is none until `end`.
    fn step(&mut self, end: Time) -> bool {
        let arrival = self.network.next_arrival();
        let wakes = self.wakes.iter().copied().zip(0..);
        let (wake, host) = wakes.min().expect("there are hosts");
        let next = arrival.min(wake);
        if next > end {
            return false;
        }
        self.now = self.now.max(next);
        if wake <= arrival {
            self.wake(host);
        } else if let Some(datagram) = self.network.arrive() {
            let std::net::IpAddr::V4(ip) = datagram.to.ip() else { return true };
            let host = usize::from(ip.octets()[3]) | usize::from(ip.octets()[2]) << 8;
            if self.back_at[host].is_none() {
                self.run(host, |host, context| host.take(&datagram, context));
            }
        }
        true
    }

    fn wake(&mut self, index: usize) {
        match self.back_at[index] {
            None => self.run(index, |_, _| {}),
            Some(_) => self.revive(index),
        }
    }

    /// Lets something happen to a host, and runs it.
    fn run(&mut self, index: usize, what: impl FnOnce(&mut Host, &mut Context<'_>)) {
        let World { now, mood, rng, record, .. } = self;
        let (now, mood, hosts) = (*now, *mood, self.hosts.len());
        let mut context = Context { now, mood, hosts, rng, record };
        let host = &mut self.hosts[index];
        what(host, &mut context);
        host.run(&mut self.network, &mut context);
        self.wakes[index] = host.next().max(now + TURN);
    }

    /// A host dies without a word.
    fn kill(&mut self) {
        let index = self.rng.random_range(0..self.hosts.len());
        let back_at = self.now + Duration::from_millis(self.rng.random_range(0..3_000));
        (self.back_at[index], self.wakes[index]) = (Some(back_at), back_at);
        self.record.died += 1;
    }

    fn revive(&mut self, index: usize) {
        self.back_at[index] = None;
        self.hosts[index] = Host::new(index, self.now, &mut self.rng);
        self.run(index, |_, _| {});
    }
}
