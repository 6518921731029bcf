//! UCX over its TCP transport, through its own `ucx_perftest`. Its `ucp_get` is left out, because
//! it has only one operation in flight.

use std::time::Duration;

use super::super::case::{CompareCase, Family};
use super::super::place::Place;
use super::{ComparedPeer, Needs, PeerOutcome, limit, rate};
use crate::failure::Failure;
use crate::peer::Metrics;
use crate::peer::metrics::{GOODPUT, MESSAGE_RATE, ONE_WAY_P50, ONE_WAY_P99, ONE_WAY_P999};
use crate::program;
use braid_lab::process::Program;

const PROGRAM: &str = "ucx_perftest";
/// The TCP port on which a server waits for its client. The second direction uses the next port.
const PORT: u16 = 13_637;

/// The interfaces of UCX.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::compare) enum Via {
    Put,
    Tag,
    ActiveMessage,
}

pub(in crate::compare) struct Ucx {
    via: Via,
    /// Messages per second in the prepared case.
    per_second: f64,
}

/// The last line of a client's output.
#[derive(Clone, Copy, PartialEq, Debug)]
struct ResultLine {
    /// Time in microseconds at the requested percentile.
    percentile_us: f64,
    /// Mean time in microseconds over the whole run.
    overall_us: f64,
}

impl Ucx {
    pub(in crate::compare) fn new(via: Via) -> Self {
        Ucx { via, per_second: 0.0 }
    }

    fn test(&self, case: &CompareCase) -> &'static str {
        match (self.via, case.family.is_latency()) {
            (Via::Put, false) => "ucp_put_bw",
            (Via::Put, true) => "ucp_put_lat",
            (Via::Tag, false) => "tag_bw",
            (Via::Tag, true) => "tag_lat",
            (Via::ActiveMessage, false) => "ucp_am_bw",
            (Via::ActiveMessage, true) => "ucp_am_lat",
        }
    }

    /// Runs a pair of processes for each direction and returns their lines.
    fn once(
        &self,
        place: &Place,
        case: &CompareCase,
        count: u64,
        percentile: f64,
    ) -> Result<Vec<ResultLine>, Failure> {
        let mut running = Vec::new();
        for ((from, to), port) in case.directions().iter().zip(PORT..) {
            let start = |what: &str, host, args: &[String]| {
                let mut command = place.command(host, PROGRAM);
                command.args(["-p", &port.to_string()]).args(args);
                command.envs([("UCX_TLS", "tcp,self"), ("UCX_NET_DEVICES", "eth0")]);
                // Suppresses messages about missing transports.
                command.env("UCX_LOG_LEVEL", "error");
                program::start(&format!("ucx_perftest {what} on h{host}"), command)
            };
            let server = start("server", *to, &[])?;
            place.wait_for_listener(&server, port)?;
            let mut args = vec![place.address(*to).to_string(), "-f".to_owned()];
            let mut option = |name: &str, value: String| args.extend([name.to_owned(), value]);
            option("-t", self.test(case).to_owned());
            option("-s", case.size.to_string());
            option("-n", count.to_string());
            option("-w", (count / 10).clamp(1, 1000).to_string());
            option("-R", percentile.to_string());
            running.push((start("client", *from, &args)?, server));
        }
        running.into_iter().map(|(client, server)| last_line(client, server)).collect()
    }

    /// Returns the number of messages for this duration.
    fn count(&self, seconds: f64) -> u64 {
        (self.per_second * seconds).max(1.0) as u64
    }
}

impl ComparedPeer for Ucx {
    fn name(&self) -> String {
        let via = match self.via {
            Via::Put => "put",
            Via::Tag => "tag",
            Via::ActiveMessage => "am",
        };
        format!("UCX over TCP, {via}")
    }

    fn fits(&self, case: &CompareCase) -> bool {
        !matches!(
            case.family,
            Family::Paths
                | Family::QueuePairs
                | Family::LatencyBlocking
                | Family::Keyed
                | Family::KeyedLatency
        )
    }

    fn needs(&self) -> Option<Needs> {
        Some(Needs { program: PROGRAM, package: "ucx-utils" })
    }

    fn prepare(&mut self, place: &Place, case: &CompareCase) -> Result<(), Failure> {
        let look = |count| Ok(slowest(&self.once(place, case, count, 50.0)?) * 1e-6);
        self.per_second = rate(case, look)?;
        Ok(())
    }

    fn run(
        &mut self,
        place: &Place,
        case: &CompareCase,
        seconds: f64,
    ) -> Result<PeerOutcome, Failure> {
        if !case.family.is_latency() {
            let count = self.count(seconds);
            let lines = self.once(place, case, count, 50.0)?;
            let seconds = slowest(&lines) * 1e-6 * count as f64;
            let per_us: f64 = lines.iter().map(|line| 1.0 / line.overall_us).sum();
            let goodput = per_us * case.size as f64 * 1e-3;
            let metrics = Metrics::from([(GOODPUT, goodput), (MESSAGE_RATE, per_us)]);
            return Ok(PeerOutcome::now(metrics, seconds));
        }
        // A run reports one percentile.
        let each = [(50.0, ONE_WAY_P50), (99.0, ONE_WAY_P99), (99.9, ONE_WAY_P999)];
        let seconds = seconds / each.len() as f64;
        let count = self.count(seconds);
        let figure = |(percentile, name)| {
            let lines = self.once(place, case, count, percentile)?;
            Ok((name, lines.iter().map(|line| line.percentile_us).fold(0.0, f64::max)))
        };
        let metrics = each.into_iter().map(figure).collect::<Result<Metrics, Failure>>()?;
        Ok(PeerOutcome::now(metrics, seconds))
    }
}

/// Returns the microseconds of one message in the slower direction.
fn slowest(lines: &[ResultLine]) -> f64 {
    lines.iter().map(|line| line.overall_us).fold(0.0, f64::max)
}

/// Waits for both ends.
fn last_line(mut client: Program, mut server: Program) -> Result<ResultLine, Failure> {
    let said = client.lines(limit(0.0))?;
    client.wait(Duration::from_secs(5))?;
    server.wait(Duration::from_secs(5))?;
    let last = said.last().map(String::as_str).unwrap_or_default();
    parse(last).ok_or_else(|| Failure::Trial(format!("ucx_perftest ended with `{last}`")))
}

/// Parses the columns `iterations percentile average overall`, `bandwidth average overall` and
/// `rate average overall`.
fn parse(line: &str) -> Option<ResultLine> {
    let figures: Vec<f64> =
        line.split_whitespace().map(|word| word.parse().ok()).collect::<Option<_>>()?;
    match figures[..] {
        [_, percentile_us, _, overall_us, _, _, _, _] if overall_us > 0.0 => {
            Some(ResultLine { percentile_us, overall_us })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_is_read() {
        let line = "   20000   0.181   153.900   149.267   406.11   418.71   6498   6699";
        let read = ResultLine { percentile_us: 0.181, overall_us: 149.267 };
        assert_eq!(parse(line), Some(read));
        assert_eq!(parse("+------+"), None);
        assert_eq!(parse("1 2 3"), None);
    }
}
