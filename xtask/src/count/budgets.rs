//! The budget of instructions of each case, and the comparison with the counts.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;

use serde::Deserialize;

use super::ACCEPT;
use crate::{Failure, tree};

/// Where the budgets are, seen from the repository's top folder.
pub(super) const FILE: &str = "bench/instructions.toml";

/// A count may be off by so much of its budget, in percent: another CPU model's copying and another
/// system's libraries cost a little more or less.
const TOLERANCE: u64 = 3;

/// Instructions by case, and what compiled it.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct InstructionBudgets {
    /// The compiler; another one makes other code.
    pub(super) rustc: String,
    pub(super) instructions: BTreeMap<String, u64>,
}

/// The result of a comparison.
#[derive(Default)]
pub(super) struct Comparison {
    /// Every case with its count and its budget.
    pub(super) table: String,
    /// Remarks that do not fail.
    pub(super) notes: Vec<String>,
    /// Cases above their budgets, which fail.
    pub(super) breaches: Vec<String>,
}

impl InstructionBudgets {
    pub(super) fn read() -> Result<InstructionBudgets, Failure> {
        let text = fs::read_to_string(tree::root().join(FILE))
            .map_err(|e| Failure::new(format!("cannot read {FILE}: {e}")).remedy(ACCEPT))?;
        toml::from_str(&text).map_err(|e| Failure::new(format!("{FILE}: {e}")).remedy(ACCEPT))
    }

    pub(super) fn write(&self) -> Result<(), Failure> {
        fs::write(tree::root().join(FILE), self.text())
            .map_err(|e| Failure::new(format!("cannot write {FILE}: {e}")))
    }

    /// Keeps the smaller count of each case.
    pub(super) fn take_least(&mut self, again: BTreeMap<String, u64>) {
        for (case, count) in again {
            self.instructions.entry(case).and_modify(|least| *least = count.min(*least));
        }
    }

    fn text(&self) -> String {
        let mut text = format!(
            "# Instructions that each case may take, written by `{ACCEPT}`.\n\
             # docs/performance.md describes the cases.\n\
             rustc = \"{}\"\n\n[instructions]\n",
            self.rustc
        );
        for (case, count) in &self.instructions {
            let _ = writeln!(text, "\"{case}\" = {count}");
        }
        text
    }

    /// Holds counts against these budgets. Where another compiler has made the code they are shown
    /// and not judged.
    pub(super) fn judge(&self, counted: &InstructionBudgets) -> Comparison {
        let mut comparison = Comparison::default();
        let comparable = self.rustc == counted.rustc;
        if !comparable {
            comparison.notes.push(format!(
                "NOT JUDGED: the budgets are of {}, this is {}, which makes other code. To judge from here on: {ACCEPT}",
                self.rustc, counted.rustc
            ));
        }
        let cases = self.instructions.keys().chain(counted.instructions.keys());
        for case in cases.collect::<BTreeSet<_>>() {
            match (counted.instructions.get(case), self.instructions.get(case)) {
                (Some(&count), Some(&budget)) => {
                    let change = change(count, budget);
                    let _ = writeln!(comparison.table, "{case:<52} {count:>10} {change:>+7.2} %");
                    if comparable {
                        comparison.compare(case, count, budget);
                    }
                }
                (Some(count), None) => {
                    let _ = writeln!(comparison.table, "{case:<52} {count:>10}");
                    comparison
                        .breaches
                        .push(format!("{case} takes {count} instructions and has no budget"));
                }
                (None, _) => comparison
                    .breaches
                    .push(format!("{case} has a budget, but there is no such case")),
            }
        }
        comparison
    }
}

impl Comparison {
    fn compare(&mut self, case: &str, count: u64, budget: u64) {
        let change = change(count, budget);
        if count * 100 > budget * (100 + TOLERANCE) {
            self.breaches.push(format!(
                "{case} takes {count} instructions, {change:.1} % more than its budget of {budget}"
            ));
        } else if count * 100 < budget * (100 - TOLERANCE) {
            self.notes.push(format!(
                "{case} takes {count} instructions, {:.1} % less than its budget of {budget}. To keep that: {ACCEPT}",
                -change
            ));
        }
    }
}

/// In percent of the budget.
fn change(count: u64, budget: u64) -> f64 {
    (count as f64 / budget as f64 - 1.0) * 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(rustc: &str, instructions: &[(&str, u64)]) -> InstructionBudgets {
        let instructions = instructions.iter().map(|(case, count)| ((*case).into(), *count));
        InstructionBudgets { rustc: rustc.into(), instructions: instructions.collect() }
    }

    fn judge(budget: u64, count: u64) -> Comparison {
        of("rustc 1", &[("a/b", budget)]).judge(&of("rustc 1", &[("a/b", count)]))
    }

    #[test]
    fn within_the_tolerance_nothing_is_said() {
        for count in [970, 1000, 1030] {
            let comparison = judge(1000, count);
            assert!(comparison.breaches.is_empty() && comparison.notes.is_empty(), "{count}");
            assert!(comparison.table.contains(&count.to_string()), "{}", comparison.table);
        }
    }

    #[test]
    fn more_is_a_breach_and_less_a_note() {
        let more = judge(1000, 1031);
        let expected = "a/b takes 1031 instructions, 3.1 % more than its budget of 1000";
        assert_eq!((more.breaches, more.notes), (vec![expected.into()], vec![]));
        let less = judge(1000, 969);
        assert!(less.breaches.is_empty());
        assert!(
            less.notes[0].contains("969 instructions, 3.1 % less")
                && less.notes[0].ends_with(ACCEPT)
        );
    }

    #[test]
    fn cases_and_budgets_belong_together() {
        let comparison = of("rustc 1", &[("old", 7)]).judge(&of("rustc 1", &[("new", 5)]));
        let expected = [
            "new takes 5 instructions and has no budget",
            "old has a budget, but there is no such case",
        ];
        assert_eq!(comparison.breaches, expected);
    }

    #[test]
    fn another_compiler_is_said_and_not_judged() {
        let budgets = of("rustc 1", &[("a", 1000), ("b", 1000), ("old", 7)]);
        let comparison = budgets.judge(&of("rustc 2", &[("a", 2000), ("b", 10)]));
        assert_eq!(comparison.breaches, ["old has a budget, but there is no such case"]);
        assert_eq!(comparison.notes.len(), 1);
        assert!(comparison.notes[0].contains("rustc 1, this is rustc 2"), "{:?}", comparison.notes);
        assert!(comparison.table.contains("+100.00 %"), "{}", comparison.table);
    }

    #[test]
    fn what_is_written_is_read_again() {
        let budgets = of("rustc 1 (x), linux", &[("wire/a/b", 7), ("lb/c/d", 8)]);
        assert_eq!(toml::from_str::<InstructionBudgets>(&budgets.text()), Ok(budgets));
        assert!(
            toml::from_str::<InstructionBudgets>("rustc = \"1\"\n[instructions]\n\"a\" = -1\n")
                .is_err()
        );
    }
}
