//! The scenarios, and the cases of each.

use std::time::Duration;

use braid::congestion::DcqcnConfig;
use braid::{CcConfig, LbPolicy};
use braid_lab::Rate;
use braid_lab::emulator::{Reordering, Topology};

use super::case::{Case, Port, Queue};
use super::flow::{Braid, Flow, Sender};

/// What a port of a small switch has.
const FIXED_QUEUE: Queue = Queue::Bytes(250_000);
const ONE_PRODUCT: Queue = Queue::Product(100);
const TENTH_PRODUCT: Queue = Queue::Product(10);
/// Queue pairs, or processes, that share a bottleneck.
const MANY: usize = 8;
/// Of a spine that is as it should be.
const SPINE_MBIT_S: u64 = 100;
const SPINE_RTT_MS: u64 = 2;
const SPINE_PATHS: usize = 64;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Scenario {
    /// One flow, one bottleneck.
    Bottleneck,
    /// One flow beside one of TCP.
    BesideTcp,
    /// Many flows alike.
    Fairness,
    /// One flow over spines of unequal rates.
    Spines,
    /// Many hosts to one.
    Incast,
    /// One flow beside one that comes and goes and heeds nothing.
    CrossTraffic,
    /// One flow through a queue that marks.
    Ecn,
    /// One flow whose packets overtake each other on every path.
    Reordering,
}

/// In the order in which they run.
pub(super) const ALL: [Scenario; 8] = {
    use Scenario::*;
    [Bottleneck, BesideTcp, Fairness, Spines, Incast, CrossTraffic, Ecn, Reordering]
};

impl Scenario {
    pub(super) fn name(self) -> &'static str {
        match self {
            Scenario::Bottleneck => "bottleneck",
            Scenario::BesideTcp => "tcp",
            Scenario::Fairness => "fairness",
            Scenario::Spines => "spines",
            Scenario::Incast => "incast",
            Scenario::CrossTraffic => "cross",
            Scenario::Ecn => "ecn",
            Scenario::Reordering => "reordering",
        }
    }

    pub(super) fn title(self) -> &'static str {
        match self {
            Scenario::Bottleneck => "one queue pair, one bottleneck",
            Scenario::BesideTcp => "one queue pair beside one TCP stream",
            Scenario::Fairness => "eight queue pairs at one bottleneck",
            Scenario::Spines => "one queue pair over spines of unequal rates, 64 paths",
            Scenario::Incast => "eight hosts to one",
            Scenario::CrossTraffic => {
                "UDP at half of the rate in the second and the fourth quarter"
            }
            Scenario::Ecn => "one queue pair through a queue that marks",
            Scenario::Reordering => "one queue pair over paths that reorder by themselves",
        }
    }

    pub(super) fn cases(self, quick: bool) -> Vec<Case> {
        match self {
            Scenario::Bottleneck => bottleneck(quick),
            Scenario::BesideTcp => beside_tcp(quick),
            Scenario::Fairness => fairness(),
            Scenario::Spines => spines(quick),
            Scenario::Incast => incast(quick),
            Scenario::CrossTraffic => cross_traffic(),
            Scenario::Ecn => ecn(quick),
            Scenario::Reordering => reordering(quick),
        }
    }

    pub(super) fn in_quick(self) -> bool {
        !matches!(self, Scenario::Fairness | Scenario::CrossTraffic | Scenario::Ecn)
    }
}

fn bottleneck(quick: bool) -> Vec<Case> {
    let all = [10, 200, 500].into_iter().flat_map(|mbit_s| {
        // Without a delay there is no product to measure a queue by.
        let of = move |rtt_ms, queue| Port::new(mbit_s, rtt_ms, queue);
        let long = [20, 50].into_iter();
        let queues = [ONE_PRODUCT, TENTH_PRODUCT, FIXED_QUEUE];
        let long = long.flat_map(move |rtt_ms| queues.map(|queue| of(rtt_ms, queue)));
        [of(0, FIXED_QUEUE)].into_iter().chain(long)
    });
    let ports = match quick {
        true => vec![Port::new(200, 20, ONE_PRODUCT)],
        false => all.collect(),
    };
    let one = |port| Case::to_one(Scenario::Bottleneck, "", port, vec![Flow::braid(0, 1)]);
    ports.into_iter().map(one).collect()
}

fn beside_tcp(quick: bool) -> Vec<Case> {
    let ports = [
        Port::new(200, 20, ONE_PRODUCT),
        Port::new(200, 20, TENTH_PRODUCT),
        Port::new(10, 50, FIXED_QUEUE),
    ];
    let ports = if quick { &ports[..1] } else { &ports[..] };
    let controls = if quick { vec!["cubic"] } else { kernel_controls() };
    let one = |port: &Port, control| {
        let tcp = Flow { from: 1, to: 2, sender: Sender::Tcp(control) };
        Case::to_one(Scenario::BesideTcp, control, *port, vec![Flow::braid(0, 2), tcp])
    };
    let of = |port| controls.iter().map(move |control| one(port, *control));
    ports.iter().flat_map(of).collect()
}

/// Of TCP, those of interest that this kernel has.
fn kernel_controls() -> Vec<&'static str> {
    let known = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let known = std::fs::read_to_string(known).unwrap_or_default();
    ["cubic", "bbr"]
        .into_iter()
        .filter(|name| known.split_whitespace().any(|k| k == *name))
        .collect()
}

fn fairness() -> Vec<Case> {
    let port = Port::new(200, 20, ONE_PRODUCT);
    let queue_pairs = Braid { queue_pairs: MANY as u32, ..Braid::default() };
    let one = Flow { from: 0, to: 1, sender: Sender::Braid(queue_pairs) };
    vec![
        Case::to_one(Scenario::Fairness, "8 queue pairs", port, vec![one]),
        Case::to_one(Scenario::Fairness, "8 processes", port, many_to_one()),
    ]
}

fn many_to_one() -> Vec<Flow> {
    (0..MANY).map(|from| Flow::braid(from, MANY)).collect()
}

fn spines(quick: bool) -> Vec<Case> {
    let whole = SPINE_MBIT_S;
    let fabrics: [(&str, &[u64]); 2] = [
        ("4 spines, one at a tenth", &[whole / 10, whole, whole, whole]),
        ("2 spines, one at half", &[whole / 2, whole]),
    ];
    let fabrics = if quick { &fabrics[..1] } else { &fabrics[..] };
    let one = |name: &str, rates: &[u64], lb: LbPolicy| {
        let port = |mbit_s: &u64| Port::new(*mbit_s, SPINE_RTT_MS, FIXED_QUEUE).link();
        let braid = Braid { lb, paths: SPINE_PATHS, ..Braid::default() };
        Case {
            scenario: Scenario::Spines,
            name: format!("{name}, {lb}"),
            topology: Topology::Parallel(rates.iter().map(port).collect()),
            flows: vec![Flow { from: 0, to: 1, sender: Sender::Braid(braid) }],
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

fn incast(quick: bool) -> Vec<Case> {
    let rtts = if quick { &[0][..] } else { &[0, 10][..] };
    let one = |rtt_ms: &u64| {
        let port = Port::new(200, *rtt_ms, FIXED_QUEUE);
        Case::to_one(Scenario::Incast, "8 to 1", port, many_to_one())
    };
    rtts.iter().map(one).collect()
}

fn cross_traffic() -> Vec<Case> {
    let port = Port::new(200, 20, ONE_PRODUCT);
    let cross =
        Flow { from: 1, to: 2, sender: Sender::Udp(Rate::from_bits(port.mbit_s * 500_000)) };
    vec![Case::to_one(Scenario::CrossTraffic, "", port, vec![Flow::braid(0, 2), cross])]
}

fn ecn(quick: bool) -> Vec<Case> {
    // Above what DCTCP needs, a seventh of the product (Alizadeh et al., SIGCOMM 2010, section 3.4).
    let ports = [
        Port { mark: Some(100_000), ..Port::new(200, 20, ONE_PRODUCT) },
        Port { mark: Some(50_000), ..Port::new(200, 0, FIXED_QUEUE) },
    ];
    let ports = if quick { &ports[..1] } else { &ports[..] };
    let one = |port: &Port| {
        let rate = port.mbit_s * 1_000_000;
        let more_controllers = vec![CcConfig::new(DcqcnConfig::new(rate))];
        let flows = vec![Flow::braid(0, 1)];
        Case { more_controllers, ..Case::to_one(Scenario::Ecn, "", *port, flows) }
    };
    ports.iter().map(one).collect()
}

fn reordering(quick: bool) -> Vec<Case> {
    let jitter = Reordering::Jitter(Duration::from_millis(5));
    let ports = [
        Port { reordering: jitter, ..Port::new(200, 20, ONE_PRODUCT) },
        Port { reordering: Reordering::Skip(25), ..Port::new(200, 10, ONE_PRODUCT) },
    ];
    let ports = if quick { &ports[..1] } else { &ports[..] };
    let one = |port: &Port| Case::to_one(Scenario::Reordering, "", *port, vec![Flow::braid(0, 1)]);
    ports.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn cases_have_names_of_their_own_and_something_to_judge() {
        for quick in [true, false] {
            let cases: Vec<Case> =
                ALL.into_iter().flat_map(|scenario| scenario.cases(quick)).collect();
            let names: BTreeSet<_> =
                cases.iter().map(|case| (case.scenario.name(), &case.name)).collect();
            assert_eq!(names.len(), cases.len());
            for case in &cases {
                let is_judged = case
                    .flows
                    .iter()
                    .any(|flow| matches!(flow.sender, Sender::Braid(_)) && case.rate().bits() > 0);
                assert!(is_judged && case.marks() == (case.scenario == Scenario::Ecn), "{case:?}");
            }
        }
        assert_eq!(Scenario::Bottleneck.cases(false).len(), 3 * (1 + 3 + 3));
    }

    #[test]
    fn the_spines_that_are_judged_lead_to_the_receiver() {
        let case = &Scenario::Spines.cases(false)[0];
        let rates: Vec<_> = case.bottleneck_rates().collect();
        assert_eq!(rates[..2], [(4, 10_000_000), (5, 100_000_000)]);
        assert_eq!(case.rate().bits(), 310_000_000);
    }
}
