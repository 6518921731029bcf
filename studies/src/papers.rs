//! The papers that can be reproduced.

use crate::batch::Effort;
use crate::experiment::Experiment;
use crate::shipped::Table;
use crate::study::{Claim, Origin, Study};
use crate::{mcc, ofan, pro, rails, themis};

/// A paper that can be reproduced.
#[derive(Clone, Copy, Debug)]
pub struct Paper {
    /// The name on the command line.
    pub name: &'static str,
    /// Number of claims that the paper states, tested here or not.
    pub claims: usize,
    title: &'static str,
    /// The text at the head of the paper's page, in Markdown.
    notes: &'static str,
    /// The choices where the paper is silent in general. Those of one figure are with that figure.
    choices: fn() -> Vec<String>,
    /// The claims that no experiment tests.
    untested: fn() -> Vec<Claim>,
    experiments: fn(&Effort) -> Vec<Experiment<'static>>,
    shipped: fn(&Effort) -> Vec<Table>,
}

/// An experiment that a paper's study does not have.
#[derive(Debug, thiserror::Error)]
#[error("the study of {paper} has no experiment `{name}`; there are: {known}")]
pub struct UnknownExperiment {
    paper: &'static str,
    name: String,
    known: String,
}

impl Paper {
    /// Runs the study. Small runs judge no claim.
    pub fn study(&self, effort: &Effort) -> Study {
        let study = Study { shipped: self.shipped(effort), ..self.judged(effort) };
        if effort.quick { study.of_small_runs() } else { study }
    }

    /// Runs some experiments of the study, without the tables of the hosts that ship. Small runs
    /// judge no claim.
    ///
    /// # Errors
    /// The study has no experiment of one of the names.
    pub fn part(&self, effort: &Effort, only: &[String]) -> Result<Study, UnknownExperiment> {
        let experiments = self.experiments(effort);
        if let Some(name) = only.iter().find(|name| experiments.iter().all(|e| e.name != **name)) {
            let known: Vec<&str> = experiments.iter().map(|experiment| experiment.name).collect();
            let (name, known) = (name.clone(), known.join(", "));
            return Err(UnknownExperiment { paper: self.name, name, known });
        }
        let is_chosen = |experiment: &Experiment<'_>| only.iter().any(|of| of == experiment.name);
        let mut study = self.empty(effort, only);
        study.add(experiments.into_iter().filter(is_chosen));
        Ok(if effort.quick { study.of_small_runs() } else { study })
    }

    /// Runs all experiments, and judges every claim even by small runs.
    pub(crate) fn judged(&self, effort: &Effort) -> Study {
        let mut study = self.empty(effort, &[]);
        study.choices = (self.choices)();
        study.add(self.experiments(effort));
        study.claims.extend((self.untested)());
        study
    }

    fn empty(&self, effort: &Effort, only: &[String]) -> Study {
        Study {
            paper: self.name,
            title: self.title,
            notes: self.notes,
            origin: Origin::of(self.name, effort, only),
            experiments: Vec::new(),
            shipped: Vec::new(),
            figures: Vec::new(),
            claims: Vec::new(),
            choices: Vec::new(),
        }
    }

    /// Returns the experiments of the study, in the order of the paper, none of which has run.
    pub fn experiments(&self, effort: &Effort) -> Vec<Experiment<'static>> {
        (self.experiments)(effort)
    }

    /// Runs the paper's main experiments on the hosts that ship, beside the paper's.
    pub fn shipped(&self, effort: &Effort) -> Vec<Table> {
        (self.shipped)(effort)
    }
}

const MCC: Paper = Paper {
    name: "mcc",
    title: "Congestion Control for AI Workloads with Message-Level Signaling (MCC)",
    claims: 24,
    notes: include_str!("mcc/notes.txt"),
    choices: mcc::choices,
    untested: mcc::untested,
    experiments: mcc::experiments,
    shipped: mcc::shipped,
};

const OFAN: Paper = Paper {
    name: "ofan",
    title: "Load Balancing for AI Training Workloads (OFAN)",
    claims: 82,
    notes: include_str!("ofan/notes.txt"),
    choices: ofan::choices,
    untested: ofan::untested,
    experiments: ofan::experiments,
    shipped: ofan::shipped,
};

const PRO: Paper = Paper {
    name: "pro",
    title: "PRO: Deterministic Load Balancing for AI Datacenter Network",
    claims: 39,
    notes: include_str!("pro/notes.txt"),
    choices: pro::choices,
    untested: pro::untested,
    experiments: pro::experiments,
    shipped: pro::shipped,
};

const RAILS: Paper = Paper {
    name: "rails",
    title: "RailS: Load Balancing for All-to-All Communication in Distributed Mixture-of-Experts \
        Training",
    claims: 61,
    notes: include_str!("rails/notes.txt"),
    choices: rails::choices,
    untested: rails::untested,
    experiments: rails::experiments,
    shipped: rails::shipped,
};

const THEMIS: Paper = Paper {
    name: "themis",
    title: "Enabling Packet Spraying over Commodity RNICs with In-Network Support (Themis)",
    claims: 25,
    notes: include_str!("themis/notes.txt"),
    choices: themis::choices,
    untested: themis::untested,
    experiments: themis::experiments,
    shipped: themis::shipped,
};

/// All papers.
pub const PAPERS: &[Paper] = &[MCC, OFAN, PRO, RAILS, THEMIS];

/// Returns the paper of a name.
pub fn paper(name: &str) -> Option<&'static Paper> {
    PAPERS.iter().find(|paper| paper.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn experiments_of_a_paper_have_names_of_their_own() {
        for paper in PAPERS {
            let experiments = paper.experiments(&Effort::QUICK);
            let mut names: Vec<&str> = experiments.iter().map(|of| of.name).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), paper.experiments(&Effort::QUICK).len(), "{}", paper.name);
        }
    }

    #[test]
    fn an_unknown_experiment_is_answered_with_those_there_are() {
        let refused = THEMIS.part(&Effort::QUICK, &["magic".to_owned()]).unwrap_err().to_string();
        assert!(refused.contains("`magic`") && refused.contains("failures"), "{refused}");
    }

    #[test]
    fn a_part_has_the_claims_of_its_experiments_only() {
        let part = THEMIS.part(&Effort::QUICK, &["memory".to_owned()]).unwrap();
        let figures: Vec<&str> = part.claims.iter().map(|claim| claim.figure.as_str()).collect();
        assert_eq!(figures, ["table 1", "section 4"]);
        assert_eq!(part.experiment_of(&part.claims[1]), Some("memory"));
        assert!(part.origin.command.ends_with("themis --seeds 1 --quick --only memory"));
    }
}
