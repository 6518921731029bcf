//! libfabric, by its own `fi_pingpong`: one message at a time, in bulk too, because that is all that Debian has packaged.

use std::time::Duration;

use super::super::case::{Case, Family};
use super::super::place::Place;
use super::{Needs, Outcome, Peer, limit, rate};
use crate::failure::Failure;
use crate::peer::Metrics;
use crate::peer::metrics::{GOODPUT, ONE_WAY_P50};
use crate::program::Program;

const PROGRAM: &str = "fi_pingpong";
/// Where it exchanges addresses, over TCP.
const PORT: u16 = 47_592;
/// It measures no other numbers of messages well.
const LEAST: u64 = 10;
/// Longest message that it takes.
const MOST_BYTES: u64 = 8 << 20;

/// A provider, with the kind of endpoint that is to be had of it.
pub(in crate::compare) struct Libfabric {
    provider: &'static str,
    endpoint: &'static str,
    /// How many messages take a second in its case, where that has been found out.
    per_second: Option<f64>,
}

impl Libfabric {
    /// Those that need no device.
    pub(in crate::compare) fn all() -> [Self; 2] {
        let of = |provider, endpoint| Libfabric { provider, endpoint, per_second: None };
        [of("tcp;ofi_rxm", "rdm"), of("udp;ofi_rxd", "rdm")]
    }

    /// Microseconds of one message.
    fn once(&self, place: &Place, case: &Case, count: u64) -> Result<f64, Failure> {
        let start = |what: &str, host, to: Option<String>| {
            let mut command = place.command(host, PROGRAM);
            command.args(["-p", self.provider, "-e", self.endpoint, "-m", "tagged"]);
            command.args(["-S", &case.size.to_string(), "-I", &count.to_string()]).args(to);
            command.envs([("FI_TCP_IFACE", "eth0"), ("FI_UDP_IFACE", "eth0")]);
            Program::start(&format!("fi_pingpong {what} on h{host}"), command)
        };
        let server = start("server", 0, None)?;
        place.wait_for_listener(&server, PORT)?;
        let mut client = start("client", 1, Some(place.address(0).to_string()))?;
        let said = client.lines(limit(0.0))?;
        client.finish(Duration::from_secs(5))?;
        server.finish(Duration::from_secs(5))?;
        let last = said.last().map(String::as_str).unwrap_or_default();
        parse(last).ok_or_else(|| Failure::Trial(format!("fi_pingpong ended with `{last}`")))
    }
}

impl Peer for Libfabric {
    fn name(&self) -> String {
        format!("libfabric {}, one at a time", self.provider)
    }

    fn fits(&self, case: &Case) -> bool {
        match case.family {
            Family::OneWay => case.size <= MOST_BYTES,
            Family::LatencySpinning => true,
            _ => false,
        }
    }

    fn needs(&self) -> Option<Needs> {
        Some(Needs { program: PROGRAM, package: "libfabric-bin" })
    }

    fn run(&mut self, place: &Place, case: &Case, seconds: f64) -> Result<Outcome, Failure> {
        let per_second = match self.per_second {
            Some(known) => known,
            None => rate(case, |count| Ok(self.once(place, case, count)? * 1e-6))?,
        };
        self.per_second = Some(per_second);
        // An iteration is a message there and one back.
        let count = ((per_second * seconds) as u64 / 2).max(LEAST);
        let us = self.once(place, case, count)?;
        let metrics = match case.family.is_latency() {
            true => Metrics::from([(ONE_WAY_P50, us)]),
            false => Metrics::from([(GOODPUT, case.size as f64 * 1e-3 / us)]),
        };
        Ok(Outcome::now(metrics, us * 2e-6 * count as f64))
    }
}

/// `bytes #sent #ack total time MB/sec usec/xfer Mxfers/sec`.
fn parse(line: &str) -> Option<f64> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let us = words.get(6)?.parse::<f64>().ok()?;
    (words.len() == 8 && us > 0.0).then_some(us)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_is_read() {
        let line = "64k     1k      =1k      125m        0.04s   2970.40      22.06       0.05";
        assert_eq!(parse(line), Some(22.06));
        assert_eq!(parse("bytes #sent #ack total time MB/sec usec/xfer Mxfers/sec"), None);
        assert_eq!(parse(""), None);
    }
}
