//! Figures 10 and 11: loads that fall by Zipf.

use braid_lab::traffic::ZIPF;
use braid_lb::LoadMse;

use super::causes;
use super::completion::{Quantity, curve};
use super::load::{Load, RAILS};
use super::outcome::{Outcome, busiest};
use super::results::{Results, bars, claim, is_near, is_within, listed};
use super::scale::Scale;
use super::scheme::Scheme;
use super::setup::Setup;
use crate::{Study, Verdict};

/// Over PLB's: RailS' and REPS's; over ECMP's and MinRTT's: RailS'.
const SENDERS_OVER_PLB: [f64; 2] = [2.7, 2.75];
const SENDERS_OVER_OTHERS: [(Scheme, f64); 2] = [(Scheme::ECMP, 2.26), (Scheme::MIN_RTT, 1.58)];
const SENDERS_SOONER: [f64; 2] = [55.9, 62.9];
const SENDERS_SOONER_THAN_MIN_RTT: [f64; 2] = [34.6, 34.6];
const RECEIVERS_OVER_PLB: f64 = 3.08;
const RECEIVERS_REPS_OVER_PLB: f64 = 1.44;
/// Mean square errors below this are even.
const EVEN: f64 = 0.01;
const PAPERS_UNEVEN: f64 = 0.15;
const PAPERS_MIN_RTT: f64 = 0.03;

pub(super) const SENDERS: Load = Load::skewed_senders(ZIPF);
pub(super) const RECEIVERS: Load = Load::skewed_receivers(ZIPF);

pub(super) fn setups(scale: &Scale) -> Vec<Setup> {
    scale.compared(SENDERS).chain(scale.compared(RECEIVERS)).collect()
}

pub(super) fn add(results: &Results, study: &mut Study) {
    figures(results, study, "fig10", "skewed senders", SENDERS);
    figures(results, study, "fig11", "skewed receivers", RECEIVERS);
    sender_bandwidth(results, study);
    sender_errors(results, study);
    sender_times(results, study);
    receiver_bandwidth(results, study);
    receiver_errors(results, study);
}

fn figures(results: &Results, study: &mut Study, id: &str, name: &str, load: Load) {
    let zipf = format!("Zipf {ZIPF}");
    let base = (Scheme::PLB, Outcome::bus_gbps as fn(&Outcome) -> f64);
    study.figures.push(bars(
        [&format!("{id}a"), &format!("Bus bandwidth, {name}"), "bus bandwidth over PLB's"],
        &[(zipf.as_str(), load)],
        &Scheme::COMPARED,
        |scheme, load| results.over((scheme, Outcome::bus_gbps), base, load),
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
            &Scheme::COMPARED,
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
        &Scheme::COMPARED,
        |scheme, of| results.values(scheme, load, of),
    ));
    study.figures.push(curve(results, &format!("{id}d"), name, load));
}

/// Bytes by domain and interface.
type Loads = fn(&Outcome) -> &[Vec<u64>];

fn over_mean(domains: &[Vec<u64>], nic: usize) -> f64 {
    let loads = busiest(domains);
    loads[nic] as f64 * loads.len() as f64 / loads.iter().sum::<u64>() as f64
}

fn sender_bandwidth(results: &Results, study: &mut Study) {
    let times = |scheme, base| results.times(scheme, base, SENDERS);
    let over_plb = [Scheme::RAILS, Scheme::REPS].map(|scheme| times(scheme, Scheme::PLB));
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
        let measured = times(Scheme::RAILS, base);
        study.claims.push(claim(
            "fig10a",
            &format!("RailS has {:.0} % more than {}", 100.0 * (papers - 1.0), base.name),
            format!("{:.0} % more", 100.0 * (measured - 1.0)),
            Verdict::of(is_near(measured, papers), why),
        ));
    }
    let over_plb = |scheme| times(scheme, Scheme::PLB);
    let order = [Scheme::REPS, Scheme::RAILS, Scheme::MIN_RTT, Scheme::ECMP, Scheme::PLB];
    let is_papers = [Scheme::RAILS, Scheme::REPS]
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

fn errors(results: &Results, load: Load, of: fn(&Outcome) -> LoadMse) -> String {
    let each = |scheme| {
        let mse = results.mse(scheme, load, of);
        format!("{:.3} ({:.3})", mse.of_max, mse.of_mean)
    };
    format!("over max² (mean²): {}", listed(&Scheme::COMPARED, each))
}

/// In one of the two normalisations.
fn is_error(mse: LoadMse, papers: f64) -> bool {
    is_near(mse.of_max, papers) || is_near(mse.of_mean, papers)
}

fn sender_errors(results: &Results, study: &mut Study) {
    let (sent, received) = (
        errors(results, SENDERS, Outcome::send_mse),
        errors(results, SENDERS, Outcome::receive_mse),
    );
    let mse = |scheme| results.mse(scheme, SENDERS, Outcome::send_mse);
    let is_even = |scheme| mse(scheme).of_max < EVEN;
    study.claims.push(claim(
        "fig10b",
        "the sending error of RailS and REPS is below 0.01",
        sent.clone(),
        Verdict::of(
            is_even(Scheme::RAILS) && is_even(Scheme::REPS),
            causes::busy_interfaces(results),
        ),
    ));
    study.claims.push(claim(
        "fig10b",
        "that of MinRTT is about 0.03",
        sent.clone(),
        Verdict::of(
            is_error(mse(Scheme::MIN_RTT), PAPERS_MIN_RTT),
            causes::busy_interfaces(results),
        ),
    ));
    let both = [Scheme::PLB, Scheme::ECMP].map(|scheme| is_error(mse(scheme), PAPERS_UNEVEN));
    study.claims.push(claim(
        "fig10b",
        "that of PLB and ECMP is about 0.15",
        sent,
        Verdict::of(both == [true; 2], causes::normalisation(results)),
    ));
    let receiving = |scheme| results.mse(scheme, SENDERS, Outcome::receive_mse).of_max;
    study.claims.push(claim(
        "fig10c",
        "every scheme's interfaces receive evenly",
        received,
        Verdict::of(
            Scheme::COMPARED.iter().all(|scheme| receiving(*scheme) < EVEN),
            "receivers are equal, and what reaches them is not",
        ),
    ));
}

fn sender_times(results: &Results, study: &mut Study) {
    let single = results.sooner(&[Scheme::ECMP, Scheme::PLB], SENDERS);
    let min_rtt = results.sooner(&[Scheme::MIN_RTT], SENDERS);
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
    let over_plb = times(Scheme::RAILS, Scheme::PLB);
    study.claims.push(claim(
        "fig11a",
        "RailS has 3.08 times PLB's bus bandwidth",
        format!("{over_plb:.2} times"),
        Verdict::of(is_near(over_plb, RECEIVERS_OVER_PLB), causes::exponent(results)),
    ));
    let others = [Scheme::ECMP, Scheme::MIN_RTT].map(|base| times(Scheme::RAILS, base));
    study.claims.push(claim(
        "fig11a",
        "it has at least twice that of ECMP and MinRTT",
        format!("{:.2} and {:.2} times", others[0], others[1]),
        Verdict::of(others.iter().all(|times| *times >= 2.0), causes::exponent(results)),
    ));
    let reps = times(Scheme::REPS, Scheme::PLB);
    study.claims.push(claim(
        "fig11a",
        "REPS has 1.44 times PLB's, less than half of RailS'",
        format!("{reps:.2} times, {:.2} of RailS'", times(Scheme::REPS, Scheme::RAILS)),
        Verdict::of(
            is_near(reps, RECEIVERS_REPS_OVER_PLB) && reps < 0.5 * over_plb,
            causes::where_flows_end(),
        ),
    ));
    let below = [Scheme::PLB, Scheme::MIN_RTT].map(|scheme| times(scheme, Scheme::ECMP));
    study.claims.push(claim(
        "fig11a",
        "PLB and MinRTT are below ECMP",
        format!("{:.3} and {:.3} times ECMP's", below[0], below[1]),
        Verdict::of(below.iter().all(|times| *times < 0.99), causes::where_flows_end()),
    ));
}

fn receiver_errors(results: &Results, study: &mut Study) {
    let (sent, received) = (
        errors(results, RECEIVERS, Outcome::send_mse),
        errors(results, RECEIVERS, Outcome::receive_mse),
    );
    let of = |scheme, side: fn(&Outcome) -> LoadMse| results.mse(scheme, RECEIVERS, side);
    study.claims.push(claim(
        "fig11b",
        "every scheme's interfaces send evenly",
        sent,
        Verdict::of(
            Scheme::COMPARED.iter().all(|scheme| of(*scheme, Outcome::send_mse).of_max < EVEN),
            causes::busy_interfaces(results),
        ),
    ));
    study.claims.push(claim(
        "fig11c",
        "RailS' receiving error is below 0.01",
        received.clone(),
        Verdict::of(
            of(Scheme::RAILS, Outcome::receive_mse).of_max < EVEN,
            "even sending has not made even receiving",
        ),
    ));
    study.claims.push(claim(
        "fig11c",
        "that of all others is about 0.15",
        received,
        Verdict::of(
            Scheme::OTHERS
                .iter()
                .all(|scheme| is_error(of(*scheme, Outcome::receive_mse), PAPERS_UNEVEN)),
            causes::normalisation(results),
        ),
    ));
    let sooner = results.sooner(&Scheme::OTHERS, RECEIVERS);
    study.claims.push(claim(
        "fig11d",
        "RailS completes more than 50 % sooner than the others",
        format!("{:.1} to {:.1} % sooner", sooner[0], sooner[1]),
        Verdict::of(sooner[0] > 50.0, causes::exponent(results)),
    ));
}
