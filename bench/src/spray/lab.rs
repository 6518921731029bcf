//! A fabric to run on: clients on its first leaf, servers on its second.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use braid_lab::{Fabric, Host, Owner, Plan};
use serde::Deserialize;

use super::program::Program;
use super::trial::{Amount, Braid};
use crate::failure::Failure;
use crate::report::Row;

/// A server listens within so long.
pub(super) const LISTEN_LIMIT: Duration = Duration::from_secs(10);
/// A client connects and begins within so long.
const BEGIN_LIMIT: Duration = Duration::from_secs(20);
/// What a run may take beyond the time that it is asked to send for.
const GRACE: Duration = Duration::from_secs(60);
const PORT: u16 = 4791;
/// Ethernet, IPv4, UDP and Braid's own header.
const HEADER_BYTES: u32 = 14 + 20 + 8 + 60;
/// The part of the headers that an MTU covers.
const HEADER_IN_MTU: u32 = HEADER_BYTES - 14;

pub(super) struct Lab {
    fabric: Fabric,
    program: PathBuf,
    scratch: Scratch,
}

/// The part of a client's results that is needed here.
#[derive(Deserialize)]
struct Results {
    rows: Vec<Row>,
}

/// The forward way from leaf 0 to leaf 1, per spine: bytes into the spine, and out of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Forward {
    pub(super) up: u64,
    pub(super) down: u64,
}

impl Lab {
    /// A fabric that goes when this value does.
    pub(super) fn make(plan: Plan) -> Result<Self, Failure> {
        Lab::on(Fabric::up(plan, Owner::Process)?)
    }

    /// A fabric that stands.
    pub(super) fn find(name: &str) -> Result<Self, Failure> {
        let fabric = Fabric::find(name)?;
        let remedy = format!(
            "there is no fabric called `{name}`; `cargo xtask fabric up --name {name}` makes it"
        );
        Lab::on(fabric.ok_or(Failure::Usage(remedy))?)
    }

    fn on(fabric: Fabric) -> Result<Self, Failure> {
        let program = std::env::current_exe()
            .map_err(|why| Failure::Io { what: "cannot find this program".to_owned(), why })?;
        Ok(Lab { fabric, program, scratch: Scratch::make()? })
    }

    pub(super) fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    pub(super) fn plan(&self) -> &Plan {
        self.fabric.plan()
    }

    /// Host `index` of a leaf.
    pub(super) fn host(&self, leaf: usize, index: usize) -> &Host {
        let mut there = self.fabric.hosts().iter().filter(|host| host.leaf == leaf);
        there.nth(index).expect("the scenario was checked against the plan")
    }

    /// Payload that a link takes, in Gbit/s: its rate less the headers of full packets.
    pub(super) fn payload_gbps(&self, rate: braid_lab::Rate) -> f64 {
        let payload = f64::from(self.plan().mtu - HEADER_IN_MTU);
        rate.bits() as f64 * 1e-9 * payload / (payload + f64::from(HEADER_BYTES))
    }

    /// Payload that all spines take, in Gbit/s.
    pub(super) fn capacity_gbps(&self) -> f64 {
        self.plan().spines as f64 * self.payload_gbps(self.plan().rate)
    }

    /// Starts this program on a host.
    pub(super) fn start(
        &self,
        what: &str,
        host: &Host,
        args: &[String],
    ) -> Result<Program, Failure> {
        let mut command = self.fabric.command_on(host, &self.program);
        command.args(args);
        Program::start(&format!("{what} on {}", host.name), command)
    }

    /// A server on a host, ready for its client.
    pub(super) fn server(&self, host: &Host, braid: &Braid) -> Result<Program, Failure> {
        let mut server = self.start("server", host, &braid.server_args(PORT))?;
        server.word("listening on ", LISTEN_LIMIT)?;
        Ok(server)
    }

    /// A client of such a server on host `to`.
    pub(super) fn client(
        &self,
        from: &Host,
        (to, server): (&Host, Program),
        braid: &Braid,
        amount: Amount,
    ) -> Result<Pair, Failure> {
        let json = self.scratch.0.join(format!("{}.json", to.name));
        let args = braid.client_args(&to.ip.to_string(), PORT, amount, &json.to_string_lossy());
        let client = self.start("client", from, &args)?;
        let sends = if let Amount::Seconds(seconds) = amount { seconds } else { 0.0 };
        Ok(Pair { client, server, json, limit: GRACE + Duration::from_secs_f64(sends) })
    }

    /// A client on the first leaf and its server on the second.
    pub(super) fn pair(&self, braid: &Braid, amount: Amount) -> Result<Pair, Failure> {
        let (from, to) = (self.host(0, 0), self.host(1, 0));
        self.client(from, (to, self.server(to, braid)?), braid, amount)
    }

    /// The counters of the way forward, by spine.
    pub(super) fn forward(&self) -> Result<Vec<Forward>, Failure> {
        let mut forward = vec![Forward::default(); self.plan().spines];
        for link in self.fabric.links()? {
            match link.leaf {
                0 => forward[link.spine].up = link.to_spine.bytes,
                1 => forward[link.spine].down = link.to_leaf.bytes,
                _ => {}
            }
        }
        Ok(forward)
    }
}

/// A client and its server at work.
pub(super) struct Pair {
    client: Program,
    server: Program,
    json: PathBuf,
    limit: Duration,
}

impl Pair {
    /// Waits until the client measures; returns when that was.
    pub(super) fn wait_for_begin(&mut self) -> Result<Instant, Failure> {
        self.client.line(BEGIN_LIMIT)?;
        Ok(Instant::now())
    }

    /// Waits for the end and returns what the client has measured.
    pub(super) fn finish(self) -> Result<Row, Failure> {
        self.client.finish(self.limit)?;
        self.server.finish(GRACE)?;
        let what = || format!("cannot read {}", self.json.display());
        let text =
            std::fs::read_to_string(&self.json).map_err(|why| Failure::Io { what: what(), why })?;
        let results: Result<Results, _> = serde_json::from_str(&text);
        let results = results.map_err(|why| Failure::Trial(format!("{}: {why}", what())))?;
        results
            .rows
            .into_iter()
            .next()
            .ok_or_else(|| Failure::Trial(format!("{}: no rows", what())))
    }
}

/// A folder of our own that goes with this value.
struct Scratch(PathBuf);

impl Scratch {
    fn make() -> Result<Self, Failure> {
        let path = scratch_path();
        let made = std::fs::create_dir_all(&path);
        made.map_err(|why| Failure::Io { what: format!("cannot make {}", path.display()), why })?;
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        remove_scratch();
    }
}

fn scratch_path() -> PathBuf {
    std::env::temp_dir().join(format!("braid-spray-{}", std::process::id()))
}

/// For signal handlers, after which nothing is dropped.
pub(super) fn remove_scratch() {
    // It may be gone already, which is just as well.
    let _ = std::fs::remove_dir_all(scratch_path());
}
