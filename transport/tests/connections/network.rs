//! A network in virtual time that loses, delays, reorders and repeats datagrams until it is calm.

use std::net::SocketAddr;
use std::time::Duration;

use braid_transport::Egress;
use braid_wire::{SOURCE_PORT_BASE, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::kit::Wire;

/// Probabilities of faults.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Faults {
    pub(crate) loss: f64,
    pub(crate) repeat: f64,
    /// A delay far beyond the others, often longer than an attempt.
    pub(crate) late: f64,
    pub(crate) late_up_to: Duration,
    pub(crate) jitter: Duration,
}

pub(crate) struct Datagram {
    pub(crate) to: SocketAddr,
    pub(crate) from: SocketAddr,
    pub(crate) bytes: Vec<u8>,
}

pub(crate) struct Network {
    rng: Pcg64Mcg,
    faults: Faults,
    pub(crate) calm: bool,
    wire: Wire<Datagram>,
}

impl Network {
    pub(crate) fn new(seed: u64, faults: Faults) -> Self {
        let rng = Pcg64Mcg::seed_from_u64(seed ^ 0x6E65_7477);
        Network { rng, faults, calm: false, wire: Wire::default() }
    }

    /// Takes a datagram from the receiving port `from`, or from the port of a path of its host.
    pub(crate) fn send(
        &mut self,
        now: Time,
        mut from: SocketAddr,
        egress: Egress,
        to: SocketAddr,
        bytes: &[u8],
    ) {
        if let Egress::Path(path) = egress {
            from.set_port(SOURCE_PORT_BASE | path.get());
        }
        let Faults { loss, repeat, late, late_up_to, jitter } = self.faults;
        if !self.calm && self.rng.random_bool(loss) {
            return;
        }
        let copies = if !self.calm && self.rng.random_bool(repeat) { 2 } else { 1 };
        for _ in 0..copies {
            let mut at = now + Duration::from_micros(20) + jitter.mul_f64(self.rng.random());
            if !self.calm && self.rng.random_bool(late) {
                at += late_up_to.mul_f64(self.rng.random());
            }
            self.wire.send(at, Datagram { to, from, bytes: bytes.to_vec() });
        }
    }

    pub(crate) fn next_arrival(&self) -> Time {
        self.wire.next_arrival()
    }

    pub(crate) fn arrive(&mut self) -> Option<Datagram> {
        self.wire.arrive(Time::FAR_FUTURE)
    }
}
