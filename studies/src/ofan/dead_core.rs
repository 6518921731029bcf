//! Appendix F.4: an all-to-all in which a link of the core fails suddenly.

use super::congestion::OfanControl;
use super::scheme::OfanScheme::{self, HostPkt, Ofan};
use super::setup::OfanSetup;
use crate::{Claim, Effort, Study, Verdict, run_all};
use braid_sim::simulation::Change;
use braid_sim::time::Ps;
use braid_sim::topology::Tier;

/// Factor by which a share of losses counts as another.
const TIMES: f64 = 2.0;

pub(super) fn run(effort: &Effort, study: &mut Study) {
    let cases = vec![(Ofan, None), (HostPkt, None), (Ofan, Some(OfanControl::MSwift))];
    let outcomes = run_all("App. F.4", cases, |(scheme, control)| {
        let usual = setup(effort, scheme);
        let setup = control.map_or(usual.clone(), |control: OfanControl| control.of(usual));
        let outcome = setup.observe(failure(&setup), &mut []);
        (100.0 * outcome.worst_loss, outcome.cct_us())
    });
    let [anchored, sprayed, controlled] = [0, 1, 2].map(|case: usize| outcomes[case]);
    study.claims.push(Claim {
        figure: "app. F.4".into(),
        says: "in an all-to-all at full rate a link of the core that fails takes all packets of \
            the flows that OFAN has anchored to it"
            .into(),
        measured: format!(
            "of the flow that suffers most {:.0} % of all packets, those resent included, are \
                lost with OFAN, {:.0} % with HOST PKT; {:.0} and {:.0} us",
            anchored.0, sprayed.0, anchored.1, sprayed.1
        ),
        verdict: Verdict::of(
            anchored.0 > TIMES * sprayed.0,
            "a lost packet is replaced at once here, and what is sent in its place probably \
                shifts the turns of all flows of its pointer",
        ),
    });
    study.claims.push(Claim {
        figure: "app. F.4".into(),
        says: "congestion control slows a rate down within a few round trips and loses the \
            synchronisation"
            .into(),
        measured: format!(
            "with MSwift {:.0} % of the packets of the flow that suffers most, {:.0} us",
            controlled.0, controlled.1
        ),
        verdict: Verdict::of(controlled.0 < anchored.0, "MSwift's flow loses as large a share"),
    });
    study.choices.push(
        "Appendix F.4: an all-to-all of 64 KiB per pair on 128 nodes; one cable between an \
            aggregation and a core switch is cut at a quarter of the least time, and nothing \
            learns of it. One run."
            .into(),
    );
}

fn setup(effort: &Effort, scheme: OfanScheme) -> OfanSetup {
    let usual = OfanSetup::new(scheme, effort.first_seed).all_to_all(64 << 10);
    if effort.quick { OfanSetup { k: 4, ..usual } } else { usual }
}

/// Returns the cut of the first cable between an aggregation and a core switch.
fn failure(setup: &OfanSetup) -> Vec<(Ps, Change)> {
    let topology = setup.topology();
    let mut cables = (0..).zip(&topology.cables);
    let core = cables.find(|(_, cable)| topology.tier(cable.high) == Tier::Core);
    let (cable, _) = core.expect("a fat tree has a core");
    let packets = u64::from(topology.hosts() - 1) * (setup.bytes / 4096);
    let quarter = Ps(packets * 41_780 / 4);
    vec![(quarter, Change::Cable { cable, up: false })]
}
