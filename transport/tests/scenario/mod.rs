//! Random scenarios: two endpoints, a hostile network, virtual time, and a model of the outcome.

mod app;
mod changes;
mod envelopes;
mod host;
mod judge;
#[path = "../kit/mod.rs"]
pub(crate) mod kit;
mod ledger;
pub(crate) mod memory;
mod network;
mod nic_qps;
pub(crate) mod outcomes;
mod pattern;
mod plan;
mod queue;
mod rails;
mod route;
mod sabotage;
mod settings;
mod shared;
mod trace;
mod world;
mod wraps;

use std::panic::{AssertUnwindSafe, catch_unwind};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use self::outcomes::Kind;
pub(crate) use self::trace::Totals;

/// Runs one seed. Returns the hash of its trace and the totals, or the failure and the command that
/// repeats it.
pub(crate) fn run(seed: u64) -> Result<(u64, Totals), String> {
    run_with(seed, Twist::of(seed))
}

/// A property of a scenario that its seed does not decide.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Twist {
    None,
    /// Closed NIC queue pairs still take what was sent to them.
    Leaks,
    /// Streams are long, and packets from before their PSNs have wrapped come again.
    Wraps,
    /// Memory changes while it is sent and read.
    Changes,
    /// Connections are keyed.
    Keyed,
    /// Nothing is lost, but packets overtake each other on every path.
    Reorders,
    /// Messages go one way, and part of the way back is dead.
    OneWay,
    /// The network loses nothing and keeps the order of what takes one path.
    Faithful,
}

impl Twist {
    /// One scenario in eight is keyed, one goes one way, one has a faithful network. Not drawn from
    /// the others' source, so that seeds mean what they always did.
    fn of(seed: u64) -> Self {
        let mut rng = Pcg64Mcg::seed_from_u64(seed ^ 0x6B65_7964);
        match rng.random_range(0..8) {
            0 => Twist::Keyed,
            1 => Twist::Faithful,
            2 => Twist::OneWay,
            _ => Twist::None,
        }
    }
}

/// The path policy of a seed's scenario, and whether there are several rails.
pub(crate) fn paths_of(seed: u64, twist: Twist) -> (&'static str, bool) {
    let settings = outcomes::build(seed, twist).settings;
    (settings.policy.name(), !settings.rails.further.is_empty())
}

/// The same, with a twist.
pub(crate) fn run_with(seed: u64, twist: Twist) -> Result<(u64, Totals), String> {
    let mut world = None;
    let result = catch_unwind(AssertUnwindSafe(|| {
        let world = world.insert(outcomes::build(seed, twist));
        outcomes::play(seed, world);
        let totals = &mut world.trace.totals;
        (totals.key_updates, totals.key_updates_within_messages) = world.network.key_updates();
    }));
    let trace = world.as_ref().map(|world| &world.trace);
    match result {
        Ok(()) => Ok(trace.map(|trace| (trace.hash(), trace.totals)).unwrap_or_default()),
        Err(panic) => {
            let tail = trace.map_or_else(String::new, trace::Trace::tail);
            let settings = world.as_ref().map(|world| format!("{:?}", world.settings));
            Err(format!(
                "the last events:\n{tail}\n{}\nseed {seed} failed: {:?}: {}\n{}",
                settings.unwrap_or_default(),
                Kind::of(seed),
                message(panic.as_ref()),
                replay(seed),
            ))
        }
    }
}

pub(crate) fn replay(seed: u64) -> String {
    format!(
        "again: BRAID_SCENARIOS=1 BRAID_FIRST_SEED={seed} cargo test -p braid-transport --test scenarios"
    )
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}
