//! What comes out of reproducing a paper.

use braid_charts::Figure;
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
}

impl Verdict {
    /// Reproduced if `holds`; else it differs, for this reason.
    pub fn of(holds: bool, otherwise: impl Into<String>) -> Verdict {
        if holds { Verdict::Reproduced } else { Verdict::Differs(otherwise.into()) }
    }
}

impl Study {
    /// A figure by its id.
    pub fn figure(&self, id: &str) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.id == id)
    }
}
