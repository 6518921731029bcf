//! The rivals on rxe: perftest, between the machines; and iperf3, for what the link does to TCP.

use std::time::Duration;

use super::machine::HUNG;
use super::pair::{B, B1, Pair};
use super::server::{self, Port};
use crate::Failure;

const LIMIT: Duration = Duration::from_secs(40);
/// Of perftest's first connection, over TCP.
const PORT: u16 = 18515;
const IPERF_PORT: u16 = 5201;
/// perftest compares the processor's cycles with the clock before it measures, and gives up where a busy host
/// has let the emulated processor wait in between.
const CLOCK_TROUBLE: &str = "Can't produce a report";
/// What says nothing of Braid: perftest's clock, and a transfer of rxe's that never ends, which was seen. Trying again
/// is all that helps. Nobody tries again for Braid.
const RIVALS_TROUBLE: [&str; 2] = [CLOCK_TROUBLE, HUNG];
const ATTEMPTS: usize = 5;

/// One of perftest's programs with its arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Perftest {
    pub(super) program: &'static str,
    /// `RC`, `UC` or `UD`.
    pub(super) service: &'static str,
    pub(super) size: u64,
    pub(super) iterations: u64,
}

/// What one run came to.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Figure {
    /// MB/s, of 10^6 bytes.
    Bandwidth(f64),
    /// Microseconds, the median.
    Latency(f64),
}

impl Perftest {
    pub(super) fn run(self, pair: &Pair) -> Result<Figure, Failure> {
        self.run_on(pair, 0)
    }

    /// Over one of the two links.
    pub(super) fn run_on(self, pair: &Pair, link: u16) -> Result<Figure, Failure> {
        let mut result = self.attempt(pair, link);
        for _ in 1..ATTEMPTS {
            match &result {
                Err(failure) if is_rivals_trouble(failure) => {
                    eprintln!("again: {failure}");
                    result = self.attempt(pair, link);
                }
                _ => break,
            }
        }
        result
    }

    fn attempt(self, pair: &Pair, link: u16) -> Result<Figure, Failure> {
        let port = PORT + link;
        let command = format!("{} -d rxe{link} -p {port}", self.line());
        let host = if link == 0 { B } else { B1 };
        let client = format!("{command} {host}");
        let [text, _] = server::serve(pair, &command, Port::Tcp(port), &client, LIMIT)?;
        self.parse(&text).ok_or_else(|| {
            Failure::new(format!("a: `{client}` printed no row of results:\n{text}"))
        })
    }

    /// As it is typed, without a device.
    pub(super) fn line(self) -> String {
        let Self { program, service, size, iterations } = self;
        format!("{program} -c {service} -s {size} -n {iterations}")
    }

    /// The row that begins with our size and our number of iterations.
    fn parse(self, text: &str) -> Option<Figure> {
        let rows = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let (size, iterations) = (self.size.to_string(), self.iterations.to_string());
        let row =
            rows.into_iter().find(|row| row.len() > 4 && row[0] == size && row[1] == iterations)?;
        match self.program.ends_with("_lat") {
            // Bytes, iterations, least, most, typical.
            true => row[4].parse().ok().map(Figure::Latency),
            // Bytes, iterations, peak, average; perftest's MB is 2^20 bytes.
            false => row[3].parse::<f64>().ok().map(|mib| Figure::Bandwidth(mib * 1.048_576)),
        }
    }
}

fn is_rivals_trouble(failure: &Failure) -> bool {
    let said = failure.to_string();
    RIVALS_TROUBLE.iter().any(|trouble| said.contains(trouble))
}

/// TCP's bandwidth, in MB/s.
pub(super) fn tcp(pair: &Pair) -> Result<Figure, Failure> {
    let client = format!("iperf3 -c {B} -t 1 -f m");
    let port = Port::Tcp(IPERF_PORT);
    let [text, _] = server::serve(pair, "iperf3 -s -1", port, &client, LIMIT)?;
    parse_tcp(&text).map(Figure::Bandwidth).ok_or_else(|| {
        Failure::new(format!("a: `{client}` says nothing of what was received:\n{text}"))
    })
}

/// `[  5]   0.00-1.04   sec  58.3 MBytes   240 Mbits/sec   receiver`
fn parse_tcp(text: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.trim_end().ends_with("receiver"))?;
    let (before, _) = line.split_once("Mbits/sec")?;
    let megabits: f64 = before.split_whitespace().last()?.parse().ok()?;
    Some(megabits / 8.0)
}

impl Figure {
    /// The number, whatever it counts.
    pub(super) fn value(self) -> f64 {
        match self {
            Figure::Bandwidth(value) | Figure::Latency(value) => value,
        }
    }
}

impl std::fmt::Display for Figure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Figure::Bandwidth(megabytes) => write!(f, "{megabytes:.1} MB/s"),
            Figure::Latency(us) => write!(f, "{us:.0} us"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_bandwidth_is_found_among_the_rest() {
        let test = Perftest { program: "ib_write_bw", service: "RC", size: 65536, iterations: 300 };
        let text = " Mtu             : 4096[B]\n #bytes     #iterations    BW peak[MB/sec]    BW average\n \
                    65536      300              12.81               1.00    \t\t   0.000172\n---\n";
        assert_eq!(test.parse(text), Some(Figure::Bandwidth(1.048_576)));
        assert_eq!(test.parse(" 65536 299 1.0 1.0 0.1\n"), None);
        assert_eq!(test.parse(" 65536 300 x\n"), None);
        assert_eq!(test.parse(" 65536 300 1.0 nonsense 0.1\n"), None);
    }

    #[test]
    fn a_rival_that_stops_or_loses_its_clock_is_tried_again() {
        let after = |said: &str| is_rivals_trouble(&Failure::new(said));
        assert!(after("a: `ib_write_bw 10.77.0.2` hung: killed after 40 s"));
        assert!(after("Can't produce a report"));
        assert!(!after("a: `ib_write_bw 10.77.0.2` failed: exit code 1"));
    }

    #[test]
    fn a_latency_is_the_typical_one() {
        let test = Perftest { program: "ib_write_lat", service: "RC", size: 8, iterations: 2000 };
        let row = " 8       2000          227.42         22172.99      508.29   \t       1522.18\n";
        assert_eq!(test.parse(row), Some(Figure::Latency(508.29)));
    }

    #[test]
    fn tcp_is_what_the_receiver_got() {
        let text = "[  5] 0.00-2.02 sec 60.0 MBytes 250 Mbits/sec 0 sender\n\
                    [  5] 0.00-2.04 sec 58.3 MBytes 240 Mbits/sec     receiver\n\niperf Done.\n";
        assert_eq!(parse_tcp(text), Some(30.0));
        assert_eq!(parse_tcp("iperf3: error - unable to connect\n"), None);
    }
}
