use super::*;
use crate::Verdict;

/// Properties that do not depend on sizes, timers and seeds.
#[test]
fn in_short() {
    let study = crate::paper("mcc").unwrap().judged(&Effort::QUICK);
    study.check_lines();
    study.check_claims();
    let mean = |figure: &str, series: &str, label: &str| study.bar(figure, series, label);
    assert!(mean("fig06a", "l1", "MCC") > 97.0, "{}", mean("fig06a", "l1", "MCC"));
    for scheme in ["PFC", "DCQCN", "TIMELY", "Swift", "MSwift", "MCC"] {
        let (measured, bound) =
            (mean("fig06b", "measured", scheme), mean("fig06b", "bound", scheme));
        assert!(measured >= bound, "{scheme}: {measured} below {bound}");
    }
    let slow = mean("causes-network", "MCC", "l2 slow both ways");
    assert!(slow > 30.0, "leaf 1 cannot see that l2 is slow on its way back: {slow}");
    assert!(mean("causes-network", "MCC", "l1 and l2") < 5.0);
}

#[test]
fn a_quick_study_judges_only_what_sizes_do_not_decide() {
    let study = crate::paper("mcc").unwrap().judged(&Effort::QUICK);
    for claim in &study.claims {
        let is_judged = matches!(claim.verdict, Verdict::Reproduced | Verdict::Differs(_));
        assert_eq!(is_judged, claim.says.contains("92 us"), "{}", claim.says);
    }
}
