//! A network that loses, delays, duplicates, damages and marks packets.

use std::net::SocketAddr;
use std::time::Duration;

use braid_wire::{IcrcEnds, Time};
use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use crate::kit::Wire;

/// The faults of a network.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    pub(crate) loss: f64,
    pub(crate) duplication: f64,
    pub(crate) damage: f64,
    /// Share of packets that take longer than others, and so are overtaken.
    pub(crate) reordering: f64,
    /// Share of ECN-capable packets that get a congestion mark.
    pub(crate) marks: f64,
    /// The time from which nothing arrives.
    pub(crate) cut_at: Option<Time>,
}

/// A packet under way.
#[derive(Clone)]
pub(crate) struct Arriving {
    /// The host that it is for.
    pub(crate) to: usize,
    pub(crate) bytes: Vec<u8>,
    /// Whether it carries a congestion mark.
    pub(crate) congestion: bool,
}

pub(crate) struct Network {
    pub(crate) faults: Faults,
    wire: Wire<Arriving>,
    pub(crate) lost: u64,
    pub(crate) duplicated: u64,
}

/// The addresses of packets to host `to`.
pub(crate) fn ends(to: usize) -> IcrcEnds {
    let addr = |host: usize| SocketAddr::from(([192, 0, 2, host as u8 + 1], 4791));
    IcrcEnds { from: addr(1 - to), to: addr(to) }
}

impl Network {
    pub(crate) fn new(faults: Faults) -> Self {
        Network { faults, wire: Wire::default(), lost: 0, duplicated: 0 }
    }

    /// Sends a packet to host `to`. `ecn`: whether it is ECN-capable.
    pub(crate) fn send(
        &mut self,
        now: Time,
        rng: &mut Pcg64Mcg,
        (to, ecn): (usize, bool),
        mut packet: Vec<u8>,
    ) {
        let faults = self.faults;
        if faults.cut_at.is_some_and(|at| now >= at) || rng.random_bool(faults.loss) {
            self.lost += 1;
            return;
        }
        if rng.random_bool(faults.damage) {
            // The ICRC leaves byte 4 out.
            let at = rng.random_range(5..packet.len());
            packet[at] ^= 1 << rng.random_range(0..8);
        }
        let copies = 1 + usize::from(rng.random_bool(faults.duplication));
        self.duplicated += copies as u64 - 1;
        let congestion = ecn && rng.random_bool(faults.marks);
        for _ in 0..copies {
            let mut delay = 1000;
            if rng.random_bool(faults.reordering) {
                delay += rng.random_range(0..300_000);
            }
            let packet = Arriving { to, bytes: packet.clone(), congestion };
            self.wire.send(now + Duration::from_nanos(delay), packet);
        }
    }

    pub(crate) fn next_arrival(&self) -> Time {
        self.wire.next_arrival()
    }

    /// Returns the next packet that has arrived.
    pub(crate) fn arrive(&mut self, now: Time) -> Option<Arriving> {
        self.wire.arrive(now)
    }
}
