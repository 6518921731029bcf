//! Connections that end badly: a process that is killed, firewalls that refuse or drop packets in
//! mid-transfer.

use std::path::Path;
use std::time::Duration;

use super::case::UntidyCase;
use super::network::Network;
use crate::Failure;
use crate::e2e::peers::Said;
use crate::process::Program;

pub(super) const CASES: &[UntidyCase] = &[
    UntidyCase { name: "a server that is killed in mid-transfer", run: killed },
    UntidyCase { name: "a firewall that refuses the ports of paths", run: paths_refused },
    UntidyCase { name: "a firewall that silences a connection", run: silenced },
];

const SERVER: &str = "write-bw -p 47910 --bind 10.77.0.1";
/// The host of a process that has died says so: less than the 3 s that a silent peer has.
const NOTICED: Duration = Duration::from_secs(1);
/// The server has the same 3 s as the client, from a moment later on.
const GRACE: Duration = Duration::from_secs(2);

/// Rules that answer packets from the ports of the 16 paths, from 0xC000 on, with ICMP port
/// unreachable.
const REFUSES_PATHS: &str = "table inet braid { chain in { type filter hook input priority 0;
    udp sport 49152-49167 reject; }; }";
const DROPS_ALL: &str = "table inet braid { chain in { type filter hook input priority 0;
    meta l4proto udp drop; }; chain out { type filter hook output priority 0;
    meta l4proto udp drop; }; }";

fn network() -> Result<Network, Failure> {
    let network = Network::new()?;
    network.link([&network.server, &network.client], "braid0")?;
    network.server.ip(&["address add 10.77.0.1/24 dev braid0"])?;
    network.client.ip(&["address add 10.77.0.2/24 dev braid0"])?;
    Ok(network)
}

fn killed(braid_perf: &Path) -> Result<(), Failure> {
    let network = network()?;
    let kill = |server: &mut Program| {
        server.kill();
        Ok(())
    };
    let arguments = [SERVER, "write-bw -p 47910 -D 20 10.77.0.1"];
    let (said, took) = network.perf_and_change(braid_perf, arguments, kill, GRACE)?;
    says(&said.client, "the peer's host reports that the port is closed", &said)?;
    println!("        the client has ended {took:.1?} after its server");
    if took < NOTICED {
        return Ok(());
    }
    Err(Failure::new(format!("the client took {took:?}, more than {NOTICED:?}\n{}", said.client)))
}

fn paths_refused(braid_perf: &Path) -> Result<(), Failure> {
    let network = network()?;
    let refuse = |_: &mut _| Ok(network.server.nft(REFUSES_PATHS)?);
    let arguments = [SERVER, "write-bw -p 47910 -D 3 10.77.0.1"];
    let (said, _) = network.perf_and_change(braid_perf, arguments, refuse, GRACE)?;
    said.succeeded().map(drop)
}

fn silenced(braid_perf: &Path) -> Result<(), Failure> {
    let network = network()?;
    let silence = |_: &mut _| Ok(network.server.nft(DROPS_ALL)?);
    let arguments = [SERVER, "write-bw -p 47910 -D 20 10.77.0.1"];
    let (said, _) = network.perf_and_change(braid_perf, arguments, silence, GRACE)?;
    says(&said.client, "failed: retry exceeded: the peer did not answer in time", &said)?;
    let server = "the connection with the other side has ended: the peer did not answer in time";
    says(&said.server, server, &said)
}

/// One end has to say this.
fn says(end: &str, what: &str, all: &Said) -> Result<(), Failure> {
    if end.contains(what) {
        return Ok(());
    }
    Err(Failure::new(format!("nobody says `{what}`\n{}\n{}", all.server, all.client)))
}
