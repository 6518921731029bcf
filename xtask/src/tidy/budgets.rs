//! Budgets of the rules that the tree does not keep everywhere yet: they only shrink.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{Breach, read};
use crate::Failure;

/// The file with the budgets, relative to the repository's top folder.
pub(super) const FILE: &str = "xtask/tidy.toml";

/// A rule with a budget per crate.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Rule {
    /// Lines with a comment that are wider than 100 columns.
    WideComments,
    /// Doc comments that start with a word such as "What".
    CommentOpenings,
    /// Sentences of comments with more than 30 words.
    LongSentences,
    /// Types that share their name with an earlier type of the crate.
    RepeatedTypeNames,
    /// Functions with more than 6 parameters.
    Parameters,
    /// Structs with more than 14 fields.
    Fields,
    /// Imports from a parent module or from a later module of the crate's order.
    UpwardImports,
    /// Files in the largest circle of imports.
    Circle,
}

impl Rule {
    /// The value that a crate without a budget has to keep.
    fn goal(self) -> usize {
        match self {
            Rule::Circle => 4,
            _ => 0,
        }
    }

    fn key(self) -> &'static str {
        match self {
            Rule::WideComments => "wide-comments",
            Rule::CommentOpenings => "comment-openings",
            Rule::LongSentences => "long-sentences",
            Rule::RepeatedTypeNames => "repeated-type-names",
            Rule::Parameters => "parameters",
            Rule::Fields => "fields",
            Rule::UpwardImports => "upward-imports",
            Rule::Circle => "circle",
        }
    }
}

/// The contents of [`FILE`].
#[derive(Default, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Budgets {
    #[serde(default)]
    budgets: BTreeMap<Rule, BTreeMap<String, usize>>,
    /// Structs that may have more fields, as `crate::Type`, each with the reason.
    #[serde(default)]
    pub(super) field_exceptions: BTreeMap<String, String>,
    /// Crates whose `lib.rs` declares its modules in their order, the lowest first.
    #[serde(default)]
    pub(super) ordered_crates: Vec<String>,
}

impl Budgets {
    /// Reads [`FILE`]; a tree without that file has no budgets.
    pub(super) fn read(root: &Path) -> Result<Self, Failure> {
        if !root.join(FILE).exists() {
            return Ok(Self::default());
        }
        toml::from_str(&read(&root.join(FILE))?).map_err(|e| Failure::new(format!("{FILE}: {e}")))
    }

    /// Compares the findings of one rule in one crate with the budget.
    ///
    /// `value` is the number that the budget limits: the number of findings, unless the rule limits
    /// another quantity.
    fn judge(&self, rule: Rule, folder: &str, value: usize, findings: Vec<Breach>) -> Report {
        let budget = self.budgets.get(&rule).and_then(|crates| crates.get(folder)).copied();
        let limit = budget.unwrap_or(rule.goal());
        let key = rule.key();
        let mut report = Report::default();
        if value > limit {
            report.breaches = findings;
            if limit > rule.goal() {
                let text = format!("{key} of {folder}: {value}, the budget in {FILE} is {limit}");
                report.breaches.push(Breach::new(Path::new(folder), 0, text));
            }
        } else if budget.is_some_and(|budget| value < budget) {
            let lower = match value.max(rule.goal()) {
                lowest if lowest == rule.goal() => "remove the budget".to_owned(),
                value => format!("lower the budget to {value}"),
            };
            report.notes.push(format!("{FILE}: {key} of {folder}: {lower}"));
        }
        report
    }

    /// Crates with a budget for `rule`.
    fn crates(&self, rule: Rule) -> impl Iterator<Item = &String> {
        self.budgets.get(&rule).into_iter().flat_map(BTreeMap::keys)
    }
}

/// The result of the checks.
#[derive(Default, Debug)]
pub struct Report {
    /// Every place that breaks a rule.
    pub breaches: Vec<Breach>,
    /// Remarks that do not fail: checks that were not made, budgets that can be lowered.
    pub notes: Vec<String>,
}

impl Report {
    pub(super) fn add(&mut self, other: Report) {
        self.breaches.extend(other.breaches);
        self.notes.extend(other.notes);
    }
}

/// Findings of all rules with a budget, sorted by rule and crate.
#[derive(Default)]
pub(super) struct Findings {
    found: BTreeMap<(Rule, String), (usize, Vec<Breach>)>,
}

impl Findings {
    /// Adds one finding, which counts one.
    pub(super) fn add(&mut self, rule: Rule, folder: &str, breach: Breach) {
        let (value, breaches) = self.found.entry((rule, folder.to_owned())).or_default();
        *value += 1;
        breaches.push(breach);
    }

    /// Sets the quantity that `rule` limits, with the text that explains it.
    pub(super) fn set(&mut self, rule: Rule, folder: &str, value: usize, breach: Breach) {
        self.found.insert((rule, folder.to_owned()), (value, vec![breach]));
    }

    /// Compares all findings with `budgets`; `folders` are the crates of the tree.
    pub(super) fn judge(mut self, budgets: &Budgets, folders: &[PathBuf]) -> Report {
        for rule in budgets.budgets.keys() {
            for folder in budgets.crates(*rule) {
                self.found.entry((*rule, folder.clone())).or_default();
            }
        }
        let mut report = Report::default();
        for ((rule, folder), (value, breaches)) in self.found {
            if folders.iter().any(|known| *known == Path::new(&folder)) {
                report.add(budgets.judge(rule, &folder, value, breaches));
            } else {
                let key = rule.key();
                let note = format!("{FILE}: {key} of {folder}: no such crate, remove the budget");
                report.notes.push(note);
            }
        }
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(budget: Option<usize>, found: usize) -> Report {
        let table = budget.map(|n| format!("[budgets.parameters]\nlb = {n}\n"));
        let budgets: Budgets = toml::from_str(&table.unwrap_or_default()).expect("a table");
        let mut findings = Findings::default();
        for line in 0..found {
            findings.add(Rule::Parameters, "lb", Breach::new(Path::new("lb/src/a.rs"), line, "x"));
        }
        findings.judge(&budgets, &[PathBuf::from("lb")])
    }

    #[test]
    fn findings_above_the_budget_fail() {
        assert_eq!(report(None, 1).breaches.len(), 1);
        let breaches = report(Some(2), 3).breaches;
        assert_eq!(breaches.len(), 4);
        assert!(breaches[3].rule.contains("3, the budget in xtask/tidy.toml is 2"));
    }

    #[test]
    fn findings_below_the_budget_are_a_note() {
        for (found, note) in [(1, Some("lower the budget to 1")), (0, Some("remove the budget"))] {
            let report = report(Some(2), found);
            assert!(report.breaches.is_empty());
            assert!(report.notes[0].ends_with(note.unwrap()), "{:?}", report.notes);
        }
        assert!(report(Some(2), 2).notes.is_empty());
    }

    #[test]
    fn a_budget_of_an_unknown_crate_is_a_note() {
        let budgets = toml::from_str("[budgets.circle]\nnone = 5\n").expect("a table");
        let report = Findings::default().judge(&budgets, &[PathBuf::from("lb")]);
        assert!(report.notes[0].contains("circle of none: no such crate"));
    }

    #[test]
    fn every_rule_is_read_by_its_key() {
        use Rule::*;
        let rules = [WideComments, CommentOpenings, LongSentences, RepeatedTypeNames];
        for rule in rules.into_iter().chain([Parameters, Fields, UpwardImports, Circle]) {
            let text = format!("[budgets.{}]\nlb = 1\n", rule.key());
            let budgets: Budgets = toml::from_str(&text).expect("a table");
            assert!(budgets.budgets.contains_key(&rule));
        }
    }
}
