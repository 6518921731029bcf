//! Braid itself: this program with its public options.

use std::time::Instant;

use braid::SecurityMode;

use super::super::case::{CompareCase, Family};
use super::super::place::Place;
use super::{ComparedPeer, PeerOutcome, moment};
use crate::failure::Failure;
use crate::pair::Pair;
use crate::peer::Metrics;
use crate::peer::metrics::{GOODPUT, MESSAGE_RATE, ONE_WAY_P50, ONE_WAY_P99, ONE_WAY_P999};
use crate::program;
use crate::report::Row;

/// The key file of both ends.
const KEY: &str = "key";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::compare) enum Operation {
    Write,
    Read,
    Send,
}

/// One operation, with or without payload checks.
#[derive(Clone, Copy)]
pub(in crate::compare) struct BraidPeer {
    pub(in crate::compare) operation: Operation,
    pub(in crate::compare) crc: bool,
    /// Whether a thread of the engine runs the protocol instead of the application.
    pub(in crate::compare) engine_thread: bool,
    /// The use of a key, if there is one.
    pub(in crate::compare) security: Option<SecurityMode>,
    /// Whether the packets travel over TCP connections.
    pub(in crate::compare) over_tcp: bool,
    /// Whether it has one path instead of the default number.
    pub(in crate::compare) one_path: bool,
}

impl BraidPeer {
    /// Returns the command and the options of both ends.
    fn args(&self, place: &Place, case: &CompareCase, host: usize) -> Vec<String> {
        let address = place.address(host);
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
        if self.over_tcp {
            option("--datapath", "tcp");
        }
        if self.one_path {
            option("--paths", "1");
        }
        option("--progress", if self.engine_thread { "thread" } else { "poll" });
        if let Some(mode) = self.security {
            option("--key", &place.file(KEY).to_string_lossy());
            option("--security", &mode.to_string());
        }
        args
    }
}

impl ComparedPeer for BraidPeer {
    fn name(&self) -> String {
        let operation = match self.operation {
            Operation::Write => "WRITE",
            Operation::Read => "READ",
            Operation::Send => "SEND",
        };
        let crc = if self.crc { "" } else { ", crc off" };
        let thread = if self.engine_thread { ", engine thread" } else { "" };
        let security = self.security.map(|mode| format!(", {mode}")).unwrap_or_default();
        let over = if self.over_tcp { ", over TCP" } else { "" };
        let paths = if self.one_path { ", one path" } else { "" };
        format!("Braid {operation}{over}{paths}{crc}{thread}{security}")
    }

    fn fits(&self, case: &CompareCase) -> bool {
        match case.family {
            Family::Keyed | Family::KeyedLatency => {
                self.crc && !self.engine_thread && self.operation == Operation::Write
            }
            _ if self.security.is_some() => false,
            Family::Paths => self.crc && !self.engine_thread && self.operation == Operation::Write,
            _ if self.one_path => false,
            Family::LatencyBlocking => self.crc && self.operation == Operation::Send,
            _ if self.engine_thread => false,
            Family::OneWay => self.crc || self.operation == Operation::Write,
            Family::BothWays | Family::QueuePairs => self.operation == Operation::Write,
            Family::MessageRate | Family::LatencySpinning => {
                self.crc && self.operation != Operation::Read
            }
        }
    }

    fn prepare(&mut self, place: &Place, _case: &CompareCase) -> Result<(), Failure> {
        let key = place.file(KEY);
        if self.security.is_none() || key.exists() {
            return Ok(());
        }
        braid::make_key(&key).map_err(|why| Failure::Key(why.to_string()))
    }

    fn run(
        &mut self,
        place: &Place,
        case: &CompareCase,
        seconds: f64,
    ) -> Result<PeerOutcome, Failure> {
        let mut server = place.start("Braid server", 0, &self.args(place, case, 0))?;
        let to = program::address(&mut server)?;
        let json = place.file("braid.json");
        let mut args = self.args(place, case, 1);
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
        // The processes end later, because both ends close the connection.
        let ended = row.began_unix_s.map_or_else(Instant::now, |began| moment(began + seconds));
        Ok(PeerOutcome { metrics: metrics(&row), seconds, ended })
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
