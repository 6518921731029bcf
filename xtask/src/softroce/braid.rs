//! `braid-perf` between the machines.

use std::time::Duration;

use serde_json::Value;

use super::pair::{B, B1, Machines};
use super::perftest::Figure;
use super::server::{self, Port};
use crate::Failure;

const LIMIT: Duration = Duration::from_secs(40);
/// Not Braid's own, 4791: rxe has a socket of its own there, in the kernel.
const PORT: u16 = 7000;

/// Every test of `braid-perf`.
pub(super) const TESTS: [&str; 7] =
    ["write-bw", "read-bw", "send-bw", "write-lat", "read-lat", "send-lat", "atomic-lat"];

/// The datapath that carries the packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Datapath {
    Udp,
    Verbs,
}

/// One run of one test.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) test: &'static str,
    pub(super) datapath: Datapath,
    /// For both ends.
    pub(super) options: String,
    /// For the client.
    pub(super) load: String,
}

impl Datapath {
    pub(super) fn name(self) -> &'static str {
        match self {
            Datapath::Udp => "udp",
            Datapath::Verbs => "verbs",
        }
    }

    fn arguments(self, link: u16) -> String {
        match self {
            Datapath::Udp => "--datapath udp".to_owned(),
            Datapath::Verbs => format!("--datapath verbs -d rxe{link}"),
        }
    }
}

impl Run {
    /// Checks every byte of some messages.
    pub(super) fn verified(test: &'static str, datapath: Datapath) -> Self {
        let load = match test.ends_with("-lat") {
            true => "-n 100 --verify",
            // Longer than a packet and not a multiple of one; each buffer is used five times.
            false => "-s 100001 -n 40 --tx-depth 8 --verify",
        };
        // Over verbs each path is a queue pair of the device with 4 MiB to receive in, which takes
        // an emulated processor 0.1 s to make.
        let options = match datapath {
            Datapath::Udp => String::new(),
            Datapath::Verbs => "--paths 2".to_owned(),
        };
        Self { test, datapath, options, load: load.into() }
    }

    /// Measures WRITE, with or without a CRC; the two ends use one if either wants it.
    pub(super) fn write(datapath: Datapath, size: u64, iterations: u64, crc: &str) -> Self {
        let options = format!("--paths 4 --crc {crc}");
        // Memory takes an emulated processor 10 ns a byte to have.
        let depth = (8 << 20) / size;
        let load = format!("-s {size} -n {iterations} --tx-depth {depth}");
        Self { test: "write-bw", datapath, options, load }
    }

    pub(super) fn run(&self, pair: &Machines) -> Result<Figure, Failure> {
        self.run_on(pair, 0)
    }

    /// Over one of the two links.
    pub(super) fn run_on(&self, pair: &Machines, link: u16) -> Result<Figure, Failure> {
        let (server, client) = (self.server(link), self.client(link));
        let result = format!("/tmp/result{link}.json");
        let show = format!("{client} --json {result} && cat {result}");
        let [text, _] = server::serve(pair, &server, self.port(link), &show, LIMIT)?;
        self.parse(&text).map_err(|why| Failure::new(format!("a: `{client}`: {why}\n{text}")))
    }

    /// The command of machine b.
    pub(super) fn server(&self, link: u16) -> String {
        let datapath = self.datapath.arguments(link);
        let port = PORT + link;
        format!("braid-perf {} -p {port} {datapath} {}", self.test, self.options)
    }

    /// The command of machine a.
    pub(super) fn client(&self, link: u16) -> String {
        let host = if link == 0 { B } else { B1 };
        format!("{} {host} {}", self.server(link), self.load)
    }

    pub(super) fn port(&self, link: u16) -> Port {
        Port::Udp(PORT + link)
    }

    /// The one row of the result, which follows the table.
    fn parse(&self, text: &str) -> Result<Figure, &'static str> {
        let json = text.find("\n{").map_or(text, |at| &text[at..]);
        let value: Value = serde_json::from_str(json).map_err(|_| "no JSON in its output")?;
        let row = &value["rows"][0];
        if self.load.contains("--verify") && row["verified_messages"].as_u64().unwrap_or(0) == 0 {
            return Err("it has verified nothing");
        }
        if self.options.contains("--crc off") && value["crc"] != Value::Bool(false) {
            return Err("it used a CRC");
        }
        let bandwidth = row["bandwidth"]["goodput_gbytes_s"].as_f64();
        let latency = row["latency"]["p50_us"].as_f64();
        bandwidth
            .map(|gigabytes| Figure::Bandwidth(gigabytes * 1000.0))
            .or(latency.map(Figure::Latency))
            .ok_or("no figure in its JSON")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = " #bytes #iterations BW\n 65536 40 0.1\n verified: ...\n";

    #[test]
    fn figures_come_from_the_json_below_the_table() {
        let run = Run::verified("write-bw", Datapath::Udp);
        let row = "\"verified_messages\": 40, \"bandwidth\": {\"goodput_gbytes_s\": 0.0125}";
        let text = format!("{TABLE}{{\"crc\": true, \"rows\": [{{{row}}}]}}\n");
        assert_eq!(run.parse(&text), Ok(Figure::Bandwidth(12.5)));
        let nothing = text.replace("40, \"band", "0, \"band");
        assert_eq!(run.parse(&nothing), Err("it has verified nothing"));
        assert!(run.parse(TABLE).is_err());
        let off = Run::write(Datapath::Udp, 65536, 300, "off");
        assert_eq!(off.parse(&text), Err("it used a CRC"));
        assert_eq!(off.parse(&text.replace("true", "false")), Ok(Figure::Bandwidth(12.5)));
    }

    #[test]
    fn both_ends_get_what_both_must_know() {
        let run = Run::write(Datapath::Verbs, 65536, 300, "off");
        let server = "braid-perf write-bw -p 7001 --datapath verbs -d rxe1 --paths 4 --crc off";
        assert_eq!(run.server(1), server);
        assert_eq!(run.client(1), format!("{server} 10.77.1.2 -s 65536 -n 300 --tx-depth 128"));
    }
}
