use super::*;
use crate::Verdict;

/// The claims that hold even in small runs.
const ROBUST: [(&str, &str); 5] = [
    ("fig02", "ideal round robin"),
    ("theorem 1", "full load (ring)"),
    ("tab02", "PRO: no marks"),
    ("fig11a", "grow and grow"),
    ("fig12", "PRO: 4 packets"),
];

#[test]
fn small_runs_show_what_the_paper_says() {
    let study = crate::paper("pro").unwrap().judged(&Effort::QUICK);
    study.check_claims();
    for id in
        ["fig02b", "fig08a", "tab02", "fig09d", "fig10", "fig11c", "fig12", "fig13", "theorem1a"]
    {
        let figure = study.figure(id).unwrap_or_else(|| panic!("{id} is missing"));
        assert!(
            figure.series.iter().all(|series| !series.points.is_empty()),
            "{id} has an empty line"
        );
    }
    let slowdown = |name: &str| {
        let series = study.figure("fig08a").and_then(|figure| figure.series(name));
        series.and_then(|series| series.points.last()).expect("every scheme has points").y.mean
    };
    let others = ["ECMP", "ConWeave", "AR"].map(slowdown);
    assert!(slowdown("PRO") < 1.03, "{}", slowdown("PRO"));
    assert!(others.iter().all(|other| *other > 1.3), "{others:?}");
    for (figure, says) in ROBUST {
        let claim =
            study.claims.iter().find(|claim| claim.figure == figure && claim.says.contains(says));
        let claim = claim.unwrap_or_else(|| panic!("no claim of {figure} says `{says}`"));
        assert_eq!(claim.verdict, Verdict::Reproduced, "{figure}, {says}: {}", claim.measured);
    }
}
