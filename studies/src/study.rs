//! The results of reproducing a paper.

use braid_lab::charts::Figure;
use serde::Serialize;

use crate::shipped::Table;

/// The results of a paper.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Study {
    /// The short name of the paper, also used for files.
    pub paper: &'static str,
    /// The title of the paper.
    pub title: String,
    /// The paper's main experiments on the hosts that ship and on the paper's.
    pub shipped: Vec<Table>,
    /// The figures, in the paper's order.
    pub figures: Vec<Figure>,
    /// The claims, in the paper's order.
    pub claims: Vec<Claim>,
    /// The choices where the paper is silent, and the sensitivity of the results to them.
    pub choices: Vec<String>,
}

/// A claim of the paper with the measurement.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Claim {
    /// The figure or table.
    pub figure: String,
    /// The paper's statement.
    pub says: String,
    /// Our measurement, with units.
    pub measured: String,
    /// The verdict.
    pub verdict: Verdict,
}

/// The verdict about a claim.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The claim is reproduced.
    Reproduced,
    /// The result differs, for this reason as far as known.
    Differs(String),
    /// The runs cannot judge the claim, for this reason.
    NotJudged(String),
    /// The claim was not tested, for this reason.
    NotTested(String),
}

impl Verdict {
    /// Returns `Reproduced` if `holds`, and otherwise `Differs` with this reason.
    pub fn of(holds: bool, otherwise: impl Into<String>) -> Verdict {
        if holds { Verdict::Reproduced } else { Verdict::Differs(otherwise.into()) }
    }
}

impl Claim {
    /// Returns a claim of the paper that this study does not test.
    pub(crate) fn untested(figure: &str, says: &str, why: &str) -> Claim {
        Claim {
            figure: figure.into(),
            says: says.into(),
            measured: "nothing".into(),
            verdict: Verdict::NotTested(why.into()),
        }
    }

    /// Returns a claim whose runs `--quick` leaves out.
    pub(crate) fn left_out(figure: impl Into<String>, says: impl Into<String>) -> Claim {
        Claim {
            figure: figure.into(),
            says: says.into(),
            measured: "nothing".into(),
            verdict: Verdict::NotJudged("--quick leaves these runs out".into()),
        }
    }
}

impl Study {
    /// Turns `Differs` into `NotJudged`. Small runs can confirm a claim, but cannot refute it.
    pub(crate) fn of_small_runs(mut self) -> Study {
        for claim in &mut self.claims {
            if let Verdict::Differs(_) = claim.verdict {
                let why = "the sizes of --quick are too small to say that it does not come out";
                claim.verdict = Verdict::NotJudged(why.into());
            }
        }
        self
    }

    /// Counts the claims by verdict.
    pub(crate) fn counted(&self) -> String {
        let count = |is: fn(&Verdict) -> bool| {
            self.claims.iter().filter(|claim| is(&claim.verdict)).count()
        };
        format!(
            "{} claims: {} reproduced, {} differ, {} not judged, {} not tested",
            self.claims.len(),
            count(|verdict| matches!(verdict, Verdict::Reproduced)),
            count(|verdict| matches!(verdict, Verdict::Differs(_))),
            count(|verdict| matches!(verdict, Verdict::NotJudged(_))),
            count(|verdict| matches!(verdict, Verdict::NotTested(_)))
        )
    }

    /// Returns a figure by its id.
    pub fn figure(&self, id: &str) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.id == id)
    }
}

#[cfg(test)]
impl Study {
    /// Returns the mean of a bar.
    pub(crate) fn bar(&self, figure: &str, series: &str, label: &str) -> f64 {
        let found = self.figure(figure).and_then(|figure| figure.series(series));
        let points = found.into_iter().flat_map(|series| &series.points);
        let point = points.into_iter().find(|point| point.label.as_deref() == Some(label));
        point.unwrap_or_else(|| panic!("{figure} has no {series} at {label}")).y.mean
    }

    /// Checks that no claim of the paper has vanished, and that none is listed twice.
    pub(crate) fn check_claims(&self) {
        let paper = crate::PAPERS.iter().find(|paper| paper.name == self.paper);
        let stated = paper.expect("a study is of a listed paper").claims;
        assert_eq!(self.claims.len(), stated, "claims of {}", self.paper);
        let mut claims: Vec<_> =
            self.claims.iter().map(|claim| (&claim.figure, &claim.says)).collect();
        claims.sort_unstable();
        for two in claims.windows(2) {
            assert_ne!(two[0], two[1], "{} lists a claim twice", self.paper);
        }
    }

    /// Checks that every line of every figure has points.
    pub(crate) fn check_lines(&self) {
        for figure in &self.figures {
            let is_whole = figure.series.iter().all(|series| !series.points.is_empty());
            assert!(is_whole, "{} has an empty line", figure.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(verdict: Verdict) -> Claim {
        let (figure, says, measured) = ("fig01".into(), "it grows".into(), "by 3".into());
        Claim { figure, says, measured, verdict }
    }

    #[test]
    fn a_small_run_can_show_something_but_not_refute_it() {
        let claims = vec![
            claim(Verdict::Reproduced),
            claim(Verdict::Differs("no".into())),
            claim(Verdict::NotJudged("too short".into())),
            Claim::untested("fig02", "it works", "no chip"),
        ];
        let study = Study {
            paper: "paper",
            title: "A paper".into(),
            shipped: Vec::new(),
            figures: Vec::new(),
            claims,
            choices: Vec::new(),
        };
        assert_eq!(study.counted(), "4 claims: 1 reproduced, 1 differ, 1 not judged, 1 not tested");
        let small = study.of_small_runs();
        assert_eq!(small.counted(), "4 claims: 1 reproduced, 0 differ, 2 not judged, 1 not tested");
        let Verdict::NotJudged(why) = &small.claims[1].verdict else { panic!("{small:?}") };
        assert!(why.contains("--quick"), "{why}");
    }
}
