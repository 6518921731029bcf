//! The papers that can be reproduced.

use crate::batch::Effort;
use crate::study::Study;
use crate::{mcc, ofan, pro, rails, themis};

/// A paper that can be reproduced.
#[derive(Clone, Copy, Debug)]
pub struct Paper {
    /// The name on the command line.
    pub name: &'static str,
    study: fn(&Effort) -> Study,
}

impl Paper {
    /// Runs the study. Claims that small runs do not show are not judged.
    pub fn study(&self, effort: &Effort) -> Study {
        let study = (self.study)(effort);
        if effort.quick { study.of_small_runs() } else { study }
    }
}

/// All papers.
pub const PAPERS: &[Paper] = &[
    Paper { name: "mcc", study: mcc::study },
    Paper { name: "ofan", study: ofan::study },
    Paper { name: "pro", study: pro::study },
    Paper { name: "rails", study: rails::study },
    Paper { name: "themis", study: themis::study },
];
