//! The scenarios, and the cases of each.

use std::time::Duration;

use braid::congestion::DcqcnConfig;
use braid::{CcConfig, LbPolicy};
use braid_lab::Rate;
use braid_lab::emulator::{Reordering, Topology};

use super::case::{CongestionCase, Queue, SwitchPort};
use super::flow::{BraidFlow, Flow, FlowSender};

/// The queue of a port in a small switch.
const FIXED_QUEUE: Queue = Queue::Bytes(250_000);
const ONE_PRODUCT: Queue = Queue::Product(100);
const TENTH_PRODUCT: Queue = Queue::Product(10);
/// Number of queue pairs, or processes, that share a bottleneck.
const MANY: usize = 8;
/// Rate of a healthy spine.
const SPINE_MBIT_S: u64 = 100;
const SPINE_RTT_MS: u64 = 2;
const SPINE_PATHS: usize = 64;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CongestionScenario {
    /// One flow, one bottleneck.
    Bottleneck,
    /// One flow beside one of TCP.
    BesideTcp,
    /// Several equal flows.
    Fairness,
    /// One flow over spines of unequal rates.
    Spines,
    /// Several hosts to one.
    Incast,
    /// One flow beside cross traffic without congestion control that comes and goes.
    CrossTraffic,
    /// One flow through a queue that marks.
    Ecn,
    /// One flow whose packets overtake each other on every path.
    Reordering,
    /// One flow over a link that loses packets at random, in both directions.
    Lossy,
}

/// All scenarios, in the order in which they run.
pub(super) const ALL: [CongestionScenario; 9] = {
    use CongestionScenario::*;
    [Bottleneck, BesideTcp, Fairness, Spines, Incast, CrossTraffic, Ecn, Reordering, Lossy]
};

impl CongestionScenario {
    pub(super) fn name(self) -> &'static str {
        match self {
            CongestionScenario::Bottleneck => "bottleneck",
            CongestionScenario::BesideTcp => "tcp",
            CongestionScenario::Fairness => "fairness",
            CongestionScenario::Spines => "spines",
            CongestionScenario::Incast => "incast",
            CongestionScenario::CrossTraffic => "cross",
            CongestionScenario::Ecn => "ecn",
            CongestionScenario::Reordering => "reordering",
            CongestionScenario::Lossy => "lossy",
        }
    }

    pub(super) fn title(self) -> &'static str {
        match self {
            CongestionScenario::Bottleneck => "one queue pair, one bottleneck",
            CongestionScenario::BesideTcp => "one queue pair beside one TCP stream",
            CongestionScenario::Fairness => "eight queue pairs at one bottleneck",
            CongestionScenario::Spines => "one queue pair over spines of unequal rates, 64 paths",
            CongestionScenario::Incast => "eight hosts to one",
            CongestionScenario::CrossTraffic => {
                "UDP at half of the rate in the second and the fourth quarter"
            }
            CongestionScenario::Ecn => "one queue pair through a queue that marks",
            CongestionScenario::Reordering => {
                "one queue pair over paths that reorder by themselves"
            }
            CongestionScenario::Lossy => "one queue pair over a link that loses packets at random",
        }
    }

    pub(super) fn cases(self, quick: bool) -> Vec<CongestionCase> {
        match self {
            CongestionScenario::Bottleneck => bottleneck(quick),
            CongestionScenario::BesideTcp => beside_tcp(quick),
            CongestionScenario::Fairness => fairness(),
            CongestionScenario::Spines => spines(quick),
            CongestionScenario::Incast => incast(quick),
            CongestionScenario::CrossTraffic => cross_traffic(),
            CongestionScenario::Ecn => ecn(quick),
            CongestionScenario::Reordering => reordering(quick),
            CongestionScenario::Lossy => lossy(),
        }
    }

    pub(super) fn in_quick(self) -> bool {
        !matches!(
            self,
            CongestionScenario::Fairness
                | CongestionScenario::CrossTraffic
                | CongestionScenario::Ecn
                | CongestionScenario::Lossy
        )
    }
}

fn bottleneck(quick: bool) -> Vec<CongestionCase> {
    let all = [10, 200, 500].into_iter().flat_map(|mbit_s| {
        // Without a delay the product is zero, so the queue is given in bytes.
        let of = move |rtt_ms, queue| SwitchPort::new(mbit_s, rtt_ms, queue);
        let long = [20, 50].into_iter();
        let queues = [ONE_PRODUCT, TENTH_PRODUCT, FIXED_QUEUE];
        let long = long.flat_map(move |rtt_ms| queues.map(|queue| of(rtt_ms, queue)));
        [of(0, FIXED_QUEUE)].into_iter().chain(long)
    });
    let ports = match quick {
        true => vec![SwitchPort::new(200, 20, ONE_PRODUCT)],
        false => all.collect(),
    };
    let one = |port| {
        CongestionCase::to_one(CongestionScenario::Bottleneck, "", port, vec![Flow::braid(0, 1)])
    };
    ports.into_iter().map(one).collect()
}

fn beside_tcp(quick: bool) -> Vec<CongestionCase> {
    let ports = [
        SwitchPort::new(200, 20, ONE_PRODUCT),
        SwitchPort::new(200, 20, TENTH_PRODUCT),
        SwitchPort::new(10, 50, FIXED_QUEUE),
    ];
    let ports = if quick { &ports[..1] } else { &ports[..] };
    let controls = if quick { vec!["cubic"] } else { kernel_controls() };
    let one = |port: &SwitchPort, control| {
        let tcp = Flow { from: 1, to: 2, sender: FlowSender::Tcp(control) };
        CongestionCase::to_one(
            CongestionScenario::BesideTcp,
            control,
            *port,
            vec![Flow::braid(0, 2), tcp],
        )
    };
    let of = |port| controls.iter().map(move |control| one(port, *control));
    ports.iter().flat_map(of).collect()
}

/// Returns those congestion controls of TCP that the comparison uses and this kernel has.
fn kernel_controls() -> Vec<&'static str> {
    let known = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let known = std::fs::read_to_string(known).unwrap_or_default();
    ["cubic", "bbr"]
        .into_iter()
        .filter(|name| known.split_whitespace().any(|k| k == *name))
        .collect()
}

fn fairness() -> Vec<CongestionCase> {
    let port = SwitchPort::new(200, 20, ONE_PRODUCT);
    let queue_pairs = BraidFlow { queue_pairs: MANY as u32, ..BraidFlow::default() };
    let one = Flow { from: 0, to: 1, sender: FlowSender::BraidFlow(queue_pairs) };
    vec![
        CongestionCase::to_one(CongestionScenario::Fairness, "8 queue pairs", port, vec![one]),
        CongestionCase::to_one(CongestionScenario::Fairness, "8 processes", port, many_to_one()),
    ]
}

fn many_to_one() -> Vec<Flow> {
    (0..MANY).map(|from| Flow::braid(from, MANY)).collect()
}

fn spines(quick: bool) -> Vec<CongestionCase> {
    let whole = SPINE_MBIT_S;
    let fabrics: [(&str, &[u64]); 2] = [
        ("4 spines, one at a tenth", &[whole / 10, whole, whole, whole]),
        ("2 spines, one at half", &[whole / 2, whole]),
    ];
    let fabrics = if quick { &fabrics[..1] } else { &fabrics[..] };
    let one = |name: &str, rates: &[u64], lb: LbPolicy| {
        let port = |mbit_s: &u64| SwitchPort::new(*mbit_s, SPINE_RTT_MS, FIXED_QUEUE).link();
        let braid = BraidFlow { lb, paths: SPINE_PATHS, ..BraidFlow::default() };
        CongestionCase {
            scenario: CongestionScenario::Spines,
            name: format!("{name}, {lb}"),
            topology: Topology::Parallel(rates.iter().map(port).collect()),
            flows: vec![Flow { from: 0, to: 1, sender: FlowSender::BraidFlow(braid) }],
            bottlenecks: (rates.len()..2 * rates.len()).collect(),
            rtt: Duration::from_millis(SPINE_RTT_MS),
            more_controllers: Vec::new(),
        }
    };
    // The default policy, one that does not adapt, and another that does.
    let all = [LbPolicy::default(), LbPolicy::PRO, LbPolicy::REPS];
    let policies = if quick { &all[..1] } else { &all[..] };
    let of = |(name, rates): &(&str, &[u64])| {
        policies.iter().map(|lb| one(name, rates, *lb)).collect::<Vec<_>>()
    };
    fabrics.iter().flat_map(of).collect()
}

fn incast(quick: bool) -> Vec<CongestionCase> {
    let rtts = if quick { &[0][..] } else { &[0, 10][..] };
    let one = |rtt_ms: &u64| {
        let port = SwitchPort::new(200, *rtt_ms, FIXED_QUEUE);
        CongestionCase::to_one(CongestionScenario::Incast, "8 to 1", port, many_to_one())
    };
    rtts.iter().map(one).collect()
}

fn cross_traffic() -> Vec<CongestionCase> {
    let port = SwitchPort::new(200, 20, ONE_PRODUCT);
    let cross =
        Flow { from: 1, to: 2, sender: FlowSender::Udp(Rate::from_bits(port.mbit_s * 500_000)) };
    vec![CongestionCase::to_one(
        CongestionScenario::CrossTraffic,
        "",
        port,
        vec![Flow::braid(0, 2), cross],
    )]
}

fn ecn(quick: bool) -> Vec<CongestionCase> {
    // Above the requirement of DCTCP, a seventh of the product (Alizadeh et al., SIGCOMM 2010,
    // section 3.4).
    let ports = [
        SwitchPort { mark: Some(100_000), ..SwitchPort::new(200, 20, ONE_PRODUCT) },
        SwitchPort { mark: Some(50_000), ..SwitchPort::new(200, 0, FIXED_QUEUE) },
    ];
    let ports = if quick { &ports[..1] } else { &ports[..] };
    let one = |port: &SwitchPort| {
        let rate = port.mbit_s * 1_000_000;
        let more_controllers = vec![CcConfig::new(DcqcnConfig::new(rate))];
        let flows = vec![Flow::braid(0, 1)];
        CongestionCase {
            more_controllers,
            ..CongestionCase::to_one(CongestionScenario::Ecn, "", *port, flows)
        }
    };
    ports.iter().map(one).collect()
}

fn reordering(quick: bool) -> Vec<CongestionCase> {
    let jitter = Reordering::Jitter(Duration::from_millis(5));
    let ports = [
        SwitchPort { reordering: jitter, ..SwitchPort::new(200, 20, ONE_PRODUCT) },
        SwitchPort { reordering: Reordering::Skip(25), ..SwitchPort::new(200, 10, ONE_PRODUCT) },
    ];
    let ports = if quick { &ports[..1] } else { &ports[..] };
    let one = |port: &SwitchPort| {
        CongestionCase::to_one(CongestionScenario::Reordering, "", *port, vec![Flow::braid(0, 1)])
    };
    ports.iter().map(one).collect()
}

fn lossy() -> Vec<CongestionCase> {
    let lossy = |loss_percent, rtt_ms, queue| SwitchPort {
        loss_percent,
        ..SwitchPort::new(200, rtt_ms, queue)
    };
    let ports = [
        lossy(5, 0, FIXED_QUEUE),
        lossy(1, 20, ONE_PRODUCT),
        lossy(5, 20, ONE_PRODUCT),
        lossy(5, 50, ONE_PRODUCT),
    ];
    let one =
        |port| CongestionCase::to_one(CongestionScenario::Lossy, "", port, vec![Flow::braid(0, 1)]);
    ports.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn cases_have_names_of_their_own_and_something_to_judge() {
        for quick in [true, false] {
            let cases: Vec<CongestionCase> =
                ALL.into_iter().flat_map(|scenario| scenario.cases(quick)).collect();
            let names: BTreeSet<_> =
                cases.iter().map(|case| (case.scenario.name(), &case.name)).collect();
            assert_eq!(names.len(), cases.len());
            for case in &cases {
                let is_judged = case.flows.iter().any(|flow| {
                    matches!(flow.sender, FlowSender::BraidFlow(_)) && case.rate().bits() > 0
                });
                assert!(
                    is_judged && case.marks() == (case.scenario == CongestionScenario::Ecn),
                    "{case:?}"
                );
            }
        }
        assert_eq!(CongestionScenario::Bottleneck.cases(false).len(), 3 * (1 + 3 + 3));
    }

    #[test]
    fn the_spines_that_are_judged_lead_to_the_receiver() {
        let case = &CongestionScenario::Spines.cases(false)[0];
        let rates: Vec<_> = case.bottleneck_rates().collect();
        assert_eq!(rates[..2], [(4, 10_000_000), (5, 100_000_000)]);
        assert_eq!(case.rate().bits(), 310_000_000);
    }
}
