//! The scenarios, with their fabrics and senders.

use std::time::Duration;

use braid::{EngineConfig, LbPolicy, LossRecovery};
use braid_lab::{Plan, Routing};

use super::trial::{BraidSender, PATHS, Sender, WINDOW_BYTES};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SprayScenario {
    /// No failure, one queue pair with the defaults beside TCP.
    Defaults,
    /// No failure.
    Clean,
    /// The switches hash.
    Ecmp,
    /// The paths differ in delay.
    Skew,
    /// One spine loses packets at random.
    Loss,
    /// One spine is a black hole for a second.
    Cut,
    /// Two spines are black holes for a second.
    CutTwo,
    /// [`SprayScenario::Cut`] with other windows and numbers of paths.
    Cuts,
    /// The same with a round trip of 1 ms.
    FarCuts,
    /// A spine is a black hole every other 100 ms.
    Flap,
    /// One spine has a tenth of its rate.
    Slow,
    /// Many queue pairs to several destinations at once.
    Many,
}

/// All scenarios in the order in which they run. Those that share a fabric are adjacent.
pub(super) const ALL: [SprayScenario; 12] = {
    use SprayScenario::*;
    [Defaults, Clean, Loss, Cut, CutTwo, Cuts, Flap, Slow, FarCuts, Ecmp, Skew, Many]
};

/// Destinations of [`SprayScenario::Many`], and queue pairs to each.
pub(super) const MANY_HOSTS: usize = 4;
pub(super) const MANY_QPS: u32 = 16;
/// Windows of [`SprayScenario::Cuts`], from four packets on, and numbers of paths.
const CUT_WINDOWS: [u64; 4] = [6000, 64 << 10, 1 << 20, 4 << 20];
const CUT_PATHS: [usize; 4] = [4, 16, 64, 256];
/// Number of queue pairs of PLB, in addition to one, in scenarios where it must fill several links.
const PLB_QPS: u64 = 16;

impl SprayScenario {
    pub(super) fn name(self) -> &'static str {
        match self {
            SprayScenario::Defaults => "defaults",
            SprayScenario::Clean => "clean",
            SprayScenario::Ecmp => "ecmp",
            SprayScenario::Skew => "skew",
            SprayScenario::Loss => "loss",
            SprayScenario::Cut => "cut",
            SprayScenario::CutTwo => "cut-two",
            SprayScenario::Cuts => "cuts",
            SprayScenario::FarCuts => "far-cuts",
            SprayScenario::Flap => "flap",
            SprayScenario::Slow => "slow",
            SprayScenario::Many => "many",
        }
    }

    pub(super) fn title(self) -> &'static str {
        match self {
            SprayScenario::Defaults => "nothing wrong, all defaults",
            SprayScenario::Clean => "nothing wrong, source ports choose the spine",
            SprayScenario::Ecmp => "switches hash",
            SprayScenario::Skew => "delays of 0, 500 us, 1 ms and 2 ms",
            SprayScenario::Loss => "1 % random loss on one spine",
            SprayScenario::Cut => "one spine a black hole from 1 s to 2 s",
            SprayScenario::CutTwo => "two spines black holes from 1 s to 2 s",
            SprayScenario::Cuts => "one spine a black hole from 1 s to 2 s, by window and paths",
            SprayScenario::FarCuts => "the same at a round trip of 1 ms",
            SprayScenario::Flap => "one spine a black hole every other 100 ms, every byte checked",
            SprayScenario::Slow => "one spine at a tenth of its rate",
            SprayScenario::Many => "64 queue pairs to 4 hosts, the same bytes each",
        }
    }

    /// Returns the fabric of the scenario.
    pub(super) fn plan(self) -> Plan {
        // The name contains the process id, so that two processes can run. It has at most 12
        // characters.
        let name = format!("spray{}", std::process::id() % 10_000_000);
        let mut plan = Plan { name, ..Plan::default() };
        match self {
            SprayScenario::Ecmp => plan.routing = Routing::Ecmp,
            SprayScenario::Skew => {
                plan.delay = [0, 500, 1000, 2000].map(Duration::from_micros).to_vec()
            }
            SprayScenario::FarCuts => plan.delay = vec![Duration::from_micros(500); plan.spines],
            SprayScenario::Many => plan.hosts = MANY_HOSTS,
            _ => {}
        }
        plan
    }

    /// Returns the bytes in flight over all queue pairs.
    fn window(self) -> u64 {
        match self {
            // Longer paths hold more, and every path must be kept busy.
            SprayScenario::Skew => 4 * WINDOW_BYTES,
            // A few packets of each queue pair.
            SprayScenario::Many => 8 * WINDOW_BYTES,
            _ => WINDOW_BYTES,
        }
    }

    /// Returns whether an existing fabric is suitable.
    pub(super) fn suits(self, plan: &Plan) -> bool {
        let wanted = self.plan();
        let skewed = |plan: &Plan| plan.delay.windows(2).any(|pair| pair[0] != pair[1]);
        plan.routing == wanted.routing
            && skewed(plan) == skewed(&wanted)
            && (self != SprayScenario::FarCuts || plan.delay_over(0) == wanted.delay_over(0))
            && plan.hosts >= wanted.hosts
            && plan.spines > if self == SprayScenario::CutTwo { 2 } else { 1 }
    }

    /// Returns the number of paths of its senders. `None`: they have different numbers.
    pub(super) fn paths(self) -> Option<usize> {
        match self {
            SprayScenario::Defaults => Some(EngineConfig::default().paths),
            SprayScenario::Cuts | SprayScenario::FarCuts => None,
            _ => Some(PATHS),
        }
    }

    /// Returns whether its senders have different numbers of paths.
    pub(super) fn varies_paths(self) -> bool {
        self.paths().is_none()
    }

    pub(super) fn in_quick(self) -> bool {
        matches!(
            self,
            SprayScenario::Defaults
                | SprayScenario::Clean
                | SprayScenario::Skew
                | SprayScenario::Loss
                | SprayScenario::Cut
                | SprayScenario::Slow
                | SprayScenario::Ecmp
        )
    }

    /// Returns the senders in the order in which they run.
    pub(super) fn senders(self, quick: bool) -> Vec<Sender> {
        let braid = |policy, recovery| {
            Sender::BraidSender(BraidSender::new(policy, recovery, self.window()))
        };
        let pro = |recovery| braid(LbPolicy::PRO, recovery);
        let fifo = LossRecovery::FifoPath;
        match self {
            SprayScenario::Defaults => {
                let braid = [LbPolicy::ECMP, LbPolicy::ADAPTIVE].map(BraidSender::shipped);
                let tcp = [Sender::Tcp(1), Sender::Tcp(4)];
                tcp.into_iter().chain(braid.map(Sender::BraidSender)).collect()
            }
            SprayScenario::Clean => clean(quick),
            SprayScenario::Ecmp => {
                let mut discovering = BraidSender::new(LbPolicy::PRO, fifo, self.window());
                discovering.discover = true;
                let plain = [pro(fifo), braid(LbPolicy::ECMP, fifo)];
                [Sender::BraidSender(discovering)].into_iter().chain(plain).collect()
            }
            SprayScenario::Skew => {
                LossRecovery::all().filter(|r| *r != LossRecovery::GoBackN).map(pro).collect()
            }
            SprayScenario::Loss => LossRecovery::all().map(pro).collect(),
            SprayScenario::Cut if quick => vec![pro(fifo), pro(LossRecovery::Sack)],
            SprayScenario::Cut => LossRecovery::all().map(pro).collect(),
            SprayScenario::Cuts | SprayScenario::FarCuts => cuts(),
            SprayScenario::CutTwo | SprayScenario::Flap | SprayScenario::Many => vec![pro(fifo)],
            SprayScenario::Slow => slow(quick),
        }
    }
}

/// Every window with every number of paths, of the default path policy.
fn cuts() -> Vec<Sender> {
    let sender = |paths, window| {
        let sender = BraidSender::new(LbPolicy::ADAPTIVE, LossRecovery::FifoPath, window);
        Sender::BraidSender(BraidSender { paths, ..sender })
    };
    CUT_WINDOWS.iter().flat_map(|window| CUT_PATHS.map(|paths| sender(paths, *window))).collect()
}

fn clean(quick: bool) -> Vec<Sender> {
    let shown =
        |policy, recovery| !quick || policy == LbPolicy::PRO || recovery == LossRecovery::FifoPath;
    let pairs = LbPolicy::ALL.into_iter().flat_map(|p| LossRecovery::all().map(move |r| (p, r)));
    let braid = pairs
        .filter(|(p, r)| shown(*p, *r))
        .map(|(p, r)| Sender::BraidSender(BraidSender::new(p, r, WINDOW_BYTES)));
    braid.chain([Sender::Tcp(1), Sender::Tcp(4)]).collect()
}

/// PLB keeps a queue pair on one path. So it needs several to use all paths, each with a window
/// that fills a good part of a link.
fn slow(quick: bool) -> Vec<Sender> {
    let adaptive = [
        LbPolicy::ADAPTIVE,
        LbPolicy::REPS,
        LbPolicy::PLB,
        LbPolicy::MIN_RTT,
        LbPolicy::TWO_CHOICE,
    ];
    let one = |policy, window| BraidSender::new(policy, LossRecovery::FifoPath, window);
    let policies = LbPolicy::ALL.into_iter().filter(|policy| !quick || adaptive.contains(policy));
    let plb = one(LbPolicy::PLB, PLB_QPS / 4 * WINDOW_BYTES);
    let several = plb.queue_pairs(PLB_QPS as u32, PLB_QPS as u32);
    policies
        .map(|policy| one(policy, WINDOW_BYTES))
        .chain([several])
        .map(Sender::BraidSender)
        .collect()
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
        let (clean, ecmp) = (SprayScenario::Clean.plan(), SprayScenario::Ecmp.plan());
        assert!(!SprayScenario::Clean.suits(&ecmp) && !SprayScenario::Ecmp.suits(&clean));
        assert!(
            !SprayScenario::Skew.suits(&clean)
                && !SprayScenario::Clean.suits(&SprayScenario::Skew.plan())
        );
        assert!(
            !SprayScenario::Many.suits(&clean)
                && SprayScenario::Clean.suits(&SprayScenario::Many.plan())
        );
    }

    #[test]
    fn the_whole_runs_every_policy_with_every_recovery_and_tcp_beside_them() {
        assert_eq!(SprayScenario::Clean.senders(false).len(), 12 * 5 + 2);
        assert_eq!(SprayScenario::Clean.senders(true).len(), 12 + 4 + 2);
        assert_eq!(SprayScenario::Slow.senders(false).len(), 12 + 1);
    }
}
