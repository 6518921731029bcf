//! Figures 12 and 13: a mixture of experts.

use braid_lab::traffic::Phase;

use super::causes;
use super::load::Load;
use super::outcome::RailsOutcome;
use super::results::{Results, bars, claim, is_within, range};
use super::scale::RailsScale;
use super::scheme::RailsScheme;
use super::setup::RailsSetup;
use crate::{Study, Verdict};

/// Percent by which RailS completes sooner than the others, by phase.
const DENSE_SOONER: [[f64; 2]; 4] = [[19.5, 34.9], [8.9, 19.2], [25.3, 31.2], [17.9, 44.3]];
const SPARSE_SOONER: [[f64; 2]; 4] = [[66.1, 69.2], [75.1, 80.4], [75.1, 76.8], [73.9, 75.7]];
/// Percent of an iteration's time.
const DENSE_ITERATION: f64 = 18.0;
const SPARSE_ITERATION: f64 = 40.0;
/// Share of the all-to-all in an iteration, 40 to 60 % (figure 2), for ECMP here.
const PARTS: [f64; 2] = [0.4, 0.6];

/// One of the two figures.
struct Mode {
    figure: &'static str,
    data: &'static str,
    load: fn(Phase) -> Load,
    sooner: [[f64; 2]; 4],
}

const DENSE: Mode = Mode {
    figure: "fig12",
    data: "data on all GPUs of a domain",
    load: Load::Dense,
    sooner: DENSE_SOONER,
};
const SPARSE: Mode =
    Mode { figure: "fig13", data: "data on one GPU", load: Load::Sparse, sooner: SPARSE_SOONER };

pub(super) fn setups_of_dense(scale: &RailsScale) -> Vec<RailsSetup> {
    Phase::ALL.into_iter().flat_map(|phase| scale.compared((DENSE.load)(phase))).collect()
}

/// Returns the set-ups with data on one GPU, and those of figure 12, with which they are compared.
pub(super) fn setups_of_sparse(scale: &RailsScale) -> Vec<RailsSetup> {
    let sparse = Phase::ALL.into_iter().flat_map(|phase| scale.compared((SPARSE.load)(phase)));
    sparse.chain(setups_of_dense(scale)).collect()
}

/// Adds figure 12.
pub(super) fn add_dense(results: &Results, study: &mut Study) {
    figures(results, study, &DENSE);
    phases(results, study, &DENSE, causes::collisions());
    dense_iteration(results, study);
}

/// Adds figure 13.
pub(super) fn add_sparse(results: &Results, study: &mut Study) {
    figures(results, study, &SPARSE);
    phases(results, study, &SPARSE, &causes::nvlink(results));
    sparse_iteration(results, study);
    sparser_is_better(results, study);
}

fn figures(results: &Results, study: &mut Study, mode: &Mode) {
    let phases = Phase::ALL.map(|phase| (phase.name(), (mode.load)(phase)));
    let base = (RailsScheme::ECMP, RailsOutcome::total_us as fn(&RailsOutcome) -> f64);
    let over = |scheme, load| results.over((scheme, RailsOutcome::total_us), base, load);
    study.figures.push(bars(
        [
            &format!("{}a", mode.figure),
            &format!("All-to-all of a mixture of experts, {}", mode.data),
            "completion time over ECMP's",
        ],
        &phases,
        &RailsScheme::COMPARED,
        over,
    ));
    let part = PARTS[1];
    study.figures.push(bars(
        [
            &format!("{}b", mode.figure),
            &format!(
                "Iteration of which ECMP's all-to-all is {:.0} %, {}",
                100.0 * part,
                mode.data
            ),
            "iteration over ECMP's",
        ],
        &phases,
        &RailsScheme::COMPARED,
        |scheme, load| over(scheme, load).into_iter().map(|ratio| iteration(part, ratio)).collect(),
    ));
}

/// Returns an iteration over ECMP's: `part` of ECMP's is the all-to-all, which takes `ratio` times
/// ECMP's.
fn iteration(part: f64, ratio: f64) -> f64 {
    1.0 - part + part * ratio
}

fn phases(results: &Results, study: &mut Study, mode: &Mode, why: &str) {
    for (phase, papers) in Phase::ALL.into_iter().zip(mode.sooner) {
        let sooner = results.sooner(&RailsScheme::OTHERS, (mode.load)(phase));
        study.claims.push(claim(
            &format!("{}a", mode.figure),
            &format!(
                "in the phase `{}` RailS completes {} to {} % sooner",
                phase.name(),
                papers[0],
                papers[1]
            ),
            format!("{:.1} to {:.1} % sooner", sooner[0], sooner[1]),
            Verdict::of(is_within(sooner, papers), why),
        ));
    }
}

/// Returns the least and the most percent by which RailS' iteration is shorter, over phases and
/// schemes.
fn shorter(results: &Results, mode: &Mode, part: f64) -> [f64; 2] {
    let of_phase = |phase| {
        let load = (mode.load)(phase);
        let of = move |scheme| iteration(part, results.times(RailsScheme::ECMP, scheme, load));
        RailsScheme::OTHERS.map(|other| 100.0 * (1.0 - of(RailsScheme::RAILS) / of(other)))
    };
    range(Phase::ALL.into_iter().flat_map(of_phase))
}

fn dense_iteration(results: &Results, study: &mut Study) {
    let most = PARTS.map(|part| shorter(results, &DENSE, part)[1]);
    study.claims.push(claim(
        "fig12b",
        "an iteration is up to 18 % shorter",
        format!(
            "up to {:.1} % where ECMP's all-to-all is 40 % of it, up to {:.1} % where it is 60 %",
            most[0], most[1]
        ),
        Verdict::of(is_within([most[1]; 2], [DENSE_ITERATION; 2]), causes::collisions()),
    ));
}

fn sparse_iteration(results: &Results, study: &mut Study) {
    let least = PARTS.map(|part| shorter(results, &SPARSE, part)[0]);
    study.claims.push(claim(
        "fig13b",
        "an iteration is at least 40 % shorter",
        format!(
            "at least {:.1} % where ECMP's all-to-all is 40 % of it, {:.1} % where it is 60 %",
            least[0], least[1]
        ),
        Verdict::of(least[1] >= SPARSE_ITERATION, causes::nvlink(results)),
    ));
}

/// Judges section VI-F's two conclusions.
fn sparser_is_better(results: &Results, study: &mut Study) {
    let least = |load: fn(Phase) -> Load| {
        Phase::ALL.map(|phase| results.sooner(&RailsScheme::OTHERS, load(phase))[0])
    };
    let (dense, sparse) = (least(Load::Dense), least(Load::Sparse));
    let listed = |percent: [f64; 4]| percent.map(|least| format!("{least:.1}")).join(", ");
    study.claims.push(claim(
        "section VI-F",
        "the sparser the load matrix, the better RailS is",
        format!(
            "sooner than the best other by phase: {} % with data on all GPUs, {} % with data on \
                one",
            listed(dense),
            listed(sparse)
        ),
        Verdict::of(
            dense.iter().zip(sparse).all(|(dense, sparse)| sparse > *dense),
            "in some phase it gains less",
        ),
    ));
    let multipath = [RailsScheme::PLB, RailsScheme::MIN_RTT, RailsScheme::REPS];
    let times = |scheme| {
        let over = Phase::ALL
            .map(|phase| 1.0 / results.times(scheme, RailsScheme::ECMP, Load::Sparse(phase)));
        over.iter().sum::<f64>() / over.len() as f64
    };
    study.claims.push(claim(
        "fig13a",
        "schemes with several paths that do not receive in parallel are worse than ECMP",
        format!("completion time over ECMP's: {}", listed_times(&multipath, times)),
        Verdict::of(
            multipath.iter().all(|scheme| times(*scheme) > 1.001),
            "the destination's interface is the bottleneck of all of them, and takes the same \
                time",
        ),
    ));
}

fn listed_times(schemes: &[RailsScheme], of: impl Fn(RailsScheme) -> f64) -> String {
    super::results::listed(schemes, |scheme| format!("{:.3}", of(scheme)))
}
