//! Braid itself: this program, as people run it.

use std::time::Instant;

use super::super::case::{Case, Family};
use super::super::place::Place;
use super::{Outcome, Peer, moment};
use crate::failure::Failure;
use crate::pair::Pair;
use crate::peer::Metrics;
use crate::peer::metrics::{GOODPUT, MESSAGE_RATE, ONE_WAY_P50, ONE_WAY_P99, ONE_WAY_P999};
use crate::report::Row;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::compare) enum Operation {
    Write,
    Read,
    Send,
}

/// One operation, with payloads checked or not.
pub(in crate::compare) struct Braid {
    pub(in crate::compare) operation: Operation,
    pub(in crate::compare) crc: bool,
    /// A thread of the engine runs the protocol, not the application.
    pub(in crate::compare) engine_thread: bool,
}

impl Braid {
    /// The command and what both ends are told.
    fn args(&self, case: &Case, address: std::net::Ipv4Addr) -> Vec<String> {
        let operation = match self.operation {
            Operation::Write => "write",
            Operation::Read => "read",
            Operation::Send => "send",
        };
        let test = if case.family.is_latency() { "lat" } else { "bw" };
        let mut args = vec![format!("{operation}-{test}")];
        let mut option = |name: &str, value: &str| args.extend([name, value].map(str::to_owned));
        option("--bind", &address.to_string());
        option("--crc", if self.crc { "on" } else { "off" });
        option("--progress", if self.engine_thread { "thread" } else { "poll" });
        args
    }
}

impl Peer for Braid {
    fn name(&self) -> String {
        let operation = match self.operation {
            Operation::Write => "WRITE",
            Operation::Read => "READ",
            Operation::Send => "SEND",
        };
        let crc = if self.crc { "" } else { ", crc off" };
        let thread = if self.engine_thread { ", engine thread" } else { "" };
        format!("Braid {operation}{crc}{thread}")
    }

    fn fits(&self, case: &Case) -> bool {
        match case.family {
            Family::LatencyBlocking => self.crc && self.operation == Operation::Send,
            _ if self.engine_thread => false,
            Family::OneWay => self.crc || self.operation == Operation::Write,
            Family::BothWays | Family::QueuePairs => self.operation == Operation::Write,
            Family::MessageRate | Family::LatencySpinning => {
                self.crc && self.operation != Operation::Read
            }
        }
    }

    fn run(&mut self, place: &Place, case: &Case, seconds: f64) -> Result<Outcome, Failure> {
        let mut server = place.start("Braid server", 0, &self.args(case, place.address(0)))?;
        let to = server.address()?;
        let json = place.file("braid.json");
        let mut args = self.args(case, place.address(1));
        args.insert(1, to.ip().to_string());
        let mut option = |name: &str, value: String| args.extend([name.to_owned(), value]);
        option("--size", case.size.to_string());
        option("--qps", case.queue_pairs.to_string());
        option("--duration", seconds.to_string());
        option("--json", json.to_string_lossy().into_owned());
        args.extend((case.family == Family::BothWays).then(|| "--bidirectional".to_owned()));
        args.extend((case.family == Family::LatencyBlocking).then(|| "--events".to_owned()));
        let client = place.start("Braid client", 1, &args)?;
        let row = Pair { client, server, json, seconds }.finish()?;
        // Both ends take their leave of each other after that, which takes time.
        let ended = row.began_unix_s.map_or_else(Instant::now, |began| moment(began + seconds));
        Ok(Outcome { metrics: metrics(&row), seconds, ended })
    }
}

fn metrics(row: &Row) -> Metrics {
    let bandwidth = row.figures.bandwidth.map(|bandwidth| {
        [(GOODPUT, bandwidth.goodput_gbytes_s), (MESSAGE_RATE, bandwidth.rate_mmsgs)]
    });
    let latency = row.figures.latency.map(|latency| {
        [
            (ONE_WAY_P50, latency.p50_us),
            (ONE_WAY_P99, latency.p99_us),
            (ONE_WAY_P999, latency.p999_us),
        ]
    });
    bandwidth.into_iter().flatten().chain(latency.into_iter().flatten()).collect()
}
