//! The rails between two hosts: how many, how different, and when one of them is dead.

use std::time::Duration;

use braid_lb::{LbPolicy, PathSet, RailId, RailScheme, Rails};
use braid_wire::{MAX_RAILS, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::route::Route;
use super::settings::{micros, pick};

#[derive(Clone, Debug, Default)]
pub(crate) struct RailSettings {
    pub(crate) scheme: RailScheme,
    /// Those beside the first, which follows the other settings.
    pub(crate) further: Vec<FurtherRail>,
    dead: Option<DeadRail>,
}

#[derive(Clone, Debug)]
pub(crate) struct FurtherRail {
    /// Additional delay compared with the first rail.
    delay: Duration,
    pub(crate) route: Route,
}

/// A rail that carries nothing for a while, or from some time on: the others have to do.
#[derive(Clone, Copy, Debug)]
struct DeadRail {
    rail: usize,
    from: Time,
    until: Time,
    /// Whether packets of each host are swallowed.
    hosts: [bool; 2],
}

impl RailSettings {
    /// Several rails in three of eight scenarios. Not drawn from the others' source, so that seeds
    /// mean what they always did.
    pub(crate) fn random(seed: u64, mtu: u16) -> Self {
        let mut rng = Pcg64Mcg::seed_from_u64(seed ^ 0x7261_696C);
        let count = pick(&mut rng, &[1, 1, 1, 1, 1, 2, 2, 4]);
        if count == 1 {
            return RailSettings::default();
        }
        let further = (1..count).map(|rail| FurtherRail {
            delay: micros(pick(&mut rng, &[0, 0, 10, 1_000])),
            route: Route::random(seed.wrapping_add(rail << 32), mtu).unwrap_or_default(),
        });
        let further = further.collect();
        let scheme = pick(&mut rng, &RailScheme::ALL);
        RailSettings { scheme, further, dead: dead(&mut rng, count as usize) }
    }

    /// The same where no rail dies.
    pub(crate) fn without_faults(self) -> Self {
        RailSettings { dead: None, ..self }
    }

    /// One rail, if there are several, carries nothing back to host 0 from some time on.
    pub(crate) fn lose_way_back(&mut self) {
        let count = 1 + self.further.len();
        let (rail, from) = match self.dead {
            Some(dead) => (dead.rail, dead.from),
            None => (count - 1, Time::ZERO + micros(5_000)),
        };
        let dead = DeadRail { rail, from, until: Time::FAR_FUTURE, hosts: [false, true] };
        self.dead = (count > 1).then_some(dead);
    }

    /// Builds the rails of one host.
    pub(crate) fn build(&self, policy: LbPolicy, paths: usize, rng: &mut Pcg64Mcg) -> Rails {
        let mut set = || PathSet::new(policy, paths, rng.random()).expect("paths");
        let first = set();
        let further: Vec<_> = self.further.iter().map(|_| set()).collect();
        let proofs = (0..MAX_RAILS as u32).map(|rail| 0x7072_0000 + rail);
        Rails::new(self.scheme, first, further.into_iter().zip(proofs))
    }

    /// Returns the additional delay of a rail compared with the first.
    pub(crate) fn delay(&self, rail: RailId) -> Duration {
        rail.get().checked_sub(1).map_or(Duration::ZERO, |index| self.further[index].delay)
    }

    pub(crate) fn longest_delay(&self) -> Duration {
        self.further.iter().map(|rail| rail.delay).max().unwrap_or_default()
    }

    pub(crate) fn swallows(&self, now: Time, from: usize, rail: RailId) -> bool {
        self.dead.is_some_and(|dead| {
            dead.rail == rail.get() && dead.hosts[from] && (dead.from..dead.until).contains(&now)
        })
    }
}

/// Half of the time one dies, and half of those never come back.
fn dead(rng: &mut Pcg64Mcg, count: usize) -> Option<DeadRail> {
    let from = Time::ZERO + micros(rng.random_range(0..30_000));
    let until = from + micros(pick(rng, &[2_000, 50_000, 600_000, 3_600_000_000]));
    let hosts = pick(rng, &[[true, true], [true, true], [true, false], [false, true]]);
    let rail = rng.random_range(0..count);
    rng.random_bool(0.5).then_some(DeadRail { rail, from, until, hosts })
}
