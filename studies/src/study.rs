//! What comes out of reproducing a paper.

use braid_lab::charts::Figure;
use serde::Serialize;

/// A paper reproduced.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Study {
    /// Its short name; files are called after it.
    pub paper: &'static str,
    /// Its title.
    pub title: String,
    /// In the paper's order.
    pub figures: Vec<Figure>,
    /// In the paper's order.
    pub claims: Vec<Claim>,
    /// Where the paper is silent: what was chosen, and how the result moves with it.
    pub choices: Vec<String>,
}

/// What the paper says, and what comes out.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Claim {
    /// The figure or table.
    pub figure: String,
    /// The paper.
    pub says: String,
    /// We, with units.
    pub measured: String,
    /// Whether that is the same.
    pub verdict: Verdict,
}

/// Whether a claim comes out.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It does.
    Reproduced,
    /// It does not: why, as far as found out.
    Differs(String),
    /// What was run cannot tell: why.
    NotJudged(String),
    /// Nothing was run for it: why.
    NotTested(String),
}

impl Verdict {
    /// Reproduced if `holds`; else it differs, for this reason.
    pub fn of(holds: bool, otherwise: impl Into<String>) -> Verdict {
        if holds { Verdict::Reproduced } else { Verdict::Differs(otherwise.into()) }
    }
}

impl Claim {
    /// What a paper says and nothing here measures.
    pub(crate) fn untested(figure: &str, says: &str, why: &str) -> Claim {
        Claim {
            figure: figure.into(),
            says: says.into(),
            measured: "nothing".into(),
            verdict: Verdict::NotTested(why.into()),
        }
    }
}

impl Study {
    /// Small runs may show what large ones would; that they do not shows nothing.
    pub(crate) fn of_small_runs(mut self) -> Study {
        for claim in &mut self.claims {
            if let Verdict::Differs(_) = claim.verdict {
                let why = "the sizes of --quick are too small to say that it does not come out";
                claim.verdict = Verdict::NotJudged(why.into());
            }
        }
        self
    }

    /// How many claims come out, differ, cannot be judged, were not tested.
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

    /// A figure by its id.
    pub fn figure(&self, id: &str) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.id == id)
    }
}

#[cfg(test)]
impl Study {
    /// The mean of a bar.
    pub(crate) fn bar(&self, figure: &str, series: &str, label: &str) -> f64 {
        let found = self.figure(figure).and_then(|figure| figure.series(series));
        let points = found.into_iter().flat_map(|series| &series.points);
        let point = points.into_iter().find(|point| point.label.as_deref() == Some(label));
        point.unwrap_or_else(|| panic!("{figure} has no {series} at {label}")).y.mean
    }

    /// Every line of every figure has points.
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
