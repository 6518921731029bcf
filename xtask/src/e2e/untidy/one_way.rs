//! Networks that lose everything one way: the way back of one rail, or of some paths.

use std::path::Path;

use super::case::UntidyCase;
use super::network::Network;
use crate::Failure;

pub(super) const CASES: &[UntidyCase] = &[
    UntidyCase { name: "two rails, of which one carries nothing back", run: rail_without_way_back },
    UntidyCase { name: "16 paths, of which 8 carry nothing back", run: paths_without_way_back },
];

/// A client and a server with two rails, each a subnet of its own.
fn two_rails() -> Result<Network, Failure> {
    let network = Network::new()?;
    for rail in 0..2 {
        let device = format!("braid{rail}");
        network.link([&network.server, &network.client], &device)?;
        let address = |host| format!("address add 10.77.{rail}.{host}/24 dev {device}");
        network.server.ip(&[&address(1)])?;
        network.client.ip(&[&address(2)])?;
    }
    Ok(network)
}

/// The first packets of the second rail reach the client, so that the rail shows that it works, and
/// no other.
const SECOND_RAIL: &str = "table inet braid { chain in { type filter hook input priority 0;
    iifname \"braid1\" meta l4proto udp limit rate over 1/hour burst 64 packets drop; }; }";

/// Nothing that leaves the server by every second path reaches the client.
const ODD_PATHS: &str = "table inet braid { chain in { type filter hook input priority 0;
    udp sport & 0xc001 == 0xc001 drop; }; }";

fn rail_without_way_back(braid_perf: &Path) -> Result<(), Failure> {
    let network = two_rails()?;
    network.client.nft(SECOND_RAIL)?;
    let said = network.perf(
        braid_perf,
        "write-bw -p 47911 --rails 10.77.0.1,10.77.1.1",
        "write-bw -p 47911 --rails 10.77.0.2,10.77.1.2 -s 65536 -n 5000 --verify 10.77.0.1",
    )?;
    said.succeeded()?;
    Ok(())
}

fn paths_without_way_back(braid_perf: &Path) -> Result<(), Failure> {
    let network = two_rails()?;
    network.client.nft(ODD_PATHS)?;
    let said = network.perf(
        braid_perf,
        "write-bw -p 47912 --bind 10.77.0.1",
        "write-bw -p 47912 -s 256 -n 100000 --verify 10.77.0.1",
    )?;
    said.succeeded()?;
    Ok(())
}
