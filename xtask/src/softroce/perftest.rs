//! perftest between the machines, on rxe and on the drop-in libibverbs; and iperf3, for what the
//! link does to TCP.

use std::time::Duration;

use super::machine::HUNG;
use super::pair::{B, B1, Machines};
use super::server::{self, Port};
use crate::Failure;

const LIMIT: Duration = Duration::from_secs(40);
/// Time limit of a transfer between two ends on rxe, which takes about 1 s.
const RIVALS_LIMIT: Duration = Duration::from_secs(20);
/// The port of perftest's first connection, over TCP.
const PORT: u16 = 18515;
const IPERF_PORT: u16 = 5201;
/// perftest compares the processor's cycles with the clock before it measures, and gives up where a
/// busy host has let the emulated processor wait in between.
const CLOCK_TROUBLE: &str = "Can't produce a report";
const ATTEMPTS: usize = 5;
/// Attempts that may hang.
const HANGS: usize = 2;

/// The verbs library that a program calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Provider {
    /// The system's libibverbs and the kernel's devices.
    Rxe,
    /// Braid's libibverbs, over UDP, with or without a CRC.
    DropIn { crc: &'static str },
    /// Braid's libibverbs, which speaks plain RoCEv2. It needs the port that rxe has in the kernel.
    Roce,
}

impl Provider {
    /// Makes a program's command line one that starts it on them.
    pub(super) fn start(self, line: &str) -> String {
        match self {
            Provider::Rxe => line.to_owned(),
            Provider::DropIn { crc } => format!("BRAID_CRC={crc} braid-run --quiet {line}"),
            Provider::Roce => format!("BRAID_ROCE=always braid-run --quiet {line}"),
        }
    }

    /// The device of a link. To the drop-in the loopback is the last.
    pub(super) fn device(self, link: u16) -> String {
        match self {
            Provider::Rxe => format!("rxe{link}"),
            Provider::DropIn { .. } | Provider::Roce => format!("braid{link}"),
        }
    }

    /// The index of the GID of a device's address of this version. rxe's table begins with the
    /// link-local address.
    pub(super) fn gid(self, version: IpVersion) -> u8 {
        u8::from(self == Provider::Rxe) + u8::from(version == IpVersion::V6)
    }
}

/// The IP version of a device's address. The address of version 6 is a unique local one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum IpVersion {
    V4,
    V6,
}

/// One of perftest's programs with its arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Perftest {
    /// The libraries in machines a and b. The server is in b.
    pub(super) providers: [Provider; 2],
    pub(super) program: &'static str,
    /// `RC`, `UC` or `UD`.
    pub(super) service: &'static str,
    pub(super) size: u64,
    pub(super) iterations: u64,
}

/// The result of one run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Figure {
    /// MB/s, of 10^6 bytes.
    Bandwidth(f64),
    /// Microseconds, the median.
    Latency(f64),
}

impl Perftest {
    pub(super) fn run(self, pair: &Machines) -> Result<Figure, Failure> {
        self.run_on(pair, 0)
    }

    /// Over one of the two links.
    pub(super) fn run_on(self, pair: &Machines, link: u16) -> Result<Figure, Failure> {
        let mut hangs = 0;
        for _ in 1..ATTEMPTS {
            match self.attempt(pair, link) {
                Err(failure) if self.is_not_to_blame(&failure) => {
                    hangs += usize::from(failure.to_string().contains(HUNG));
                    if hangs == HANGS {
                        return Err(failure);
                    }
                    println!("again: {failure}");
                }
                result => return result,
            }
        }
        self.attempt(pair, link)
    }

    fn attempt(self, pair: &Machines, link: u16) -> Result<Figure, Failure> {
        let port = PORT + link;
        let [own, theirs] = self.commands(link, port);
        let host = if link == 0 { B } else { B1 };
        let client = format!("{own} {host}");
        let limit = if self.is_rivals() { RIVALS_LIMIT } else { LIMIT };
        let [text, _] = server::serve(pair, &theirs, Port::Tcp(port), &client, limit)?;
        self.parse(&text).ok_or_else(|| {
            Failure::new(format!("a: `{client}` printed no row of results:\n{text}"))
        })
    }

    /// The commands of both machines. RoCEv2 needs GIDs of one IP version, and a table of GIDs
    /// begins with another one in rxe.
    fn commands(self, link: u16, port: u16) -> [String; 2] {
        let names_gid = self.providers.contains(&Provider::Roce);
        self.providers.map(|provider| {
            let gid = format!(" -F -x {}", provider.gid(IpVersion::V4));
            let gid = if names_gid { gid.as_str() } else { "" };
            let device = provider.device(link);
            provider.start(&format!("{} -d {device} -p {port}{gid}", self.line()))
        })
    }

    /// Whether both ends are rxe.
    pub(super) fn is_rivals(self) -> bool {
        self.providers == [Provider::Rxe; 2]
    }

    /// Whether a failure says nothing of Braid: perftest's clock, and a transfer of rxe's that
    /// never ends, which was seen. Trying again is all that helps.
    fn is_not_to_blame(self, failure: &Failure) -> bool {
        let said = failure.to_string();
        said.contains(CLOCK_TROUBLE) || self.is_rivals() && said.contains(HUNG)
    }

    /// As it is typed, without a device and what starts it.
    pub(super) fn line(self) -> String {
        let Self { program, service, size, iterations, .. } = self;
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

/// TCP's bandwidth, in MB/s.
pub(super) fn tcp(pair: &Machines) -> Result<Figure, Failure> {
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

    const WRITE: Perftest = Perftest {
        providers: [Provider::Rxe; 2],
        program: "ib_write_bw",
        service: "RC",
        size: 65536,
        iterations: 300,
    };

    #[test]
    fn a_row_of_bandwidth_is_found_among_the_rest() {
        let test = WRITE;
        let text = " Mtu             : 4096[B]\n #bytes     #iterations    BW peak[MB/sec]    BW average\n \
                    65536      300              12.81               1.00    \t\t   0.000172\n---\n";
        assert_eq!(test.parse(text), Some(Figure::Bandwidth(1.048_576)));
        assert_eq!(test.parse(" 65536 299 1.0 1.0 0.1\n"), None);
        assert_eq!(test.parse(" 65536 300 x\n"), None);
        assert_eq!(test.parse(" 65536 300 1.0 nonsense 0.1\n"), None);
    }

    #[test]
    fn rxe_is_tried_again_where_it_hangs_and_the_drop_in_is_not() {
        let again = |provider: Provider, said: &str| {
            let test = Perftest { providers: [provider; 2], ..WRITE };
            test.is_not_to_blame(&Failure::new(said))
        };
        let drop_in = Provider::DropIn { crc: "on" };
        assert!(again(Provider::Rxe, "Can't produce a report") && again(drop_in, CLOCK_TROUBLE));
        let hung = "a: `ib_write_bw 10.77.0.2` hung: killed after 40 s";
        assert!(again(Provider::Rxe, hung) && !again(drop_in, hung));
        assert!(!again(Provider::Rxe, "a: `ib_write_bw 10.77.0.2` failed: exit code 1"));
    }

    #[test]
    fn the_drop_in_has_a_device_of_its_own_for_the_same_link() {
        assert_eq!(
            (Provider::Rxe.device(1), Provider::Rxe.start("x")),
            ("rxe1".into(), "x".into())
        );
        let drop_in = Provider::DropIn { crc: "off" };
        assert_eq!(drop_in.device(1), "braid1");
        assert_eq!(drop_in.start("x -n 1"), "BRAID_CRC=off braid-run --quiet x -n 1");
    }

    #[test]
    fn ends_of_rocev2_name_gids_of_one_version() {
        let test = Perftest { providers: [Provider::Roce, Provider::Rxe], ..WRITE };
        let line = "ib_write_bw -c RC -s 65536 -n 300";
        let own = format!("BRAID_ROCE=always braid-run --quiet {line} -d braid0 -p 7 -F -x 0");
        assert_eq!(test.commands(0, 7), [own, format!("{line} -d rxe0 -p 7 -F -x 1")]);
        assert_eq!(WRITE.commands(1, 7), [(); 2].map(|()| format!("{line} -d rxe1 -p 7")));
    }

    #[test]
    fn a_latency_is_the_typical_one() {
        let test = Perftest { program: "ib_write_lat", size: 8, iterations: 2000, ..WRITE };
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
