//! One run of one case with one controller.

use std::time::Duration;

use braid::CcConfig;

use super::case::CongestionCase;
use super::flow::{BraidFlow, Flow, FlowSender, Work};
use super::lab::EmulatedLab;
use super::metric::{Measured, Metric};
use super::trace::{Trace, TraceSample};
use super::udp::Udp;
use crate::capacity;
use crate::failure::Failure;
use crate::pair::{LISTEN_LIMIT, Pair};
use crate::peer::options::{ClientOptions, PeerKind};
use crate::peer::tcp;
use crate::program;
use braid_lab::process::Program;

use crate::report::Row;

/// Limits of the bytes posted at a time. More would delay the end of a run.
const POSTED: std::ops::RangeInclusive<u64> = 1 << 20..=16 << 20;
/// Extra seconds for which a TCP sender is started. It is stopped at the end of the run.
const TCP_SECONDS_MORE: f64 = 60.0;

/// The results of one run.
pub(super) struct RunOutcome {
    pub(super) measured: Measured,
    pub(super) samples: Vec<TraceSample>,
}

/// Runs all flows of a case for some seconds.
pub(super) fn run(
    lab: &mut EmulatedLab,
    case: &CongestionCase,
    cc: &CcConfig,
    seconds: f64,
) -> Result<RunOutcome, Failure> {
    lab.take_trace()?;
    let whole = Duration::from_secs_f64(seconds);
    let others = start_tcp(lab, case, seconds)?;
    let mut pairs = start_braid(lab, case, cc, seconds)?;
    pairs.iter_mut().try_for_each(|pair| pair.wait_for_begin().map(|_| ()))?;
    let began = lab.now();
    let cross = start_udp(lab, case, whole)?;
    let rows = pairs.into_iter().map(Pair::finish).collect::<Result<Vec<Row>, _>>()?;
    drop((others, cross));
    let mut measured = Measured::new();
    let trace = Trace::of(&lab.take_trace()?, &case.bottlenecks, [began, began + whole]);
    trace.measure(case, &mut measured);
    of_braid(&rows, capacity::payload_gbps(case.rate(), lab.mtu()), &mut measured);
    Ok(RunOutcome { measured, samples: trace.samples() })
}

fn start_braid(
    lab: &EmulatedLab,
    case: &CongestionCase,
    cc: &CcConfig,
    seconds: f64,
) -> Result<Vec<Pair>, Failure> {
    let flows = || {
        case.flows.iter().enumerate().filter_map(|(index, flow)| match &flow.sender {
            FlowSender::BraidFlow(braid) => Some((index, flow, braid)),
            FlowSender::Tcp(_) | FlowSender::Udp(_) => None,
        })
    };
    // All servers start first, so that the clients begin close together.
    let server = |(index, flow, braid): (usize, &Flow, &BraidFlow)| {
        let mut server = lab.start("server", flow.to, &braid.server_args(cc, index))?;
        server.value("listening on ", LISTEN_LIMIT)?;
        Ok(server)
    };
    let servers = flows().map(server).collect::<Result<Vec<_>, Failure>>()?;
    let work = Work { posted: posted(case) / flows().count() as u64, seconds };
    let client = |((index, flow, braid), server): ((usize, &Flow, &BraidFlow), Program)| {
        let (to, json) = (lab.host(flow.to).ip.to_string(), lab.file(&format!("{index}.json")));
        let args = braid.client_args(cc, index, (&to, &json.to_string_lossy()), &work);
        Ok(Pair { client: lab.start("client", flow.from, &args)?, server, json, seconds })
    };
    flows().zip(servers).map(client).collect()
}

/// Starts senders and receivers of TCP, which run until they are dropped.
fn start_tcp(
    lab: &EmulatedLab,
    case: &CongestionCase,
    seconds: f64,
) -> Result<Vec<Program>, Failure> {
    let mut programs = Vec::new();
    for flow in &case.flows {
        let FlowSender::Tcp(congestion) = flow.sender else { continue };
        let args = tcp::receiver_args(lab.host(flow.to).ip.into());
        let mut receiver = lab.start_as_root("TCP receiver", flow.to, &args)?;
        let to = program::address(&mut receiver)?;
        let mut sender = ClientOptions::new(PeerKind::Tcp, to, seconds + TCP_SECONDS_MORE);
        sender.transport.congestion = congestion.to_owned();
        programs.push(lab.start_as_root("TCP sender", flow.from, &sender.arguments())?);
        programs.push(receiver);
    }
    Ok(programs)
}

fn start_udp(
    lab: &EmulatedLab,
    case: &CongestionCase,
    whole: Duration,
) -> Result<Vec<Udp>, Failure> {
    let start = |flow: &Flow| match flow.sender {
        FlowSender::Udp(rate) => Some(Udp::start(lab, (flow.from, flow.to), rate, whole)),
        FlowSender::BraidFlow(_) | FlowSender::Tcp(_) => None,
    };
    case.flows.iter().filter_map(start).collect()
}

/// Returns the bytes posted at a time, so many that completions do not limit the rate. Messages
/// complete in order, and at 5 % of losses some segment is lost four times in a row in every second
/// or so. Everything posted later waits for it, which takes as many round trips.
fn posted(case: &CongestionCase) -> u64 {
    let held = (case.rate().bits() as f64 * case.rtt.as_secs_f64() / 8.0) as u64 + case.queue();
    let round_trips = if case.loses() { 8 } else { 2 };
    (round_trips * held).clamp(*POSTED.start(), *POSTED.end())
}

/// Adds the figures reported by Braid's clients.
fn of_braid(rows: &[Row], capacity_gbps: f64, into: &mut Measured) {
    let goodput: f64 =
        rows.iter().filter_map(|row| row.figures.bandwidth).map(|b| b.goodput_gbps).sum();
    into.insert(Metric::GoodputOverCapacity, goodput / capacity_gbps);
    let sum = |field: fn(&Row) -> u64| rows.iter().map(field).sum::<u64>() as f64;
    let percent = |part: f64| part * 100.0 / sum(|row| row.traffic.segments_sent).max(1.0);
    let resent = percent(sum(|row| row.traffic.retransmitted_segments));
    into.insert(Metric::ResentPercent, resent);
    let spurious = percent(sum(|row| row.traffic.spurious_retransmissions));
    into.insert(Metric::SpuriousPercent, spurious);
    into.insert(Metric::Timeouts, sum(|row| row.traffic.timeouts));
    let messages: Vec<u64> = rows.iter().flat_map(|row| row.qp_messages.iter().copied()).collect();
    if messages.len() > 1 {
        into.insert(Metric::JainIndex, jain(&messages));
    }
}

/// Returns Jain's fairness index: 1 if all shares are equal, 1/n if one gets all (Jain, Chiu, Hawe,
/// DEC-TR-301, 1984).
fn jain(shares: &[u64]) -> f64 {
    let sum: f64 = shares.iter().map(|share| *share as f64).sum();
    let squares: f64 = shares.iter().map(|share| (*share as f64).powi(2)).sum();
    if squares == 0.0 { 0.0 } else { sum * sum / (squares * shares.len() as f64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fairness_is_between_one_in_all_and_one() {
        assert_eq!(jain(&[5, 5, 5, 5]), 1.0);
        assert_eq!(jain(&[8, 0, 0, 0]), 0.25);
        assert_eq!(jain(&[0, 0]), 0.0);
    }
}
