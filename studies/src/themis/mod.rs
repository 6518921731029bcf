//! "Enabling Packet Spraying over Commodity RNICs with In-Network Support" (Themis, APNet 2025).

mod collectives;
mod failures;
mod outcome;
mod setup;
mod shipped;
mod spurious;

use super::{Claim, Effort, Experiment, Verdict};
use braid_sim::switch::ThemisMemory;
use braid_sim::time::{Ps, Rate};
use braid_sim::topology::{EqualCostRoutes, FatTree};
pub(crate) use shipped::shipped;

/// Returns the experiments of the study: figures 1 and 5, the memory of section 4, and failures.
pub(crate) fn experiments(effort: &Effort) -> Vec<Experiment<'static>> {
    let effort = *effort;
    vec![
        Experiment::new("spurious", 140, move |study| spurious::add(study, &effort)),
        Experiment::new("collectives", 1050, move |study| collectives::add(study, &effort)),
        Experiment::new("memory", 1, |study| study.claims.extend([memory(), largest_fabric()])),
        Experiment::new("failures", 20, move |study| failures::add(study, &effort)),
    ]
}

/// Returns the claims of the paper that these runs cannot test.
pub(crate) fn untested() -> Vec<Claim> {
    let claim = |says, why| Claim::untested("text", says, why);
    vec![
        claim(
            "in three tiers edge switches alone choose the route, by the linearity of the hashes \
                above (section 3.2)",
            "here the switches above read the route off the packet, which comes to the same",
        ),
        claim("0.2 MB is 0.6 % of a Tofino's memory (section 4)", "that needs the chip"),
        claim(
            "reordering in switches and flowlets cannot spray packets (section 2.3)",
            "it is an argument, not a measurement",
        ),
        claim(
            "a cut after a NACK is a slow start (section 2.2)",
            "the RNICs' own control is not public",
        ),
    ]
}

/// Returns the choices where both figures are silent.
pub(crate) fn choices() -> Vec<String> {
    [
        "RNICs are NIC-SR of the shipped protocol, whose receiver sends no NACKs but says in each \
         acknowledgement what has come. A NACK is one that does not move the ePSN and shows a \
         packet beyond \
         it. Themis-D blocks it by taking out what it shows, so that the sender sees a plain \
         cumulative \
         acknowledgement; the NACK that it compensates with is the blocked one as it was",
        "a NACK cuts the rate as a congestion mark does, as in the simulator of ConWeave, which \
            the paper \
         cites for it",
        "Kmin, Kmax are 4 and 16 KB for each Gb/s (1.6 and 6.4 MB at 400 Gb/s), Pmax 0.2; alpha \
            is updated \
         each 1 us, g = 1/256. Control packets have priority in switches",
        "timers are TI in {900, 300, 55, 10} us by TD in {4, 50, 200} us: only 900/4 is in the \
            text",
        "adaptive routing picks at random among the uplinks in the lowest of the bins below 5, \
            10, 20 % of \
         a port's part of the buffer (2 MB), seen 0.1 us ago",
        "Themis-S sprays acknowledgements too, by the PSN that they carry; hashed per flow they \
            load the \
         uplinks unevenly, and on a full network queues and reordering grow from that",
        "Themis as printed misses what passes its switch while a NACK is on the last hop: the \
            expected \
         packet may have followed already, and then the next packet of its way sends a NACK for \
         nothing. \
         \"Themis, looks back\" searches the ring for it before it blocks. Both are shown",
        "Themis-D's ring holds 1.5 times the last hop's bandwidth-delay product, what waits in \
            the switch \
         not counted; a NACK whose trigger the ring has forgotten passes",
    ]
    .map(String::from)
    .to_vec()
}

fn memory() -> Claim {
    let example = ThemisMemory::EXAMPLE;
    let bytes = example.total_bytes();
    Claim {
        figure: "table 1".into(),
        says: "a switch needs about 193 KB: 100 entries for each of 1600 queue pairs".into(),
        measured: format!("{} entries, {:.1} KB", example.ring_entries(), bytes as f64 / 1e3),
        verdict: Verdict::of(bytes == 192_512, "the formula gives something else"),
    }
}

/// Judges the fabric of section 4's example: a three-tier fat tree of switches with 32 ports.
fn largest_fabric() -> Claim {
    let k = 32;
    let plan = FatTree::k_ary(k, Rate::from_gbps(400), Ps::from_micros(1));
    let topology = plan.and_then(|tree| tree.build()).expect("an even arity makes a fat tree");
    let (nics, paths) = (topology.hosts(), EqualCostRoutes::new(&topology).most());
    let below = topology.nics.iter().filter(|nic| nic.edge == topology.nics[0].edge).count();
    Claim {
        figure: "section 4".into(),
        says: "a fat tree with k = 32 has 8192 NICs, 16 per ToR switch, and 256 equal-cost paths"
            .into(),
        measured: format!("{nics} NICs, {below} per ToR switch, at most {paths} paths"),
        verdict: Verdict::of((nics, below, paths) == (8192, 16, 256), "the fabric has others"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Spread, Study};
    use super::*;

    fn values(study: &Study, figure: &str, series: &str) -> Vec<Spread> {
        let series = study.figure(figure).unwrap().series(series).unwrap();
        series.points.iter().map(|point| point.y).collect()
    }

    /// Properties that do not depend on timers, sizes and seeds.
    #[test]
    fn in_short() {
        let study = crate::paper("themis").unwrap().judged(&Effort::QUICK);
        study.check_claims();
        let ids: Vec<&str> = study.figures.iter().map(|figure| figure.id.as_str()).collect();
        assert_eq!(
            ids,
            [
                "fig01b",
                "fig01c",
                "fig01d",
                "fig01-variations",
                "fig01-rate",
                "fig01-payload",
                "fig05a",
                "fig05b",
                "fig05-schemes",
                "fig05-size",
                "failures"
            ]
        );
        let variations = study.figure("fig01-variations").unwrap();
        let resent = variations.series("retransmissions").unwrap();
        for point in &resent.points {
            let is_themis = point.label.as_deref().is_some_and(|name| name.starts_with("Themis"));
            assert_eq!(point.y.max == 0.0, is_themis, "{point:?}");
        }
        for payload in ["1000 B", "1500 B", "4096 B"] {
            let by_rate = values(&study, "fig01-rate", payload);
            assert!(by_rate.windows(2).all(|two| two[0].mean < two[1].mean), "{by_rate:?}");
        }
        for figure in ["fig05a", "fig05b"] {
            let themis = values(&study, figure, "Themis");
            for other in ["ECMP", "adaptive routing"] {
                let slower = values(&study, figure, other);
                let pairs = themis.iter().zip(&slower);
                assert!(pairs.clone().all(|(themis, other)| themis.mean < other.mean), "{other}");
            }
        }
        let verdict = |figure: &str| {
            let claims = study.claims.iter().filter(|claim| claim.figure == figure);
            claims.map(|claim| claim.verdict == Verdict::Reproduced).collect::<Vec<bool>>()
        };
        assert_eq!(verdict("table 1"), [true]);
        assert_eq!((verdict("fig01").len(), verdict("fig01")[0]), (9, true));
        assert_eq!((verdict("fig05a").len(), verdict("fig05b").len()), (4, 4));
        assert_eq!(verdict("section 3.4"), [true]);
        assert_eq!(verdict("section 6"), [true]);
    }
}
