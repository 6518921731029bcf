//! Server of `--loopback`: this same program, in a process of its own.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};
use std::time::Duration;

use braid::Medium;
use braid_lab::process::Program;

use crate::cli::{Test, TestArgs};
use crate::engine_args::{EngineArgs, ProgressKind, Switch};
use crate::failure::Failure;
use crate::program;
use crate::quantities::address_text;

const NAME: &str = "the other side";
const FINISH: Duration = Duration::from_secs(10);

/// The server process. It is killed when this value is dropped.
pub(crate) struct Child {
    program: Program,
    address: SocketAddr,
}

impl Child {
    pub(crate) fn server(test: Test, args: &TestArgs) -> Result<Self, Failure> {
        let program = std::env::current_exe()
            .map_err(|why| Failure::Io { what: "cannot find this program".to_owned(), why })?;
        let mut command = Command::new(program);
        command.arg(test.name()).arg("--once").args(engine_args(&args.engine));
        // The metrics are the client's: an address has room for one process.
        command.env_remove("BRAID_METRICS").stdin(Stdio::null()).stdout(Stdio::piped());
        let mut program = Program::start_in_our_group(&mut command)?.named(NAME);
        let address = program::address(&mut program)?;
        Ok(Child { program, address })
    }

    /// The address of the server, as seen from this machine.
    pub(crate) fn address(&self) -> SocketAddr {
        let mut address = self.address;
        if address.ip().is_unspecified() {
            address.set_ip(IpAddr::V4(Ipv4Addr::LOCALHOST));
        }
        address
    }

    /// Waits for the end of the server, which has to be a good one.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        Ok(self.program.wait(FINISH)?)
    }
}

/// The options of a server. It gets everything else from the client.
fn engine_args(args: &EngineArgs) -> Vec<String> {
    let pairs = [
        ("--port", "0".to_owned()),
        (
            "--progress",
            if args.progress == ProgressKind::Poll { "poll" } else { "thread" }.to_owned(),
        ),
        ("--paths", args.policy.paths.to_string()),
        ("--lb", args.policy.lb.to_string()),
        ("--rail-policy", args.policy.rail_policy.to_string()),
        ("--cc", args.policy.cc.to_string()),
        ("--drop", args.faults.drop.to_string()),
        ("--reorder", args.faults.reorder.to_string()),
        ("--duplicate", args.faults.duplicate.to_string()),
        ("--corrupt", args.faults.corrupt.to_string()),
        ("--delay", args.faults.delay.to_string()),
        ("--memory", args.memory.to_string()),
        // The faults of server and client must not be the same.
        ("--seed", args.seed.wrapping_add(1).to_string()),
    ];
    let key = args.protection.key.as_ref().map(|key| ("--key", key.display().to_string()));
    let allowed = args.protection.allowed_keys.as_ref();
    let allowed = allowed.map(|file| ("--allowed-keys", file.display().to_string()));
    let security = args.protection.security.as_ref().map(|mode| ("--security", mode.to_string()));
    let datapath = args.datapath.filter(|kind| kind.medium() == Medium::Network);
    let datapath = datapath.map(|kind| ("--datapath", kind.name().to_owned()));
    let crc =
        args.crc.map(|crc| ("--crc", if crc == Switch::On { "on" } else { "off" }.to_owned()));
    let mtu = args.mtu.map(|mtu| ("--mtu", mtu.to_string()));
    let bind = address_text(args.bind.unwrap_or((Ipv4Addr::LOCALHOST, 0).into()));
    let rails: Vec<String> = args.policy.rails.iter().map(ToString::to_string).collect();
    let place = if rails.is_empty() { ("--bind", bind) } else { ("--rails", rails.join(",")) };
    let pairs = pairs.into_iter().chain([place]);
    pairs
        .chain(mtu)
        .chain(datapath)
        .chain(crc)
        .chain(key)
        .chain(allowed)
        .chain(security)
        .flat_map(|(name, value)| [name.to_owned(), value])
        .collect()
}
