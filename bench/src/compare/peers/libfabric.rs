//! libfabric through its own `fi_pingpong`, the only benchmark that Debian packages. It sends one
//! message at a time, so only latency is compared.

use std::time::Duration;

use super::super::case::{CompareCase, Family};
use super::super::place::Place;
use super::{ComparedPeer, Needs, PeerOutcome, limit, rate};
use crate::failure::Failure;
use crate::peer::Metrics;
use crate::peer::metrics::ONE_WAY_MEAN;
use crate::program;

const PROGRAM: &str = "fi_pingpong";
/// The TCP port on which it exchanges addresses.
const PORT: u16 = 47_592;
/// The minimum number of messages for a good measurement.
const LEAST: u64 = 10;

/// A provider with its kind of endpoint.
pub(in crate::compare) struct Libfabric {
    provider: &'static str,
    endpoint: &'static str,
    /// Messages per second in the prepared case.
    per_second: f64,
}

impl Libfabric {
    /// Returns the providers that need no device.
    pub(in crate::compare) fn all() -> [Self; 2] {
        let of = |provider, endpoint| Libfabric { provider, endpoint, per_second: 0.0 };
        [of("tcp;ofi_rxm", "rdm"), of("udp;ofi_rxd", "rdm")]
    }

    /// Returns the microseconds of one message.
    fn once(&self, place: &Place, case: &CompareCase, count: u64) -> Result<f64, Failure> {
        let start = |what: &str, host, to: Option<String>| {
            let mut command = place.command(host, PROGRAM);
            command.args(["-p", self.provider, "-e", self.endpoint, "-m", "tagged"]);
            command.args(["-S", &case.size.to_string(), "-I", &count.to_string()]).args(to);
            command.envs([("FI_TCP_IFACE", "eth0"), ("FI_UDP_IFACE", "eth0")]);
            program::start(&format!("fi_pingpong {what} on h{host}"), command)
        };
        let mut server = start("server", 0, None)?;
        place.wait_for_listener(&server, PORT)?;
        let mut client = start("client", 1, Some(place.address(0).to_string()))?;
        let said = client.lines(limit(0.0))?;
        client.wait(Duration::from_secs(5))?;
        server.wait(Duration::from_secs(5))?;
        let last = said.last().map(String::as_str).unwrap_or_default();
        parse(last).ok_or_else(|| Failure::Trial(format!("fi_pingpong ended with `{last}`")))
    }
}

impl ComparedPeer for Libfabric {
    fn name(&self) -> String {
        format!("libfabric {}", self.provider)
    }

    fn fits(&self, case: &CompareCase) -> bool {
        case.family == Family::LatencySpinning
    }

    fn needs(&self) -> Option<Needs> {
        Some(Needs { program: PROGRAM, package: "libfabric-bin" })
    }

    fn prepare(&mut self, place: &Place, case: &CompareCase) -> Result<(), Failure> {
        self.per_second = rate(case, |count| Ok(self.once(place, case, count)? * 1e-6))?;
        Ok(())
    }

    fn run(
        &mut self,
        place: &Place,
        case: &CompareCase,
        seconds: f64,
    ) -> Result<PeerOutcome, Failure> {
        // An iteration is a round trip.
        let count = ((self.per_second * seconds) as u64 / 2).max(LEAST);
        let us = self.once(place, case, count)?;
        // The program reports the mean only.
        Ok(PeerOutcome::now(Metrics::from([(ONE_WAY_MEAN, us)]), us * 2e-6 * count as f64))
    }
}

/// Parses `bytes #sent #ack total time MB/sec usec/xfer Mxfers/sec`.
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
