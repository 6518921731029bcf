//! The papers that can be reproduced.

use crate::batch::Effort;
use crate::shipped::Table;
use crate::study::Study;
use crate::{mcc, ofan, pro, rails, themis};

/// A paper that can be reproduced.
#[derive(Clone, Copy, Debug)]
pub struct Paper {
    /// The name on the command line.
    pub name: &'static str,
    /// Number of claims that the paper states, tested here or not.
    pub claims: usize,
    study: fn(&Effort) -> Study,
    shipped: fn(&Effort) -> Vec<Table>,
}

impl Paper {
    /// Runs the study. Claims that small runs do not show are not judged.
    pub fn study(&self, effort: &Effort) -> Study {
        let shipped = self.shipped(effort);
        let study = Study { shipped, ..(self.study)(effort) };
        if effort.quick { study.of_small_runs() } else { study }
    }

    /// Runs the paper's main experiments on the hosts that ship, beside the paper's.
    pub fn shipped(&self, effort: &Effort) -> Vec<Table> {
        (self.shipped)(effort)
    }
}

/// All papers.
pub const PAPERS: &[Paper] = &[
    Paper { name: "mcc", claims: 24, study: mcc::study, shipped: mcc::shipped },
    Paper { name: "ofan", claims: 82, study: ofan::study, shipped: ofan::shipped },
    Paper { name: "pro", claims: 39, study: pro::study, shipped: pro::shipped },
    Paper { name: "rails", claims: 61, study: rails::study, shipped: rails::shipped },
    Paper { name: "themis", claims: 25, study: themis::study, shipped: themis::shipped },
];
