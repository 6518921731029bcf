//! Figures 10 and 11: loads with a Zipf distribution.

use braid_lab::traffic::ZIPF;
use braid_lb::LoadMse;

use super::causes;
use super::completion::{Quantity, curve};
use super::load::{Load, RAILS};
use super::outcome::{RailsOutcome, busiest};
use super::results::{Results, bars, claim, is_near, is_within, listed};
use super::scale::RailsScale;
use super::scheme::RailsScheme;
use super::setup::RailsSetup;
use crate::{Study, Verdict};

/// Bus bandwidths of RailS and REPS over PLB's, and of RailS over ECMP's and MinRTT's.
const SENDERS_OVER_PLB: [f64; 2] = [2.7, 2.75];
const SENDERS_OVER_OTHERS: [(RailsScheme, f64); 2] =
    [(RailsScheme::ECMP, 2.26), (RailsScheme::MIN_RTT, 1.58)];
const SENDERS_SOONER: [f64; 2] = [55.9, 62.9];
const SENDERS_SOONER_THAN_MIN_RTT: [f64; 2] = [34.6, 34.6];
const RECEIVERS_OVER_PLB: f64 = 3.08;
const RECEIVERS_REPS_OVER_PLB: f64 = 1.44;
/// Mean square error below which a load is even.
const EVEN: f64 = 0.01;
const PAPERS_UNEVEN: f64 = 0.15;
const PAPERS_MIN_RTT: f64 = 0.03;

pub(super) const SENDERS: Load = Load::skewed_senders(ZIPF);
pub(super) const RECEIVERS: Load = Load::skewed_receivers(ZIPF);

pub(super) fn setups_of_senders(scale: &RailsScale) -> Vec<RailsSetup> {
    scale.compared(SENDERS).collect()
}

pub(super) fn setups_of_receivers(scale: &RailsScale) -> Vec<RailsSetup> {
    scale.compared(RECEIVERS).collect()
}

/// Adds figure 10.
pub(super) fn add_senders(results: &Results, study: &mut Study) {
    figures(results, study, "fig10", "skewed senders", SENDERS);
    sender_bandwidth(results, study);
    sender_errors(results, study);
    sender_times(results, study);
}

/// Adds figure 11.
pub(super) fn add_receivers(results: &Results, study: &mut Study) {
    figures(results, study, "fig11", "skewed receivers", RECEIVERS);
    receiver_bandwidth(results, study);
    receiver_errors(results, study);
}

fn figures(results: &Results, study: &mut Study, id: &str, name: &str, load: Load) {
    let zipf = format!("Zipf {ZIPF}");
    let base = (RailsScheme::PLB, RailsOutcome::bus_gbps as fn(&RailsOutcome) -> f64);
    study.figures.push(bars(
        [&format!("{id}a"), &format!("Bus bandwidth, {name}"), "bus bandwidth over PLB's"],
        &[(zipf.as_str(), load)],
        &RailsScheme::COMPARED,
        |scheme, load| results.over((scheme, RailsOutcome::bus_gbps), base, load),
    ));
    let ways: [(&str, &str, Loads); 2] =
        [("b", "sent", |run| &run.sent), ("c", "received", |run| &run.received)];
    for (letter, verb, of) in ways {
        let nics: Vec<String> = (1..=RAILS).map(|nic| format!("NIC {nic}")).collect();
        let groups: Vec<(&str, usize)> = nics.iter().map(String::as_str).zip(0..).collect();
        study.figures.push(bars(
            [
                &format!("{id}{letter}"),
                &format!("What each interface of the busiest domain has {verb}, {name}"),
                "bytes over the mean",
            ],
            &groups,
            &RailsScheme::COMPARED,
            |scheme, nic| {
                results.of(scheme, load).iter().map(|run| over_mean(of(run), nic)).collect()
            },
        ));
    }
    let errors: [Quantity; 4] = [
        ("send, /max²", |run| run.send_mse().of_max),
        ("receive, /max²", |run| run.receive_mse().of_max),
        ("send, /mean²", |run| run.send_mse().of_mean),
        ("receive, /mean²", |run| run.receive_mse().of_mean),
    ];
    study.figures.push(bars(
        [
            &format!("{id}bc"),
            &format!("Mean square error of the busiest domain's interfaces, {name}"),
            "mean square error",
        ],
        &errors,
        &RailsScheme::COMPARED,
        |scheme, of| results.values(scheme, load, of),
    ));
    study.figures.push(curve(results, &format!("{id}d"), name, load));
}

/// Bytes by domain and interface.
type Loads = fn(&RailsOutcome) -> &[Vec<u64>];

fn over_mean(domains: &[Vec<u64>], nic: usize) -> f64 {
    let loads = busiest(domains);
    loads[nic] as f64 * loads.len() as f64 / loads.iter().sum::<u64>() as f64
}

fn sender_bandwidth(results: &Results, study: &mut Study) {
    let times = |scheme, base| results.times(scheme, base, SENDERS);
    let over_plb =
        [RailsScheme::RAILS, RailsScheme::REPS].map(|scheme| times(scheme, RailsScheme::PLB));
    let is_papers =
        over_plb.iter().zip(SENDERS_OVER_PLB).all(|(times, papers)| is_near(*times, papers));
    study.claims.push(claim(
        "fig10a",
        "RailS and REPS have 2.7 and 2.75 times PLB's bus bandwidth",
        format!("{:.2} and {:.2} times", over_plb[0], over_plb[1]),
        Verdict::of(is_papers, causes::exponent(results)),
    ));
    for ((base, papers), why) in SENDERS_OVER_OTHERS
        .into_iter()
        .zip([causes::exponent(results), causes::busy_interfaces(results)])
    {
        let measured = times(RailsScheme::RAILS, base);
        study.claims.push(claim(
            "fig10a",
            &format!("RailS has {:.0} % more than {}", 100.0 * (papers - 1.0), base.name),
            format!("{:.0} % more", 100.0 * (measured - 1.0)),
            Verdict::of(is_near(measured, papers), why),
        ));
    }
    let over_plb = |scheme| times(scheme, RailsScheme::PLB);
    let order = [
        RailsScheme::REPS,
        RailsScheme::RAILS,
        RailsScheme::MIN_RTT,
        RailsScheme::ECMP,
        RailsScheme::PLB,
    ];
    let is_papers = [RailsScheme::RAILS, RailsScheme::REPS]
        .iter()
        .all(|best| order[2..].iter().all(|other| over_plb(*best) > 1.1 * over_plb(*other)));
    study.claims.push(claim(
        "fig10a",
        "in this order: REPS and RailS, MinRTT, ECMP, PLB",
        listed(&order, |scheme| format!("{:.2}", over_plb(scheme))),
        Verdict::of(
            is_papers
                && order[2..].iter().map(|scheme| over_plb(*scheme)).is_sorted_by(|a, b| a >= b),
            causes::busy_interfaces(results),
        ),
    ));
}

fn errors(results: &Results, load: Load, of: fn(&RailsOutcome) -> LoadMse) -> String {
    let each = |scheme| {
        let mse = results.mse(scheme, load, of);
        format!("{:.3} ({:.3})", mse.of_max, mse.of_mean)
    };
    format!("over max² (mean²): {}", listed(&RailsScheme::COMPARED, each))
}

/// Returns whether the error agrees with the paper in one of the two normalisations.
fn is_error(mse: LoadMse, papers: f64) -> bool {
    is_near(mse.of_max, papers) || is_near(mse.of_mean, papers)
}

fn sender_errors(results: &Results, study: &mut Study) {
    let (sent, received) = (
        errors(results, SENDERS, RailsOutcome::send_mse),
        errors(results, SENDERS, RailsOutcome::receive_mse),
    );
    let mse = |scheme| results.mse(scheme, SENDERS, RailsOutcome::send_mse);
    let is_even = |scheme| mse(scheme).of_max < EVEN;
    study.claims.push(claim(
        "fig10b",
        "the sending error of RailS and REPS is below 0.01",
        sent.clone(),
        Verdict::of(
            is_even(RailsScheme::RAILS) && is_even(RailsScheme::REPS),
            causes::busy_interfaces(results),
        ),
    ));
    study.claims.push(claim(
        "fig10b",
        "that of MinRTT is about 0.03",
        sent.clone(),
        Verdict::of(
            is_error(mse(RailsScheme::MIN_RTT), PAPERS_MIN_RTT),
            causes::busy_interfaces(results),
        ),
    ));
    let both =
        [RailsScheme::PLB, RailsScheme::ECMP].map(|scheme| is_error(mse(scheme), PAPERS_UNEVEN));
    study.claims.push(claim(
        "fig10b",
        "that of PLB and ECMP is about 0.15",
        sent,
        Verdict::of(both == [true; 2], causes::normalisation(results)),
    ));
    let receiving = |scheme| results.mse(scheme, SENDERS, RailsOutcome::receive_mse).of_max;
    study.claims.push(claim(
        "fig10c",
        "every scheme's interfaces receive evenly",
        received,
        Verdict::of(
            RailsScheme::COMPARED.iter().all(|scheme| receiving(*scheme) < EVEN),
            "receivers are equal, and what reaches them is not",
        ),
    ));
}

fn sender_times(results: &Results, study: &mut Study) {
    let single = results.sooner(&[RailsScheme::ECMP, RailsScheme::PLB], SENDERS);
    let min_rtt = results.sooner(&[RailsScheme::MIN_RTT], SENDERS);
    study.claims.push(claim(
        "fig10d",
        "RailS completes 55.9 to 62.9 % sooner than ECMP and PLB, 34.6 % sooner than MinRTT",
        format!("{:.1} to {:.1} %, and {:.1} %", single[0], single[1], min_rtt[0]),
        Verdict::of(
            is_within(single, SENDERS_SOONER) && is_within(min_rtt, SENDERS_SOONER_THAN_MIN_RTT),
            format!("{}; {}", causes::exponent(results), causes::busy_interfaces(results)),
        ),
    ));
}

fn receiver_bandwidth(results: &Results, study: &mut Study) {
    let times = |scheme, base| results.times(scheme, base, RECEIVERS);
    let over_plb = times(RailsScheme::RAILS, RailsScheme::PLB);
    study.claims.push(claim(
        "fig11a",
        "RailS has 3.08 times PLB's bus bandwidth",
        format!("{over_plb:.2} times"),
        Verdict::of(is_near(over_plb, RECEIVERS_OVER_PLB), causes::exponent(results)),
    ));
    let others =
        [RailsScheme::ECMP, RailsScheme::MIN_RTT].map(|base| times(RailsScheme::RAILS, base));
    study.claims.push(claim(
        "fig11a",
        "it has at least twice that of ECMP and MinRTT",
        format!("{:.2} and {:.2} times", others[0], others[1]),
        Verdict::of(others.iter().all(|times| *times >= 2.0), causes::exponent(results)),
    ));
    let reps = times(RailsScheme::REPS, RailsScheme::PLB);
    study.claims.push(claim(
        "fig11a",
        "REPS has 1.44 times PLB's, less than half of RailS'",
        format!("{reps:.2} times, {:.2} of RailS'", times(RailsScheme::REPS, RailsScheme::RAILS)),
        Verdict::of(
            is_near(reps, RECEIVERS_REPS_OVER_PLB) && reps < 0.5 * over_plb,
            causes::where_flows_end(),
        ),
    ));
    let below =
        [RailsScheme::PLB, RailsScheme::MIN_RTT].map(|scheme| times(scheme, RailsScheme::ECMP));
    study.claims.push(claim(
        "fig11a",
        "PLB and MinRTT are below ECMP",
        format!("{:.3} and {:.3} times ECMP's", below[0], below[1]),
        Verdict::of(below.iter().all(|times| *times < 0.99), causes::where_flows_end()),
    ));
}

fn receiver_errors(results: &Results, study: &mut Study) {
    let (sent, received) = (
        errors(results, RECEIVERS, RailsOutcome::send_mse),
        errors(results, RECEIVERS, RailsOutcome::receive_mse),
    );
    let of = |scheme, side: fn(&RailsOutcome) -> LoadMse| results.mse(scheme, RECEIVERS, side);
    study.claims.push(claim(
        "fig11b",
        "every scheme's interfaces send evenly",
        sent,
        Verdict::of(
            RailsScheme::COMPARED
                .iter()
                .all(|scheme| of(*scheme, RailsOutcome::send_mse).of_max < EVEN),
            causes::busy_interfaces(results),
        ),
    ));
    study.claims.push(claim(
        "fig11c",
        "RailS' receiving error is below 0.01",
        received.clone(),
        Verdict::of(
            of(RailsScheme::RAILS, RailsOutcome::receive_mse).of_max < EVEN,
            "even sending has not made even receiving",
        ),
    ));
    study.claims.push(claim(
        "fig11c",
        "that of all others is about 0.15",
        received,
        Verdict::of(
            RailsScheme::OTHERS
                .iter()
                .all(|scheme| is_error(of(*scheme, RailsOutcome::receive_mse), PAPERS_UNEVEN)),
            causes::normalisation(results),
        ),
    ));
    let sooner = results.sooner(&RailsScheme::OTHERS, RECEIVERS);
    study.claims.push(claim(
        "fig11d",
        "RailS completes more than 50 % sooner than the others",
        format!("{:.1} to {:.1} % sooner", sooner[0], sooner[1]),
        Verdict::of(sooner[0] > 50.0, causes::exponent(results)),
    ));
}
