//! The scenarios: what each needs of a fabric, and who runs in it.

use std::time::Duration;

use braid::{LbPolicy, LossRecovery};
use braid_lab::{Plan, Routing};

use super::trial::{Braid, Sender, WINDOW_BYTES};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Scenario {
    /// Nothing is wrong.
    Clean,
    /// The switches hash.
    Ecmp,
    /// The ways differ in length.
    Skew,
    /// One spine loses packets at random.
    Loss,
    /// One spine is a black hole for a second.
    Cut,
    /// Two spines are.
    CutTwo,
    /// A spine is a black hole every other 100 ms.
    Flap,
    /// One spine has a tenth of its rate.
    Slow,
    /// Many queue pairs to several destinations at once.
    Many,
}

/// In the order in which they run: those that share a fabric are neighbours.
pub(super) const ALL: [Scenario; 9] = {
    use Scenario::*;
    [Clean, Loss, Cut, CutTwo, Flap, Slow, Ecmp, Skew, Many]
};

/// Destinations of [`Scenario::Many`], and queue pairs to each.
pub(super) const MANY_HOSTS: usize = 4;
pub(super) const MANY_QPS: u32 = 16;
/// Queue pairs of PLB beside its one, where it is to fill several links.
const PLB_QPS: u64 = 16;

impl Scenario {
    pub(super) fn name(self) -> &'static str {
        match self {
            Scenario::Clean => "clean",
            Scenario::Ecmp => "ecmp",
            Scenario::Skew => "skew",
            Scenario::Loss => "loss",
            Scenario::Cut => "cut",
            Scenario::CutTwo => "cut-two",
            Scenario::Flap => "flap",
            Scenario::Slow => "slow",
            Scenario::Many => "many",
        }
    }

    pub(super) fn title(self) -> &'static str {
        match self {
            Scenario::Clean => "nothing wrong, source ports choose the spine",
            Scenario::Ecmp => "switches hash",
            Scenario::Skew => "delays of 0, 500 us, 1 ms and 2 ms",
            Scenario::Loss => "1 % random loss on one spine",
            Scenario::Cut => "one spine a black hole from 1 s to 2 s",
            Scenario::CutTwo => "two spines black holes from 1 s to 2 s",
            Scenario::Flap => "one spine a black hole every other 100 ms, every byte checked",
            Scenario::Slow => "one spine at a tenth of its rate",
            Scenario::Many => "64 queue pairs to 4 hosts, the same bytes each",
        }
    }

    /// The fabric that it wants.
    pub(super) fn plan(self) -> Plan {
        // Of this process, so that two of us can run; a name has at most 12 characters.
        let name = format!("spray{}", std::process::id() % 10_000_000);
        let mut plan = Plan { name, ..Plan::default() };
        match self {
            Scenario::Ecmp => plan.routing = Routing::Ecmp,
            Scenario::Skew => plan.delay = [0, 500, 1000, 2000].map(Duration::from_micros).to_vec(),
            Scenario::Many => plan.hosts = MANY_HOSTS,
            _ => {}
        }
        plan
    }

    /// Bytes in flight over all queue pairs.
    fn window(self) -> u64 {
        match self {
            // The longer ways hold more, and every way must be kept busy.
            Scenario::Skew => 4 * WINDOW_BYTES,
            // A few packets of each queue pair.
            Scenario::Many => 8 * WINDOW_BYTES,
            _ => WINDOW_BYTES,
        }
    }

    /// Whether a fabric that stands will do.
    pub(super) fn suits(self, plan: &Plan) -> bool {
        let wanted = self.plan();
        let skewed = |plan: &Plan| plan.delay.windows(2).any(|pair| pair[0] != pair[1]);
        plan.routing == wanted.routing
            && skewed(plan) == skewed(&wanted)
            && plan.hosts >= wanted.hosts
            && plan.spines > if self == Scenario::CutTwo { 2 } else { 1 }
    }

    pub(super) fn in_quick(self) -> bool {
        matches!(
            self,
            Scenario::Clean
                | Scenario::Skew
                | Scenario::Loss
                | Scenario::Cut
                | Scenario::Slow
                | Scenario::Ecmp
        )
    }

    /// Who runs, one after the other.
    pub(super) fn senders(self, quick: bool) -> Vec<Sender> {
        let braid = |policy, recovery| Sender::Braid(Braid::new(policy, recovery, self.window()));
        let pro = |recovery| braid(LbPolicy::PRO, recovery);
        let fifo = LossRecovery::FifoPath;
        match self {
            Scenario::Clean => clean(quick),
            Scenario::Ecmp => {
                let mut discovering = Braid::new(LbPolicy::PRO, fifo, self.window());
                discovering.discover = true;
                let plain = [pro(fifo), braid(LbPolicy::ECMP, fifo)];
                [Sender::Braid(discovering)].into_iter().chain(plain).collect()
            }
            Scenario::Skew => {
                LossRecovery::all().filter(|r| *r != LossRecovery::GoBackN).map(pro).collect()
            }
            Scenario::Loss => LossRecovery::all().map(pro).collect(),
            Scenario::Cut if quick => vec![pro(fifo), pro(LossRecovery::Sack)],
            Scenario::Cut => LossRecovery::all().map(pro).collect(),
            Scenario::CutTwo | Scenario::Flap | Scenario::Many => vec![pro(fifo)],
            Scenario::Slow => slow(quick),
        }
    }
}

fn clean(quick: bool) -> Vec<Sender> {
    let shown =
        |policy, recovery| !quick || policy == LbPolicy::PRO || recovery == LossRecovery::FifoPath;
    let pairs = LbPolicy::ALL.into_iter().flat_map(|p| LossRecovery::all().map(move |r| (p, r)));
    let braid = pairs
        .filter(|(p, r)| shown(*p, *r))
        .map(|(p, r)| Sender::Braid(Braid::new(p, r, WINDOW_BYTES)));
    braid.chain([Sender::Tcp(1), Sender::Tcp(4)]).collect()
}

/// PLB keeps a queue pair on one path, so it needs several to use them all, each with a window that can
/// fill a good part of a link.
fn slow(quick: bool) -> Vec<Sender> {
    let adaptive = [
        LbPolicy::ADAPTIVE,
        LbPolicy::REPS,
        LbPolicy::PLB,
        LbPolicy::MIN_RTT,
        LbPolicy::TWO_CHOICE,
    ];
    let one = |policy, window| Braid::new(policy, LossRecovery::FifoPath, window);
    let policies = LbPolicy::ALL.into_iter().filter(|policy| !quick || adaptive.contains(policy));
    let plb = one(LbPolicy::PLB, PLB_QPS / 4 * WINDOW_BYTES);
    let several = plb.queue_pairs(PLB_QPS as u32, PLB_QPS as u32);
    policies.map(|policy| one(policy, WINDOW_BYTES)).chain([several]).map(Sender::Braid).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_runs_on_the_fabric_that_it_asks_for() {
        for scenario in ALL {
            let plan = scenario.plan();
            plan.check().expect("it can be built");
            assert!(scenario.suits(&plan), "{scenario:?}");
            assert!(!scenario.senders(true).is_empty());
        }
        let (clean, ecmp) = (Scenario::Clean.plan(), Scenario::Ecmp.plan());
        assert!(!Scenario::Clean.suits(&ecmp) && !Scenario::Ecmp.suits(&clean));
        assert!(!Scenario::Skew.suits(&clean) && !Scenario::Clean.suits(&Scenario::Skew.plan()));
        assert!(!Scenario::Many.suits(&clean) && Scenario::Clean.suits(&Scenario::Many.plan()));
    }

    #[test]
    fn the_whole_runs_every_policy_with_every_recovery_and_tcp_beside_them() {
        assert_eq!(Scenario::Clean.senders(false).len(), 12 * 5 + 2);
        assert_eq!(Scenario::Clean.senders(true).len(), 12 + 4 + 2);
        assert_eq!(Scenario::Slow.senders(false).len(), 12 + 1);
    }
}
