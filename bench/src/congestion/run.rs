//! One run of one case with one controller.

use std::time::Duration;

use braid::CcConfig;

use super::flow::{self, Client, Flow, Sender};
use super::lab::Lab;
use super::metric::{Measured, Metric};
use super::scenario::Case;
use super::trace::Trace;
use crate::capacity;
use crate::failure::Failure;
use crate::pair::{LISTEN_LIMIT, Pair};
use crate::report::Row;

/// Bytes posted at a time: twice what the network holds, but neither so little that completions matter nor so much that a run
/// takes long to end.
const POSTED: std::ops::RangeInclusive<u64> = 1 << 20..=8 << 20;

/// Runs all flows of a case for some seconds.
pub(super) fn run(
    lab: &mut Lab,
    case: &Case,
    cc: &CcConfig,
    seconds: f64,
) -> Result<Measured, Failure> {
    lab.take_trace()?;
    let servers = case.flows.iter().enumerate().map(|(index, flow)| server(lab, flow, index, cc));
    let servers = servers.collect::<Result<Vec<_>, _>>()?;
    let mut pairs = Vec::new();
    for (index, (flow, server)) in case.flows.iter().zip(servers).enumerate() {
        let Sender::Braid { queue_pairs } = flow.sender;
        let json = lab.file(&format!("{index}.json"));
        let posted = posted(case);
        let client = Client { cc, queue_pairs, posted, seconds };
        let to = lab.host(flow.to).ip.to_string();
        let args = client.args(&to, index, &json.to_string_lossy());
        pairs.push(Pair { client: lab.start("client", flow.from, &args)?, server, json, seconds });
    }
    pairs.iter_mut().try_for_each(|pair| pair.wait_for_begin().map(|_| ()))?;
    let began = lab.now();
    let rows = pairs.into_iter().map(Pair::finish).collect::<Result<Vec<Row>, _>>()?;
    let mut measured = Measured::new();
    let span = [began, began + Duration::from_secs_f64(seconds)];
    Trace::of(&lab.take_trace()?, &case.bottlenecks, span).measure(&mut measured);
    of_braid(&rows, capacity::payload_gbps(case.rate(), lab.mtu()), &mut measured);
    Ok(measured)
}

fn server(
    lab: &Lab,
    flow: &Flow,
    index: usize,
    cc: &CcConfig,
) -> Result<crate::program::Program, Failure> {
    let mut server = lab.start("server", flow.to, &flow::server_args(cc, index))?;
    server.word("listening on ", LISTEN_LIMIT)?;
    Ok(server)
}

fn posted(case: &Case) -> u64 {
    let held = (case.rate().bits() as f64 * case.rtt.as_secs_f64() / 8.0) as u64 + case.queue();
    (2 * held).clamp(*POSTED.start(), *POSTED.end())
}

/// What Braid's clients say of themselves.
fn of_braid(rows: &[Row], capacity_gbps: f64, into: &mut Measured) {
    let goodput: f64 = rows.iter().filter_map(|row| row.bandwidth).map(|b| b.goodput_gbps).sum();
    into.insert(Metric::GoodputOverCapacity, goodput / capacity_gbps);
    let sum = |field: fn(&Row) -> u64| rows.iter().map(field).sum::<u64>() as f64;
    let percent = |part: f64| part * 100.0 / sum(|row| row.traffic.segments_sent).max(1.0);
    let resent = percent(sum(|row| row.traffic.retransmitted_segments));
    into.insert(Metric::ResentPercent, resent);
    let spurious = percent(sum(|row| row.traffic.spurious_retransmissions));
    into.insert(Metric::SpuriousPercent, spurious);
    into.insert(Metric::Timeouts, sum(|row| row.traffic.timeouts));
}
