//! `cargo xtask count`: the instructions that the hot path takes, against the budgets in
//! `bench/instructions.toml`.
//!
//! Time on a shared machine varies twofold, instructions under valgrind do not.

mod budgets;
mod gungraun;

use crate::{Failure, gungraun_runner, rustc, tools};

use self::budgets::InstructionBudgets;

/// CountOptions of `cargo xtask count`.
#[derive(clap::Args)]
pub struct CountOptions {
    /// Make the new counts the budgets
    #[arg(long)]
    accept: bool,
    /// Only builds what is counted, and what counts
    #[arg(long, conflicts_with = "accept")]
    build: bool,
}

/// Maximum number of counts before a case counts as too expensive. The engine's cases run by a real
/// clock and with secrets drawn anew, so a single count can be some percent too high.
const RUNS: usize = 3;

const ACCEPT: &str = "cargo xtask count --accept";

/// Counts all cases and compares each with its budget, or makes the counts the budgets.
///
/// # Errors
///
/// A case takes too much, or has no budget; a budget has no case; something cannot be built or run.
pub fn run(options: &CountOptions) -> Result<(), Failure> {
    tools::need("valgrind")?;
    gungraun_runner::install()?;
    if options.build {
        return gungraun::build();
    }
    let mut counted =
        InstructionBudgets { rustc: rustc::identity()?, instructions: gungraun::count()? };
    if options.accept {
        for _ in 1..RUNS {
            counted.take_least(gungraun::count()?);
        }
        counted.write()?;
        println!("{} budgets accepted: commit {}", counted.instructions.len(), budgets::FILE);
        return Ok(());
    }
    let budgets = InstructionBudgets::read()?;
    let mut comparison = budgets.judge(&counted);
    for _ in 1..RUNS {
        if comparison.breaches.is_empty() {
            break;
        }
        counted.take_least(gungraun::count()?);
        comparison = budgets.judge(&counted);
    }
    println!("{}", comparison.table);
    comparison.notes.iter().for_each(|note| println!("{note}"));
    match comparison.breaches.as_slice() {
        [] => Ok(()),
        breaches => {
            let remedy = "look where they go (`callgrind_annotate` on the case's .out file below \
                          target/gungraun), or, where they are worth it, accept them";
            Err(Failure::new(breaches.join("\n")).remedy(format!("{remedy}: {ACCEPT}")))
        }
    }
}
