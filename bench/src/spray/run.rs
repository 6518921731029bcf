//! One measured run of one sender.

use std::time::Duration;

use super::lab::SpineLab;
use super::record::SprayRecord;
use super::scenario::{MANY_HOSTS, MANY_QPS, SprayScenario};
use super::trial::{Amount, BraidSender, MESSAGE_BYTES, Sender};
use crate::failure::Failure;
use crate::pair::{LISTEN_LIMIT, Pair};
use crate::peer::metrics::GOODPUT;
use crate::peer::options::{ClientOptions, PeerKind};
use crate::peer::tcp;
use crate::program;
use crate::report::Row;
use braid_lab::{Rate, Trouble, Where};

/// A failure of a spine that ends on drop.
pub(super) struct Troubled<'a> {
    lab: &'a SpineLab,
    at: Where,
}

impl<'a> Troubled<'a> {
    pub(super) fn make(lab: &'a SpineLab, spine: usize, what: Trouble) -> Result<Self, Failure> {
        let at = Where { spine, leaf: None };
        lab.fabric().trouble(at, what)?;
        Ok(Troubled { lab, at })
    }

    pub(super) fn end(self) -> Result<(), Failure> {
        let (lab, at) = (self.lab, self.at);
        std::mem::forget(self);
        Ok(lab.fabric().restore(at)?)
    }
}

impl Drop for Troubled<'_> {
    fn drop(&mut self) {
        // Also reached after another failure, which will be reported instead.
        let _ = self.lab.fabric().restore(self.at);
    }
}

/// Returns a tenth of a spine's rate.
pub(super) fn slowed(lab: &SpineLab) -> Rate {
    Rate::from_bits(lab.plan().rate.bits() / 10)
}

/// Runs a sender for some seconds, without events.
pub(super) fn steady(
    lab: &SpineLab,
    scenario: SprayScenario,
    sender: &Sender,
    seconds: f64,
) -> Result<SprayRecord, Failure> {
    let capacity = match scenario {
        SprayScenario::Slow => {
            lab.capacity_gbps() - lab.payload_gbps(lab.plan().rate) + lab.payload_gbps(slowed(lab))
        }
        _ => lab.capacity_gbps(),
    };
    let mut record = SprayRecord::new(lab, scenario, capacity);
    let before = lab.forward()?;
    match sender {
        Sender::BraidSender(braid) => {
            let pair = lab.pair(braid, Amount::Seconds(seconds))?;
            record.braid(braid, &[pair.finish()?]);
        }
        Sender::Tcp(streams) => {
            record.policy = "tcp".to_owned();
            record.queue_pairs = *streams;
            record.goodput(tcp_gbps(lab, *streams, seconds)?);
        }
    }
    record.links(&before, &lab.forward()?);
    Ok(record)
}

fn tcp_gbps(lab: &SpineLab, streams: u32, seconds: f64) -> Result<f64, Failure> {
    let (from, to) = (lab.host(0, 0), lab.host(1, 0));
    let limit = LISTEN_LIMIT + Duration::from_secs_f64(seconds);
    let mut servers = Vec::new();
    let mut senders = Vec::new();
    for _ in 0..streams {
        let mut server = lab.start("TCP receiver", to, &tcp::receiver_args(to.ip.into()))?;
        let sender = ClientOptions::new(PeerKind::Tcp, program::address(&mut server)?, seconds);
        senders.push(lab.start("TCP sender", from, &sender.arguments())?);
        servers.push(server);
    }
    let mut sum = 0.0;
    for mut sender in senders {
        let report = program::report(&mut sender, limit)?;
        sum += report.get(GOODPUT).map_or(0.0, |gigabytes| gigabytes * 8.0);
        sender.wait(limit)?;
    }
    servers.iter_mut().try_for_each(|server| server.wait(limit))?;
    Ok(sum)
}

/// Runs a client per destination at once; each queue pair has the same bytes to send.
pub(super) fn many(
    lab: &SpineLab,
    braid: &BraidSender,
    seconds: f64,
) -> Result<SprayRecord, Failure> {
    let mut record = SprayRecord::new(lab, SprayScenario::Many, lab.capacity_gbps());
    let all = MANY_HOSTS as u32 * MANY_QPS;
    let braid = braid.queue_pairs(MANY_QPS, all);
    let bytes = lab.capacity_gbps() * seconds / 8e-9 / f64::from(all);
    let messages = (bytes / MESSAGE_BYTES as f64).ceil() as u64;
    let amount = Amount::Messages(messages);
    let before = lab.forward()?;
    // All servers start first, so that the clients begin close together.
    let server = |i| Ok((lab.host(1, i), lab.server(lab.host(1, i), &braid)?));
    let servers = (0..MANY_HOSTS).map(server).collect::<Result<Vec<_>, Failure>>()?;
    let client = |server| lab.client(lab.host(0, 0), server, &braid, amount);
    let pairs = servers.into_iter().map(client).collect::<Result<Vec<_>, _>>()?;
    let rows = pairs.into_iter().map(Pair::finish).collect::<Result<Vec<_>, _>>()?;
    record.braid(&braid, &rows);
    let finished = || rows.iter().flat_map(|row| row.qp_seconds.iter().copied());
    let (first, last) = (finished().fold(f64::MAX, f64::min), finished().fold(0.0, f64::max));
    record
        .goodput(messages as f64 * MESSAGE_BYTES as f64 * f64::from(all) * 8e-9 / makespan(&rows));
    record.finish_max_over_min = Some(last / first);
    record.links(&before, &lab.forward()?);
    Ok(record)
}

/// Returns the seconds from the first message of the first client to the last of the last.
fn makespan(rows: &[Row]) -> f64 {
    let began = || rows.iter().filter_map(|row| row.began_unix_s);
    let ended = rows.iter().filter_map(|row| {
        Some(row.began_unix_s? + row.qp_seconds.iter().copied().fold(0.0, f64::max))
    });
    ended.fold(0.0, f64::max) - began().fold(f64::MAX, f64::min)
}
