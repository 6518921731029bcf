//! Tests of the claims that hold even with the least effort.

use super::*;
use crate::{Verdict, write};

fn claim<'a>(study: &'a Study, figure: &str, says: &str) -> &'a crate::Claim {
    let found =
        study.claims.iter().find(|claim| claim.figure == figure && claim.says.contains(says));
    found.unwrap_or_else(|| panic!("no claim of {figure} that {says}"))
}

/// One run of the quick study for all tests, because it takes seconds.
#[test]
fn the_quick_study_is_whole_and_its_robust_claims_hold() {
    let study = crate::paper("ofan").unwrap().judged(&Effort::QUICK);
    study.check_claims();
    for id in [
        "fig01a",
        "fig01b",
        "fig03a",
        "fig03b",
        "fig04a",
        "fig04b",
        "fig05a",
        "fig05b",
        "fig06a",
        "fig06b",
        "fig07-large-1",
        "fig07-small-4",
        "fig08",
        "fig09a",
        "fig09b",
        "fig10",
        "fig11a",
        "fig12a",
        "fig12b",
        "fig13",
        "fig14",
        "fig18",
    ] {
        let figure = study.figure(id).unwrap_or_else(|| panic!("figure {id} is missing"));
        assert!(figure.series.iter().all(|series| !series.points.is_empty()), "{id}");
    }
    for (figure, says) in [
        ("app. B", "lower bound"),
        ("fig. 1", "spraying packets beats"),
        ("fig. 3", "clear winner in the permutation"),
        ("theorem 1", "JSQ"),
        ("theorem 2", "RSQ"),
        ("theorem 2", "HOST PKT"),
        ("theorem 3", "HOST DR"),
        ("theorem 4", "OFAN"),
        ("fig. 7", "perfectly balanced"),
        ("fig. 8", "order of the schemes"),
        ("fig. 9", "permutation: OFAN is the best"),
        ("fig. 12", "permutation: with SACK OFAN is the best"),
    ] {
        let claim = claim(&study, figure, says);
        assert_eq!(claim.verdict, Verdict::Reproduced, "{figure}: {says}: {}", claim.measured);
    }
    let dir = std::env::temp_dir().join(format!("braid-sim-ofan-{}", std::process::id()));
    write(&study, &dir).unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn the_same_effort_gives_the_same_study() {
    let ofan = crate::paper("ofan").unwrap();
    let run = || ofan.part(&Effort::QUICK, &["recovery".to_owned()]).unwrap();
    assert_eq!(run(), run());
}
