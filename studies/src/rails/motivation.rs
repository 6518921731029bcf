//! The introduction's and section II's claims: disparities under ECMP, splitting by packets, and
//! the size of the system.

use braid_lab::traffic::Phase;

use super::load::Load;
use super::outcome::RailsOutcome;
use super::results::{Results, claim, listed};
use super::scale::RailsScale;
use super::scheme::RailsScheme;
use super::setup::RailsSetup;
use crate::{Claim, Study, Verdict};

/// The disparity of loads under ECMP.
const PAPERS_DISPARITY: [f64; 2] = [5.0, 10.0];
/// The loads under which disparities are read.
const LOADS: [(&str, Load); 4] = [
    ("uniform", Load::UNIFORM),
    ("expert data on all GPUs", Load::Dense(Phase::Start)),
    ("skewed receivers", Load::skewed_receivers(1.2)),
    ("expert data on one GPU", Load::Sparse(Phase::Start)),
];
/// Domains of the paper's largest system.
const DOMAINS: usize = 128;
/// Factor over T* up to which the largest system counts as balanced.
const SCALES: f64 = 1.25;
/// A buffer of a port in which the window of one subflow fits twice.
const BUFFER: u64 = 800_000;
/// Spraying by packets, and by chunks.
const GRANULARITIES: [RailsScheme; 2] = [RailsScheme::REPS, RailsScheme::RAILS];
/// The schemes on the largest system.
const LARGE: [RailsScheme; 2] = [RailsScheme::ECMP, RailsScheme::RAILS];

/// Returns a set-up with as many domains as the paper's largest system.
fn large(scale: &RailsScale, scheme: RailsScheme) -> RailsSetup {
    let usual = scale.setup(scheme, Load::NextEight);
    match scale.domains >= 8 {
        true => RailsSetup { domains: DOMAINS, spines: DOMAINS, mean: 1_000_000, ..usual },
        false => RailsSetup { domains: 16, spines: 16, ..usual },
    }
}

fn buffered(scale: &RailsScale, scheme: RailsScheme) -> RailsSetup {
    RailsSetup { buffer: BUFFER, ..scale.setup(scheme, Load::UNIFORM) }
}

pub(super) fn setups_of_disparity(scale: &RailsScale) -> Vec<RailsSetup> {
    LOADS.map(|(_, load)| scale.setup(RailsScheme::ECMP, load)).into()
}

pub(super) fn setups_of_buffers(scale: &RailsScale) -> Vec<RailsSetup> {
    GRANULARITIES.map(|scheme| buffered(scale, scheme)).into()
}

pub(super) fn setups_of_domains(scale: &RailsScale) -> Vec<RailsSetup> {
    LARGE.map(|scheme| large(scale, scheme)).into()
}

pub(super) fn setups(scale: &RailsScale) -> Vec<RailsSetup> {
    let [disparity, domains] = [setups_of_disparity(scale), setups_of_domains(scale)];
    [disparity, domains, setups_of_buffers(scale)].concat()
}

pub(super) fn add_disparity(results: &Results, study: &mut Study) {
    study.claims.push(disparities(results));
}

pub(super) fn add_buffers(results: &Results, study: &mut Study) {
    study.claims.push(packets(results));
}

pub(super) fn add_domains(results: &Results, study: &mut Study) {
    study.claims.push(many_domains(results));
    study.claims.push(Claim::untested(
        "section I",
        "splitting too finely overwhelms NICs, breaks their offload and costs CPU time \
            (challenge 3)",
        "a simulation of the network says nothing of NICs and processors",
    ));
    study.choices.push(
        "128 domains have expert data on one GPU each, 8 MB, for the eight domains after it: a \
            uniform load has a million flows there"
            .into(),
    );
}

fn disparities(results: &Results) -> Claim {
    let of = |load, of: fn(&RailsOutcome) -> f64| results.mean(RailsScheme::ECMP, load, of);
    let both = LOADS.map(|(_, load)| {
        [of(load, RailsOutcome::nic_disparity), of(load, RailsOutcome::uplink_disparity)]
    });
    let text = LOADS.iter().zip(both).map(|((name, _), [nic, uplink])| {
        format!("{name}: interfaces {nic:.1} times, uplinks {uplink:.1} times")
    });
    let most = both.iter().flatten().copied().fold(0.0, f64::max);
    claim(
        "section II-B",
        "ECMP's loads of interfaces and uplinks differ by up to 5 to 10 times",
        format!("highest over mean load: {}", text.collect::<Vec<_>>().join("; ")),
        Verdict::of(
            (PAPERS_DISPARITY[0]..=PAPERS_DISPARITY[1]).contains(&most),
            "the highest of these is outside of 5 to 10; of eight interfaces one that has \
                everything is 8 times the mean",
        ),
    )
}

fn packets(results: &Results) -> Claim {
    let lost = |scheme| results.runs.mean(&buffered(&results.scale, scheme), |run| run.lost as f64);
    claim(
        "section I",
        "splitting by packets lets too many arrive at a shared link at once, which overflows \
            buffers (challenge 3)",
        format!(
            "packets lost under uniform load with {} KB per port: {}",
            BUFFER / 1000,
            listed(&GRANULARITIES, |scheme| format!("{:.0}", lost(scheme)))
        ),
        Verdict::of(
            lost(RailsScheme::REPS) > 2.0 * lost(RailsScheme::RAILS) + 1.0,
            "windows of one bandwidth-delay product for each flow overflow a receiver's link \
                under either, or none does",
        ),
    )
}

fn many_domains(results: &Results) -> Claim {
    let mean = |scheme, of: fn(&RailsOutcome) -> f64| {
        results.runs.mean(&large(&results.scale, scheme), of)
    };
    let over = mean(RailsScheme::RAILS, RailsOutcome::over_bound);
    let [ecmp, ours] = LARGE.map(|scheme| mean(scheme, RailsOutcome::total_us));
    let domains = large(&results.scale, RailsScheme::RAILS).domains;
    claim(
        "section VI-A",
        "the system scales to 128 domains of eight GPUs",
        format!(
            "{domains} domains: RailS takes {over:.2} T*, {:.1} % less time than ECMP",
            100.0 * (1.0 - ours / ecmp)
        ),
        Verdict::of(
            over < SCALES,
            "flows of a domain to so many others are of a few chunks each, whose latency T* \
                leaves out",
        ),
    )
}
