//! `braid-sim list`.

use braid_sim::report::wrapped;
use braid_sim::scenario::{MODELS, SWITCH_POLICIES, Scenario};
use braid_studies::PAPERS;

use crate::failure::Failure;
use crate::{scenarios, stdio};

/// Prints the available scenarios, models and policies.
///
/// # Errors
/// Standard output is closed or full.
pub(crate) fn list() -> Result<(), Failure> {
    let names = |names: Vec<&str>| format!("  {}\n", names.join(", "));
    let recoveries = braid_transport::LossRecovery::all().map(|recovery| recovery.name());
    let parts = [
        ("scenarios (braid-sim run FILE, or the name of one of these)", found()),
        (
            "models (`model = ..`, matrix --model ..)",
            lines(MODELS.iter().map(|(name, about, _)| (*name, *about))),
        ),
        (
            "switch policies (`switch = ..`, matrix --switch ..)",
            lines(SWITCH_POLICIES.iter().copied()),
        ),
        ("path policies (`lb = ..`, matrix --lb ..)", names(braid_lb::policy_names().collect())),
        (
            "rail policies (`policy = ..` of [rails])",
            names(braid_lb::rail_scheme_names().collect()),
        ),
        ("loss recoveries (`recovery = ..`)", names(recoveries.chain(["ideal"]).collect())),
        ("congestion controls (`cc = ..`)", names(braid_cc::controller_names().collect())),
        ("papers (braid-sim reproduce ..)", names(PAPERS.iter().map(|paper| paper.name).collect())),
    ];
    let parts = parts.map(|(heading, text)| format!("{heading}:\n{text}"));
    stdio::print(&parts.concat())
}

/// Lists the scenarios found from the working directory, and those of the installation.
fn found() -> String {
    let found: Vec<(String, String)> = scenarios::all()
        .into_iter()
        .filter_map(|file| {
            let scenario = Scenario::read(&file).ok()?;
            Some((file.display().to_string(), scenario.about))
        })
        .collect();
    if found.is_empty() {
        return "  none here; the examples are in sim/scenarios of Braid's sources\n".to_owned();
    }
    lines(found.iter().map(|(name, about)| (name.as_str(), about.as_str())))
}

fn lines<'a>(lines: impl Iterator<Item = (&'a str, &'a str)> + Clone) -> String {
    let width = lines.clone().map(|(name, _)| name.len()).max().unwrap_or(0);
    lines
        .map(|(name, about)| format!("  {name:<width$}  {}\n", wrapped(about, width + 4)))
        .collect()
}
