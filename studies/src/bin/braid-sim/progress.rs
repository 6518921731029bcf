//! Progress of the runs, on stderr if that is a terminal.

use braid_sim::report::RunFailure;
use braid_sim::scenario::Scenario;
use indicatif::{ProgressBar, ProgressStyle};

/// Creates a bar that counts the delivered bytes of all runs of a scenario.
///
/// # Errors
/// The scenario cannot be built.
pub(crate) fn bar(name: &str, scenario: &Scenario) -> Result<ProgressBar, RunFailure> {
    let style = ProgressStyle::with_template(
        "{prefix} {wide_bar} {percent} % of {binary_total_bytes}, {elapsed}, {eta} left",
    )
    .expect("the template is well-formed");
    let messages = scenario.plan(scenario.seed)?.workload.messages;
    let bytes: u64 = messages.iter().map(|message| message.bytes).sum();
    let all = bytes.saturating_mul(scenario.runs.into());
    Ok(ProgressBar::new(all).with_style(style).with_prefix(name.to_owned()))
}
