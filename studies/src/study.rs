//! The results of reproducing a paper.

use braid_lab::charts::Figure;
use serde::Serialize;

use crate::batch::Effort;
use crate::experiment::Experiment;
use crate::shipped::Table;

/// The results of a paper.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Study {
    /// The short name of the paper, also used for files.
    pub paper: &'static str,
    /// The title of the paper.
    pub title: &'static str,
    /// The text at the head of the page, in Markdown.
    #[serde(skip)]
    pub(crate) notes: &'static str,
    /// The command that made the results.
    pub origin: Origin,
    /// The experiments that ran, each with the number of its claims.
    #[serde(skip)]
    pub(crate) experiments: Vec<(&'static str, usize)>,
    /// The paper's main experiments on the hosts that ship and on the paper's.
    pub shipped: Vec<Table>,
    /// The figures, in the paper's order.
    pub figures: Vec<Figure>,
    /// The claims, in the paper's order.
    pub claims: Vec<Claim>,
    /// The choices where the paper is silent, and the sensitivity of the results to them.
    pub choices: Vec<String>,
}

/// The origin of results: with it they can be made again.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Origin {
    /// The commit of the program, if the caller knows it.
    pub commit: Option<String>,
    /// The command.
    pub command: String,
    /// The first and the last seed.
    pub seeds: [u64; 2],
}

impl Origin {
    /// Returns the origin of a study of this effort, or of these experiments of it.
    pub(crate) fn of(paper: &str, effort: &Effort, only: &[String]) -> Origin {
        let Effort { quick, seeds, first_seed } = *effort;
        let mut command = format!("braid-sim reproduce {paper} --seeds {seeds}");
        if first_seed != Effort::FULL.first_seed {
            command += &format!(" --seed {first_seed}");
        }
        if quick {
            command += " --quick";
        }
        if !only.is_empty() {
            command += &format!(" --only {}", only.join(","));
        }
        let last = first_seed.saturating_add(u64::from(seeds.max(1) - 1));
        Origin { commit: None, command, seeds: [first_seed, last] }
    }
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

    /// Returns the verdict in words, without its reason.
    pub fn name(&self) -> &'static str {
        match self {
            Verdict::Reproduced => "reproduced",
            Verdict::Differs(_) => "differs",
            Verdict::NotJudged(_) => "not judged",
            Verdict::NotTested(_) => "not tested",
        }
    }

    /// Returns the reason, which a claim that is reproduced does not need.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Verdict::Reproduced => None,
            Verdict::Differs(why) | Verdict::NotJudged(why) | Verdict::NotTested(why) => Some(why),
        }
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
    /// Runs experiments and adds their results.
    pub(crate) fn add(&mut self, experiments: impl IntoIterator<Item = Experiment<'static>>) {
        for experiment in experiments {
            let (name, before) = (experiment.name, self.claims.len());
            experiment.run(self);
            self.experiments.push((name, self.claims.len() - before));
        }
    }

    /// Returns the name of the experiment that tests a claim of this study.
    pub(crate) fn experiment_of(&self, claim: &Claim) -> Option<&'static str> {
        let at = self.claims.iter().position(|of| std::ptr::eq(of, claim))?;
        let mut before = 0;
        let found = self.experiments.iter().find(|(_, claims)| {
            before += claims;
            at < before
        });
        found.map(|(name, _)| *name)
    }

    /// Turns every verdict into `NotJudged`. What is true of small runs may be false of the
    /// paper's sizes, and the other way round.
    pub(crate) fn of_small_runs(mut self) -> Study {
        for claim in &mut self.claims {
            if let Verdict::Reproduced | Verdict::Differs(_) = claim.verdict {
                let why = "the sizes of --quick are too small";
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
        let stated = crate::paper(self.paper).expect("a study is of a listed paper").claims;
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
    fn small_runs_judge_in_neither_direction() {
        let claims = vec![
            claim(Verdict::Reproduced),
            claim(Verdict::Differs("no".into())),
            claim(Verdict::NotJudged("too short".into())),
            Claim::untested("fig02", "it works", "no chip"),
        ];
        let study = Study {
            paper: "paper",
            title: "A paper",
            notes: "",
            origin: Origin::of("paper", &Effort::QUICK, &[]),
            experiments: vec![("one", 3), ("two", 0)],
            shipped: Vec::new(),
            figures: Vec::new(),
            claims,
            choices: Vec::new(),
        };
        assert_eq!(study.counted(), "4 claims: 1 reproduced, 1 differ, 1 not judged, 1 not tested");
        let small = study.of_small_runs();
        assert_eq!(small.counted(), "4 claims: 0 reproduced, 0 differ, 3 not judged, 1 not tested");
        let why = small.claims[..2].iter().filter_map(|claim| claim.verdict.reason());
        assert!(why.clone().all(|why| why.contains("--quick")) && why.count() == 2, "{small:?}");
        let experiments = small.claims.iter().map(|claim| small.experiment_of(claim));
        let one = Some("one");
        assert_eq!(experiments.collect::<Vec<_>>(), [one, one, one, None]);
    }

    #[test]
    fn the_origin_names_what_makes_the_results_again() {
        let effort = Effort { quick: false, seeds: 3, first_seed: 7 };
        let origin = Origin::of("paper", &effort, &["a".to_owned(), "b".to_owned()]);
        assert_eq!(origin.seeds, [7, 9]);
        assert_eq!(origin.command, "braid-sim reproduce paper --seeds 3 --seed 7 --only a,b");
    }
}
