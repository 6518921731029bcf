use super::*;
use crate::Verdict;

/// Properties that do not depend on sizes and seeds.
#[test]
fn in_short() {
    let study = crate::paper("rails").unwrap().judged(&Effort::QUICK);
    study.check_lines();
    study.check_claims();
    let mean = |figure: &str, series: &str, label: &str| study.bar(figure, series, label);
    for scheme in ["ECMP", "PLB", "MinRTT", "REPS"] {
        let sparse = mean("fig07", scheme, "sparse 0.6");
        assert!(mean("fig07", "RailS", "sparse 0.6") > 1.5 * sparse, "{scheme}");
        let received = mean("fig11bc", scheme, "receive, /max²");
        assert!(received > 0.05, "{scheme} ends at the destination's own interface: {received}");
    }
    assert!(mean("fig11bc", "RailS", "receive, /max²") < 0.01);
    assert!(mean("fig10bc", "REPS", "send, /max²") < mean("fig10bc", "ECMP", "send, /max²"));
    let limited = mean("causes-nvlink", "RailS", "R2");
    assert!(limited > 2.0 * mean("causes-nvlink", "RailS", "no limit"), "{limited}");
    for says in ["the least time", "at most w_max²"] {
        let claim = study.claims.iter().find(|claim| claim.says.contains(says)).unwrap();
        assert_eq!(claim.verdict, Verdict::Reproduced, "{}: {}", claim.says, claim.measured);
    }
    let printed = study.claims.iter().find(|claim| claim.says.contains("whoever sends evenly"));
    assert!(matches!(printed.unwrap().verdict, Verdict::Differs(_)));
}
