//! The NCCL plugin over two rails: all tables and checks on the loopback. Then between two
//! namespaces, the goodput over one rail of 100 Mbit/s and over two.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use braid_lab::Namespace;

use super::{place, rails};
use crate::process::Program;
use crate::{Failure, process, programs, tree};

/// By rail: the device, and the addresses of both ends, all of one subnet: each rail has to use its
/// own device.
const LINKS: [[&str; 3]; 2] =
    [["braid0", "10.77.0.1", "10.77.0.2"], ["braid1", "10.77.0.11", "10.77.0.12"]];
const MTU: u32 = 9000;
/// Each rail's, both ways: a token bucket whose queue holds what the window below allows.
const LINK: &str = "tbf rate 100mbit burst 64k latency 100ms";
const CC: &str = "fixed:1M";
const SERVER: &str = "10.77.0.1:47920";
/// The least ratio of two rails to one.
const LEAST: f64 = 1.9;
const LIMIT: Duration = Duration::from_secs(240);

/// Checks, measures both, and compares.
pub(super) fn run() -> Result<(), Failure> {
    let program = programs::build()?.join("nccl-conformance");
    let mut conformance = Command::new(&program);
    Program::start(conformance.args(["--rails", "127.0.0.1,127.0.0.2"]))?.wait(LIMIT)?;
    let [[first, ..], [second, ..]] = LINKS;
    let links = Links::new()?;
    let one = links.measure(&program, first)?;
    let two = links.measure(&program, &format!("{first},{second}"))?;
    let ratio = two / one;
    println!(
        "NCCL plugin, rails of 100 Mbit/s: one {one:.1} Mbit/s, two {two:.1} Mbit/s, ratio {ratio:.2}"
    );
    match ratio >= LEAST {
        true => Ok(()),
        false => Err(Failure::new(format!(
            "over two rails the NCCL plugin carries {ratio:.2} times as much as over one, not {LEAST} times"
        ))),
    }
}

/// Server and client, with two links between them.
struct Links {
    ends: [Namespace; 2],
    results: PathBuf,
}

impl Links {
    fn new() -> Result<Self, Failure> {
        let results = tree::target()?.join(format!("xtask/nccl-rails-{}.json", std::process::id()));
        let links = Self { ends: place::namespaces()?, results };
        rails::join(&links.ends, &LINKS, MTU)?;
        for host in &links.ends {
            for [device, ..] in LINKS {
                let mut tc = host.command(Path::new("tc"));
                tc.args(["qdisc", "add", "dev", device, "root"]).args(LINK.split(' '));
                process::run(tc.stdin(Stdio::null()))?;
                host.wait_until_up(device)?;
            }
        }
        Ok(links)
    }

    /// Mbit/s of the plugin over these rails.
    fn measure(&self, program: &Path, rails: &str) -> Result<f64, Failure> {
        let [server, client] = &self.ends;
        let mut server = at(server, program, rails);
        let mut server = Program::start(server.args(["--serve", SERVER]).stdout(Stdio::piped()))?;
        server.value("listening on ", LIMIT)?;
        let mut client = at(client, program, rails);
        client.args(["--against", SERVER, "--rounds", "5", "--seconds", "1", "--json"]);
        Program::start(client.arg(&self.results))?.wait(LIMIT)?;
        server.wait(LIMIT)?;
        self.read()
    }

    fn read(&self) -> Result<f64, Failure> {
        let wrong = |why: String| Failure::new(format!("{}: {why}", self.results.display()));
        let text = fs::read_to_string(&self.results).map_err(|error| wrong(error.to_string()))?;
        let json: serde_json::Value =
            serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        let rate = json["plugin_gbytes_per_s"].as_f64().filter(|rate| *rate > 0.0);
        rate.map(|rate| rate * 8e3).ok_or_else(|| wrong("it has no rate".to_owned()))
    }
}

/// The program in a namespace, with these interfaces as the rails of one device.
fn at(host: &Namespace, program: &Path, rails: &str) -> Command {
    let mut command = host.command(program);
    command.env("BRAID_RAILS", rails).env("BRAID_CC", CC).stdin(Stdio::null());
    command
}

impl Drop for Links {
    fn drop(&mut self) {
        // The file exists only after a measurement.
        let _ = fs::remove_file(&self.results);
    }
}
