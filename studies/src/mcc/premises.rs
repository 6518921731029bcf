//! Sections 1 to 4: what the paper says of flow-level balancing, and of signals of packets.

use super::outcome::{MccOutcome, Reading};
use super::runs::MccRuns;
use super::scale::MccScale;
use super::setup::{MccScheme, MccSetup, Routing};
use crate::{Study, Verdict};

/// Packets per acknowledgement where acknowledgements are coalesced.
const COALESCED: u32 = 32;
/// Utilisation of l1 from which it counts as full, and the time in which a fast control gets there.
const FULL: f64 = 0.95;
const FAST_MS: f64 = 1.0;

fn routed(scale: &MccScale, routing: Routing) -> MccSetup {
    MccSetup { routing, ..MccSetup::new(MccScheme::PAUSE, scale.usual()) }
}

fn coalesced(scale: &MccScale, scheme: MccScheme) -> MccSetup {
    MccSetup { ack_every: COALESCED, ..MccSetup::new(scheme, scale.usual()) }
}

pub(super) fn setups(scale: &MccScale) -> Vec<MccSetup> {
    let routings = [Routing::Ecmp, Routing::Subflows, Routing::Flowlets];
    let routed = routings.map(|routing| routed(scale, routing)).into_iter();
    let late = [MccScheme::TIMELY, MccScheme::MCC].map(|scheme| coalesced(scale, scheme));
    let packet = MccSetup::new(MccScheme::MCC_PACKET, scale.usual());
    routed.chain(late).chain([packet]).collect()
}

pub(super) fn add(scale: &MccScale, runs: &MccRuns, study: &mut Study) {
    flows(scale, runs, study);
    acknowledgements(scale, runs, study);
    messages(scale, runs, study);
    convergence(scale, runs, study);
}

/// Judges section 2.1: balancing by flows, by more queue pairs, and by flowlets.
fn flows(scale: &MccScale, runs: &MccRuns, study: &mut Study) {
    let time = |routing| runs.completion_ms(&routed(scale, routing));
    let adaptive = runs.completion_ms(&MccSetup::new(MccScheme::PAUSE, scale.usual()));
    for (says, routing, name) in [
        ("ECMP: flows collide on a path while another is idle", Routing::Ecmp, "ECMP"),
        (
            "more queue pairs for each flow do not eliminate collisions",
            Routing::Subflows,
            "four source ports per flow",
        ),
        (
            "flowlets cannot be told apart under rate shaping, and do not eliminate collisions",
            Routing::Flowlets,
            "PLB",
        ),
    ] {
        let of = time(routing);
        study.claims.push(scale.claim(
            "section 2.1",
            says,
            format!("{name} {of:.1} ms, adaptive routing {adaptive:.1} ms"),
            Verdict::of(of > 1.05 * adaptive, "it takes at most 5 % longer here"),
        ));
    }
}

/// Judges section 1: acknowledgements of many packets hide delays of single ones.
fn acknowledgements(scale: &MccScale, runs: &MccRuns, study: &mut Study) {
    let pair = |scheme| {
        let usual = MccSetup::new(scheme, scale.usual());
        [runs.completion_ms(&usual), runs.completion_ms(&coalesced(scale, scheme))]
    };
    let (timely, mcc) = (pair(MccScheme::TIMELY), pair(MccScheme::MCC));
    study.claims.push(scale.claim(
        "section 1",
        "coalesced acknowledgements prevent controls from seeing the delay of every packet",
        format!(
            "with an acknowledgement per {COALESCED} packets instead of each: TIMELY {:.1} for \
                {:.1} ms, MCC {:.1} for {:.1} ms",
            timely[1], timely[0], mcc[1], mcc[0]
        ),
        Verdict::of(
            timely[1] / timely[0] > 1.05 && mcc[1] / mcc[0] < 1.05,
            "TIMELY is not slower with them, or MCC is as well",
        ),
    ));
}

/// Judges section 3: messages as signals, against packets under the same rules.
fn messages(scale: &MccScale, runs: &MccRuns, study: &mut Study) {
    let [usual, packet] = [MccScheme::MCC, MccScheme::MCC_PACKET].map(|scheme| {
        let setup = MccSetup::new(scheme, scale.usual());
        [runs.completion_ms(&setup), 100.0 * runs.mean(&setup, |run| run.utilisation(0))]
    });
    study.claims.push(scale.claim(
        "section 3",
        "delays of messages are less misled by single paths than delays of packets",
        format!(
            "MCC's rules with messages of 64 KiB: {:.1} ms, l1 {:.1} %; of one packet: {:.1} ms, \
                l1 {:.1} %",
            usual[0], usual[1], packet[0], packet[1]
        ),
        Verdict::of(
            packet[0] > 1.02 * usual[0],
            "the delays are averaged in either, and an average over packets sees all paths, too",
        ),
    ));
}

/// Returns the milliseconds after which an uplink stays full while all senders send.
fn settled_ms(readings: &[Reading]) -> f64 {
    let last = readings.iter().rposition(|reading| reading.utilisation < FULL);
    last.map_or(0.0, |at| (at + 1) as f64 * super::outcome::INTERVAL.as_micros_f64() / 1e3)
}

/// Judges section 4: fast convergence by what is known of the topology.
fn convergence(scale: &MccScale, runs: &MccRuns, study: &mut Study) {
    let settled = |scheme| {
        let setup = MccSetup::new(scheme, scale.usual());
        runs.mean(&setup, |run: &MccOutcome| settled_ms(run.busy_readings(0)))
    };
    let (mcc, dcqcn) = (settled(MccScheme::MCC), settled(MccScheme::DCQCN));
    study.claims.push(scale.claim(
        "section 4",
        "what is known of the topology lets MCC converge fast in a congested network",
        format!("l1 stays at {:.0} % or more after {mcc:.1} ms, DCQCN {dcqcn:.1} ms", 100.0 * FULL),
        Verdict::of(mcc <= FAST_MS && mcc < dcqcn, "it takes longer"),
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_uplink_has_settled_after_its_last_reading_below_the_limit() {
        let reading = |utilisation| Reading { utilisation, packets: 1, marked: 0 };
        let readings = [reading(0.5), reading(1.0), reading(0.9), reading(1.0)];
        assert!((settled_ms(&readings) - 0.3).abs() < 1e-9);
        assert_eq!(settled_ms(&readings[3..]), 0.0);
    }
}
