//! The fabric of a run: clients on its first leaf, servers on its second.

use std::path::PathBuf;

use braid_lab::{Fabric, Host, Owner, Plan};

use super::trial::{Amount, BraidSender};
use crate::capacity;
use crate::failure::Failure;
use crate::pair::{LISTEN_LIMIT, Pair};
use crate::program;
use crate::scratch::Scratch;
use braid_lab::process::Program;

const PORT: u16 = 4791;

pub(super) struct SpineLab {
    fabric: Fabric,
    program: PathBuf,
    scratch: Scratch,
}

/// Counters of the path from leaf 0 to leaf 1 over one spine: bytes into the spine, and out of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Forward {
    pub(super) up: u64,
    pub(super) down: u64,
}

impl SpineLab {
    /// Makes a fabric that is removed on drop.
    pub(super) fn make(plan: Plan) -> Result<Self, Failure> {
        SpineLab::on(Fabric::up(plan, Owner::Process)?)
    }

    /// Finds an existing fabric.
    pub(super) fn find(name: &str) -> Result<Self, Failure> {
        let fabric = Fabric::find(name)?;
        let remedy = format!(
            "there is no fabric called `{name}`; `cargo xtask fabric up --name {name}` makes it"
        );
        SpineLab::on(fabric.ok_or(Failure::Usage(remedy))?)
    }

    fn on(fabric: Fabric) -> Result<Self, Failure> {
        let program = std::env::current_exe()
            .map_err(|why| Failure::Io { what: "cannot find this program".to_owned(), why })?;
        Ok(SpineLab { fabric, program, scratch: Scratch::make()? })
    }

    pub(super) fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    pub(super) fn plan(&self) -> &Plan {
        self.fabric.plan()
    }

    /// Returns host `index` of a leaf.
    pub(super) fn host(&self, leaf: usize, index: usize) -> &Host {
        let mut there = self.fabric.hosts().iter().filter(|host| host.leaf == leaf);
        there.nth(index).expect("the scenario was checked against the plan")
    }

    /// Returns the payload capacity of a link in Gbit/s: its rate less the headers of full packets.
    pub(super) fn payload_gbps(&self, rate: braid_lab::Rate) -> f64 {
        capacity::payload_gbps(rate, self.plan().mtu)
    }

    /// Returns the payload capacity of all spines in Gbit/s.
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
        program::start(&format!("{what} on {}", host.name), command)
    }

    /// Starts a server on a host, and waits until it listens.
    pub(super) fn server(&self, host: &Host, braid: &BraidSender) -> Result<Program, Failure> {
        let mut server = self.start("server", host, &braid.server_args(PORT))?;
        server.value("listening on ", LISTEN_LIMIT)?;
        Ok(server)
    }

    /// Starts a client of a server on host `to`.
    pub(super) fn client(
        &self,
        from: &Host,
        (to, server): (&Host, Program),
        braid: &BraidSender,
        amount: Amount,
    ) -> Result<Pair, Failure> {
        let json = self.scratch.path().join(format!("{}.json", to.name));
        let args = braid.client_args(&to.ip.to_string(), PORT, amount, &json.to_string_lossy());
        let client = self.start("client", from, &args)?;
        let seconds = if let Amount::Seconds(seconds) = amount { seconds } else { 0.0 };
        Ok(Pair { client, server, json, seconds })
    }

    /// Starts a client on the first leaf and its server on the second.
    pub(super) fn pair(&self, braid: &BraidSender, amount: Amount) -> Result<Pair, Failure> {
        let (from, to) = (self.host(0, 0), self.host(1, 0));
        self.client(from, (to, self.server(to, braid)?), braid, amount)
    }

    /// Returns the counters from leaf 0 to leaf 1, by spine.
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
