//! The size of the largest datagram from host to host, and the ports that the network blocks.

use std::time::Duration;

use braid_wire::{BASE_DATAGRAM, DATA_HEADER_LEN, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::settings::{micros, pick};

#[derive(Clone, Debug, Default)]
pub(crate) struct Route {
    /// Bytes of the largest datagram from each of these times on; nothing: any.
    sizes: Vec<(Time, usize)>,
    /// From when on what does not leave from the receiving port is dropped, by sending host.
    blocked: [Option<Time>; 2],
}

impl Route {
    /// A route whose MTU changes, for segments of up to `mtu` bytes; `None` where no route could
    /// make a difference, and in half of the others. Not drawn from the others' source, so that
    /// seeds mean what they always did.
    pub(crate) fn random(seed: u64, mtu: u16) -> Option<Route> {
        let mut rng = Pcg64Mcg::seed_from_u64(seed ^ 0x726F_7574);
        let longest = usize::from(mtu) + DATA_HEADER_LEN;
        if longest <= BASE_DATAGRAM || rng.random_bool(0.5) {
            return None;
        }
        let mut at = Time::ZERO;
        let sizes = (0..rng.random_range(1..=4)).map(|_| {
            let from = at;
            at += micros(rng.random_range(0..300_000));
            (from, rng.random_range(BASE_DATAGRAM..=longest + 100))
        });
        let sizes = sizes.collect();
        let mut blocked = || {
            let from = micros(pick(&mut rng, &[0, 0, 10_000, 500_000]));
            rng.random_bool(0.2).then_some(Time::ZERO + from)
        };
        Some(Route { blocked: [blocked(), blocked()], sizes })
    }

    /// Whether it carries everything.
    pub(crate) fn is_open(&self) -> bool {
        self.sizes.is_empty() && self.blocked == [None; 2]
    }

    /// Whether a datagram of `len` bytes gets through. `fragments`: it may be fragmented;
    /// `by_port`: it leaves from the receiving port.
    pub(crate) fn carries(
        &self,
        now: Time,
        from: usize,
        len: usize,
        fragments: bool,
        by_port: bool,
    ) -> bool {
        let size = self.sizes.iter().rev().find(|(since, _)| *since <= now);
        let fits = fragments || size.is_none_or(|(_, size)| len <= *size);
        fits && (by_port || self.blocked[from].is_none_or(|since| now < since))
    }

    /// When it changes last, and how long hosts may take to find out.
    pub(crate) fn settled_at(&self) -> Time {
        let changes =
            self.sizes.iter().map(|(at, _)| *at).chain(self.blocked.into_iter().flatten());
        changes.max().unwrap_or(Time::ZERO) + Duration::from_secs(2)
    }
}
